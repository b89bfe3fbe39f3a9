# SPDX-License-Identifier: Apache-2.0
"""A report of this host as the view of `vp-agent top`: degraded servers first, then by misses."""

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from nova_vp.cli import labels
from nova_vp.cli.live_view import Column, Row, View
from nova_vp.core.types.sample import State
from vp_agent.cli.status import footers, hurt, mode_of, names_of, note, proposal

Report = Mapping[str, Any]
COLUMNS = (
    Column("SERVER", 20),
    Column("CPUS", 9),
    Column("CPU", 5, is_number=True),
    Column("STATE", 9),
    Column("MF", 4, is_number=True),
    Column("MPKI", 6, is_number=True),
    Column("MISS/S", 7, is_number=True),
    Column("DEGRADED", 8),
    Column("NOTE", 23),
)
BY_ITSELF = "vp-agent top"
"""What `watched_by` says where no agent runs."""
ALONE = "no agent runs on this host: read-only view, nothing is changed or stored"
CACHES_TOLD = 16
"""A host of many small caches would leave no room for its servers."""


def view(report: Report, gone: str = "") -> View:
    """`gone`: why there is nothing newer."""
    if "vps" not in report:
        waits = "the agent has no sample yet: check libvirt, and see the log of vp-agent"
        return View("vp-agent top", COLUMNS, (), empty=gone or waits)
    names = names_of(report)
    return View(
        title=_title(report),
        columns=COLUMNS,
        rows=tuple(_row(vp, names) for vp in sorted(report["vps"], key=_urgency)),
        problems=tuple(_problems(report, gone)),
        lines=tuple(_lines(report)),
        empty="no server runs on this host",
    )


def _title(report: Report) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(report["at"]))
    who = "read-only" if _is_alone(report) else f"mode {mode_of(report)}"
    return f"{report['host']}  {who}  counters {report['counters']['source']}  {at}"


def _is_alone(report: Report) -> bool:
    return bool(report["watched_by"] == BY_ITSELF)


def _problems(report: Report, gone: str) -> Iterator[str]:
    if gone:
        yield f"showing the last sample: {gone}"
    names = names_of(report)
    for why, whose in _by_reason(report["counters"]["problems"]).items():
        told = ", ".join(names.get(who, who) for who in whose[:2])
        more = f" and {len(whose) - 2} more" if len(whose) > 2 else ""
        yield f"{told}{more}: {why}"


def _by_reason(problems: Iterable[str]) -> dict[str, list[str]]:
    """All servers mostly have the same."""
    found: dict[str, list[str]] = {}
    for problem in problems:
        who, _, why = problem.partition(": ")
        found.setdefault(why, []).append(who)
    return found


def _lines(report: Report) -> Iterator[str]:
    if _is_alone(report):
        yield ALONE
    yield from _caches(report["domains"])
    yield from footers(report)
    names = names_of(report)
    for action in report["proposals"]:
        head = "an agent would apply:" if _is_alone(report) else f"proposed {action['id']}:"
        yield f"{head} {proposal(action, names)}"


def _caches(domains: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for one in islice(domains, CACHES_TOLD):
        yield (
            f"cache {one['id']} (node {one['node']}, CPUs {one['cpus']}): "
            f"{one['vcpus']:.3g} vCPUs, {one['free_cores']:.3g} CPUs free, "
            f"{_count(one['misses_per_s'])} misses/s"
        )


def _urgency(vp: Mapping[str, Any]) -> tuple[bool, float]:
    metrics = vp["metrics"]
    return vp["interference"] is None, -(metrics["misses_per_s"] if metrics else 0.0)


def _row(vp: Mapping[str, Any], names: Mapping[str, str]) -> Row:
    found = vp["interference"]
    cells = (
        vp["name"],
        vp["cpus"],
        *_numbers(vp),
        hurt(vp),
        _suspects(found, names) if found else note(vp),
    )
    return Row(cells, is_alarming=found is not None)


def _numbers(vp: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = vp["metrics"]
    if not metrics:
        return "-", _state(vp["state"]), "-", "-", "-"
    return (
        f"{metrics['cpu_cores']:.2f}",
        _state(vp["state"]),
        f"{metrics['memory_factor']:.2f}",
        f"{metrics['mpki']:.1f}",
        _count(metrics["misses_per_s"]),
    )


def _state(number: int | None) -> str:
    """`8 bulldog`."""
    return "-" if number is None else f"{number} {State.from_number(number).intensity.name.lower()}"


def _suspects(found: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The guiltiest first."""
    guilty = [names.get(one["uuid"], one["uuid"]) for one in found["suspects"]]
    return f"by {', '.join(guilty)}" if guilty else labels.kind(found["kind"])


def _count(per_s: float) -> str:
    """Three digits and a letter."""
    return labels.with_letter(per_s) or f"{per_s:.0f}"
