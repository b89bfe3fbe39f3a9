# SPDX-License-Identifier: Apache-2.0
"""`vp-agent status` for people: the report of this host as a table within 100 columns."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

_COLUMNS = ("SERVER", "CPUS", "STATE", "MF", "MPKI", "HURT", "NOTE")
_WIDTHS = (26, 9, 5, 5, 7, 5, 37)


def render(report: Mapping[str, Any]) -> str:
    if not report:
        return "no tick yet: libvirt may be away, see the agent's log"
    counters = report["counters"]
    lines = [
        f"host {report['host']}  mode {report['mode']}  counters {counters['source']}  "
        f"actuator {report['actuator']}",
        *(_wrap(f"! {problem}") for problem in counters["problems"]),
        _row(_COLUMNS),
        *(_row(_vp(vp)) for vp in report["vps"]),
        *_proposals(report),
    ]
    return "\n".join(lines)


def _proposals(report: Mapping[str, Any]) -> Iterable[str]:
    names = {vp["uuid"]: vp["name"] for vp in report["vps"]}
    for action in report["proposals"]:
        server = names.get(action["uuid"]) or action["uuid"]
        yield _wrap(
            f"proposed {action['id']}: {action['reason']}, {server} to CPUs {action['to_cpus']}"
        )
    if report["proposals"]:
        yield "To have one applied: `vp-agent accept ID`, in mode advise"


def _wrap(text: str) -> str:
    return textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)


def _vp(vp: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = vp["metrics"]
    return (
        vp["name"],
        vp["cpus"],
        "-" if vp["state"] is None else str(vp["state"]),
        f"{metrics['memory_factor']:.2f}" if metrics else "-",
        f"{metrics['mpki']:.1f}" if metrics else "-",
        "yes" if vp["interference"] else "no",
        _note(vp),
    )


def _note(vp: Mapping[str, Any]) -> str:
    if vp["unmanaged"]:
        return f"not managed: {vp['unmanaged']}"
    if vp["actions"]:
        last = vp["actions"][-1]
        return f"{last['reason']}: {last['result']}"
    return vp["incomplete"] or ""


def _row(cells: Iterable[str]) -> str:
    fitted = (cell[:width].ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return " ".join(fitted).rstrip()
