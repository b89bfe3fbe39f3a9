# SPDX-License-Identifier: Apache-2.0
"""`vp-agent explain`: a server of the running agent's report, told by `nova_vp/cli/explain.py`."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_config import cfg

from nova_vp.cli import labels
from nova_vp.cli.explain import Case, Reader, explain, harming
from nova_vp.interference import is_degraded
from vp_agent.cli.status import names_of, proposal
from vp_agent.loop.control_socket import Refused, RunFolder, ask

Report = Mapping[str, Any]
READER = Reader(accept="vp-agent accept", set_mode="vp-agent mode", host="vp-agent status")


class UnknownServer(Exception):
    """The message names those that run here."""


def add_arguments(parser: Any) -> None:
    parser.add_argument("server", help="Name or id of the server")


def run(conf: cfg.ConfigOpts) -> int:
    """Raises NoAgent, Refused, UnknownServer."""
    report = ask(RunFolder(conf.agent.run_directory), "status")
    if not report:
        raise Refused("the agent has no sample yet: check libvirt, and see the log of vp-agent")
    print(explain(case_of(report, conf.command.server)))
    return 0


def case_of(report: Report, server: str) -> Case:
    """By UUID or name. Raises UnknownServer."""
    vp, names = _find(report, server), names_of(report)
    found = vp["interference"]
    override = vp.get("override", {})
    return Case(
        name=f"{vp['name']} ({vp['uuid']})",
        reader=READER,
        seen_at=_time(report["at"]),
        metrics=vp["metrics"] or {},
        cpu_use=vp.get("cpu_use") or {},
        state=vp["state"],
        since=_time(vp["since"]),
        incomplete=vp["incomplete"] or "",
        sensitivity=tuple(vp["sensitivity"]),
        is_hurt=is_degraded(vp["state"], found and found["kind"]),
        hurt=tuple(_harm(found, names)) if found else (),
        hurts=tuple(_hurts(report, vp["uuid"])),
        refused=tuple(_refused(found, names)) if found else (),
        unmanaged=vp["unmanaged_detail"] or vp["unmanaged"] or "",
        overridden=", ".join(f"{what} {value}" for what, value in override.items()),
        done=tuple(_deed(action, names) for action in vp["actions"]),
        proposed={
            one["id"]: proposal(one, names)
            for one in report["proposals"]
            if vp["uuid"] in {one["uuid"], one["victim"], one["on_behalf_of"]}
        },
        is_judged=any(map(labels.is_judged, vp["actions"])),
        escalations={one["id"]: "" for one in report["escalations"] if one["victim"] == vp["uuid"]},
        mode=vp.get("mode", report["mode"]),
    )


def _find(report: Report, server: str) -> Mapping[str, Any]:
    found: list[Mapping[str, Any]] = [
        vp for vp in report["vps"] if server in (vp["uuid"], vp["name"])
    ]
    if len(found) == 1:
        return found[0]
    here = ", ".join(sorted(f"{vp['name']} ({vp['uuid']})" for vp in found or report["vps"]))
    many = f"{len(found)} servers are named" if found else "no server on this host is named"
    raise UnknownServer(f"{many} {server!r}: give the id of one of: {here or 'none'}")


def _harm(found: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    yield f"Yes, since {_time(found['since'])}: {labels.kind(found['kind'])}."
    for suspect in found["suspects"]:
        who = names.get(suspect["uuid"], suspect["uuid"])
        yield f"Aggressor: {who}, {labels.rise(found['kind'], suspect['rise_per_s'])}."


def _hurts(report: Report, uuid: str) -> Iterator[str]:
    for other in report["vps"]:
        found = other["interference"]
        if found and uuid in [suspect["uuid"] for suspect in found["suspects"]]:
            yield harming(other["name"], _time(found["since"]), labels.kind(found["kind"]))


def _refused(found: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    for one in found["refused"]:
        told = labels.refusal(one["rung"], one["why"])
        yield f"{names.get(one['uuid'], one['uuid'])}, {told}"


def _deed(action: Mapping[str, Any], names: Mapping[str, str]) -> str:
    return f"{_time(action['at'])} {proposal(action, names)}. Result: {labels.outcome(action)}."


def _time(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
