# SPDX-License-Identifier: Apache-2.0
"""`openstack vp explain`: what the API tells its caller of one server, in plain words.

The sentences are those of `nova_vp/cli/explain.py`, as in `vp-agent explain`. A tenant's case
is made of the tenant's answers alone: there is nothing of a neighbour in them.
"""

import argparse
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from osc_lib.command import command

from nova_vp.cli.explain import Case, Reader, explain, harming
from nova_vp.cli.labels import is_judged, outcome, result, rise
from vp_client import arguments, degradation_formatters, formatters
from vp_client.client import Client
from vp_client.errors import Refused
from vp_client.escalation_formatters import asked_of_cluster
from vp_client.plugin import client_of

Told = dict[str, Any]
LAST_ESCALATIONS = 100
SUFFERERS = 8
"""For whose sake a server may be named that is not hurt itself: each is one request."""


class Explain(command.Command):
    """Explain a server: measurements, state, aggressors, actions and next steps"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_server(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = client_of(self)
        vp = client.show_vp(parsed_args.server)
        if "host" in vp:
            host = client.show_host(vp["host"])
            latest = client.list_escalations(LAST_ESCALATIONS, host=vp["host"])
            sufferers = _sufferers(client, host, vp["server_id"])
            case = operators_case(vp, asked_of_cluster(vp, latest), sufferers)
        else:
            case = tenants_case(vp, client.vp_history(vp["server_id"]))
        self.app.stdout.write(f"{explain(case)}\n")


def _sufferers(client: Client, host: Told, server_id: str) -> list[Told]:
    """Some of the others that are hurt on that host: who is guilty stands nowhere else."""
    hurt = {one["server_id"] for kind in host["contention"] for one in kind["servers"]}
    found = []
    for uuid in sorted(hurt - {server_id})[:SUFFERERS]:
        with contextlib.suppress(Refused):  # It has just left.
            found.append(client.show_vp(uuid))
    return found


def tenants_case(vp: Told, history: list[Told]) -> Case:
    measured = [row["metrics"] for row in history if row["metrics"]]
    return Case(
        **_known(vp),
        reader=Reader(),
        metrics=measured[-1] if measured and not vp["is_stale"] else {},
        hurt=tuple(_own_harm(vp)),
        done=tuple(
            f"{one['at']} {one['what']}. Result: {result(one['result'])}." for one in vp["actions"]
        ),
        overridden=_overridden(vp),
    )


def operators_case(
    vp: Told, escalations: Mapping[str, str], sufferers: Iterable[Told] = ()
) -> Case:
    before = vp["last_known"] or vp
    found = before["interference"]
    return Case(
        **_known(vp),
        reader=_operator(vp["host"], can_follow=bool(escalations)),
        seen_at=vp["reported_at"],
        metrics=before["metrics"] or {},
        incomplete=before["incomplete"] or "",
        hurt=(*_harm(found), *degradation_formatters.loss(vp)) if found else (),
        hurts=tuple(_hurts(vp, sufferers)),
        refused=tuple(map(formatters.refusal, found["refused"])) if found else (),
        done=tuple(map(_deed, vp["actions"])),
        proposed={one["id"]: formatters.deed(one) for one in vp["proposals"]},
        is_judged=any(map(is_judged, vp["actions"])),
        escalations=escalations or {one["id"]: "" for one in vp["escalations"]},
        overridden=_overridden(vp),
        mode=vp["mode"]["mode"],
    )


def _known(vp: Told) -> Told:
    """What both are told."""
    before = vp["last_known"] or vp
    unmanaged = vp["unmanaged"] or {"reason": "", "detail": ""}
    return {
        "name": f"{vp['name']} ({vp['server_id']})",
        "is_stale": vp["is_stale"],
        "state": before["state"] and before["state"]["number"],
        "since": before["since"] or "",
        "sensitivity": tuple(vp["sensitivity"]),
        "cpu_use": before.get("cpu_use") or {},
        "is_hurt": before["hurt_by_neighbour"],
        "unmanaged": unmanaged["detail"] or unmanaged["reason"],
    }


def _operator(host: str, *, can_follow: bool) -> Reader:
    return Reader(
        accept="openstack vp action accept",
        set_mode=f"openstack vp host set {host} --mode",
        escalation="openstack vp escalation show" if can_follow else "",
        accept_escalation="openstack vp escalation accept",
        host=f"openstack vp host show {host}",
    )


def _own_harm(vp: Told) -> Iterator[str]:
    told = vp["degradation"]
    if told and vp["hurt_by_neighbour"]:
        yield f"Yes, by a neighbour, since {told['since']}."
        yield from degradation_formatters.loss(vp)


def _harm(found: Told) -> Any:
    yield f"Yes, since {found['since']}: {found['meaning']}."
    for suspect in found["suspects"]:
        what = rise(found["kind"], suspect["rise_per_s"])
        yield f"Aggressor: {formatters.server(suspect)}, {what}."


def _hurts(vp: Told, sufferers: Iterable[Told]) -> Iterator[str]:
    for other in sufferers:
        found = other["interference"]
        if found and vp["server_id"] in [one["server_id"] for one in found["suspects"]]:
            yield harming(formatters.server(other), found["since"], found["meaning"])


def _deed(action: Told) -> str:
    return f"{action['at']} {formatters.deed(action)}. Result: {outcome(action)}."


def _overridden(vp: Told) -> str:
    overrides = vp.get("overrides")
    return formatters.override_words(overrides) if overrides else ""
