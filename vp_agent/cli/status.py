# SPDX-License-Identifier: Apache-2.0
"""`vp-agent status` for people: the report of this host as a table within 100 columns."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nova_vp.cli import labels
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.mode_levels import ModeLevel
from vp_agent.format import limits_line

_COLUMNS = ("SERVER", "CPUS", "STATE", "MF", "MPKI", "DEGRADED", "NOTE")
_WIDTHS = (24, 9, 5, 5, 7, 8, 36)
GRANTED = "granted"
"""Among the numbers of calls by their answer."""
WORTH_TELLING_RATIO = 0.05
"""Of the CPU time that a server wants, or a host has."""
_KNOBS = {
    Knob.PLACEMENT.value: "CPUs",
    Knob.CPU_CAP.value: "cap",
    Knob.CPU_WEIGHT.value: "weight",
}


def render(report: Mapping[str, Any]) -> str:
    if not report:
        return "no sample yet: check libvirt, and see the log of vp-agent"
    counters = report["counters"]
    lines = [
        f"host {report['host']}  mode {mode_of(report)}  counters {counters['source']}  "
        f"actuator {report['actuator']}",
        *(_wrap(f"! {problem}") for problem in counters["problems"]),
        *([_wrap(limits_line(report["limits"]))] if "limits" in report else []),
        *_recording(report.get("recording", {})),
        _row(_COLUMNS),
        *(_row(_vp(vp)) for vp in report["vps"]),
        *(_wrap(line) for line in footers(report)),
        *_proposals(report),
    ]
    return "\n".join(lines)


def mode_of(report: Mapping[str, Any]) -> str:
    """What holds, and where it is set."""
    source = report["modes"]["source"]
    return f"{report['mode']} ({labels.mode_source(source['level'], source['name'])})"


def told_modes(report: Mapping[str, Any]) -> Iterable[str]:
    """What holds for the host, and what is set on which level."""
    yield f"mode {mode_of(report)}"
    for one in report["modes"]["levels"]:
        yield f"  {one['mode']}: {labels.mode_source(one['level'], one['name'])}"
    levels = {one["level"] for one in report["modes"]["levels"]}
    if ModeLevel.AGGREGATE.value in levels and not report["modes"]["knows_aggregates"]:
        yield _wrap(
            "  This host was not told which aggregates it is in; the modes of all aggregates hold."
        )


def footers(report: Mapping[str, Any]) -> Iterable[str]:
    """What there is to say besides each server's row, proposals apart."""
    yield from _steal(report)
    yield from _hot_nodes(report)
    yield from _cpu_uses(report)
    yield from _figures(report)
    yield from _memory_moves(report)
    yield from _escalations(report)
    yield from _islands(report)
    yield from _overlays(report)


def _islands(report: Mapping[str, Any]) -> Iterable[str]:
    for island in report.get("islands", ()):
        own, now = island["own_cpus"], island["cpus"]
        cap = (
            "" if island["cap_cpus"] is None else f", together at most {island['cap_cpus']:g} CPUs"
        )
        lent = "" if own == now else f" (its own: {own})"
        servers = len(island["servers"])
        yield f"island {island['name']}: {island['kind']}, CPUs {now}{lent}{cap}, {servers} servers"
        if problem := island.get("problem"):
            yield f"! island {island['name']}: {problem}"
    borrowed = borrowed_cpus(report)
    if borrowed.for_the_cap:
        yield (
            f"CPUs that islands borrowed: {borrowed.by_calls} by calls of overlays, "
            f"{borrowed.for_the_cap} by themselves for the cap of the host"
        )


class BorrowedCpus(NamedTuple):
    by_calls: int
    for_the_cap: int
    """By islands themselves, since the host is capped."""


def borrowed_cpus(report: Mapping[str, Any]) -> BorrowedCpus:
    """Of the report of a host."""
    loans = [loan for one in report.get("islands", ()) for loan in one.get("borrowed", ())]
    by_calls = sum(loan["overlay_id"] is not None for loan in loans)
    return BorrowedCpus(by_calls, len(loans) - by_calls)


def _overlays(report: Mapping[str, Any]) -> Iterable[str]:
    names = names_of(report)
    for one in report.get("overlays", ()):
        boosted = ", ".join(_server(names, uuid) for uuid in one["boosted"])
        first = f", {boosted} first" if boosted else ""
        yield (
            f"overlay {one['id']}: {one['borrowed_cpus']} CPUs borrowed, credit "
            f"{one['credit_ratio']:.0%}{first}; calls granted {one['granted']}, refused "
            f"{one['refused']}"
        )
    if counts := report.get("calls"):
        refused = (f"{why} {n}" for why, n in sorted(counts.items()) if why != GRANTED)
        told = ", ".join(refused) or "none"
        yield f"calls of all overlays: granted {counts.get(GRANTED, 0)}; refused: {told}"


def _recording(recording: Mapping[str, str]) -> Iterable[str]:
    if recording.get("file"):
        yield _wrap(f"recording to {recording['file']} (stop it with `vp-agent record off`)")
    if recording.get("problem"):
        yield _wrap(f"! the recording stopped: {recording['problem']}")


def _hot_nodes(report: Mapping[str, Any]) -> Iterable[str]:
    for node in report["nodes"]:
        if node["is_hot"]:
            limit = node["limit_misses_per_s"]
            yield (
                f"node {node['node']} is hot: {node['misses_per_s'] / 1e6:.1f} M misses/s, limit "
                + ("not calibrated" if limit is None else f"{limit / 1e6:.1f} M")
            )


def _steal(report: Mapping[str, Any]) -> Iterable[str]:
    ratio = report.get("steal_ratio") or 0.0
    if ratio >= WORTH_TELLING_RATIO:
        yield f"the host of this host takes {ratio:.0%} of its CPU time (steal)"


def _cpu_uses(report: Mapping[str, Any]) -> Iterable[str]:
    """Of the servers for which it is much."""
    for vp in report["vps"]:
        use = vp.get("cpu_use") or {}
        if max(use.values(), default=0.0) >= WORTH_TELLING_RATIO:
            yield f"CPU time that {vp['name']} wants: {labels.cpu_use(use, WORTH_TELLING_RATIO)}"


def _figures(report: Mapping[str, Any]) -> Iterable[str]:
    for vp in report["vps"]:
        for controller, told in vp.get("figures", {}).items():
            yield f"{controller}, {vp['name']}: {labels.figures(controller, told)}"


def _memory_moves(report: Mapping[str, Any]) -> Iterable[str]:
    names = names_of(report)
    for move in report["memory_moves"]:
        moved, left = move["moved_kib"] // 1024, move["left_kib"] // 1024
        ending = f", ended early: {move['problem']}" if move["problem"] else ""
        yield (
            f"memory of {_server(names, move['uuid'])} to {move['to']}: "
            f"{moved} of {moved + left} MiB moved{ending}"
        )


def _escalations(report: Mapping[str, Any]) -> Iterable[str]:
    names = names_of(report)
    for one in report["escalations"]:
        victim = _server(names, one["victim"])
        yield (
            f"escalation {one['id']}: no action on this host helps {victim}: "
            f"{labels.kind(one['kind'])}"
        )


def _proposals(report: Mapping[str, Any]) -> Iterable[str]:
    names = names_of(report)
    for action in report["proposals"]:
        yield _wrap(f"proposed {action['id']}: {proposal(action, names)}")
    if report["proposals"]:
        yield "To accept a proposal in mode advise: `vp-agent accept ID`"


def proposal(action: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """What would be turned, and why."""
    changes = "; ".join(_change(change, names) for change in action["changes"])
    return f"{changes}: {labels.reason(action['reason'])}"


def _change(change: Mapping[str, Any], names: Mapping[str, str]) -> str:
    knob = _KNOBS.get(change["knob"], change["knob"])
    return f"{_server(names, change['uuid'])} {knob} {change['from']} -> {change['to']}"


def names_of(report: Mapping[str, Any]) -> dict[str, str]:
    return {vp["uuid"]: vp["name"] for vp in report["vps"]}


def _server(names: Mapping[str, str], uuid: str) -> str:
    return names.get(uuid) or uuid


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
        hurt(vp),
        note(vp),
    )


def hurt(vp: Mapping[str, Any]) -> str:
    """Where; of a server that was never measured long enough nobody knows."""
    if vp["interference"]:
        return labels.POINTS[vp["interference"]["kind"]]
    return "?" if vp["state"] is None else "no"


def note(vp: Mapping[str, Any]) -> str:
    if vp["unmanaged"]:
        return f"unmanaged: {vp['unmanaged']}"
    if vp["actions"]:
        last = vp["actions"][-1]
        return f"{last['reason']}: {last['result']}"
    return vp["incomplete"] or ""


def _row(cells: Iterable[str]) -> str:
    fitted = (cell[:width].ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return " ".join(fitted).rstrip()
