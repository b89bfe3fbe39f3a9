# SPDX-License-Identifier: Apache-2.0
"""Results for people and for programs: JSON, tables, pictures. Nothing is computed here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from vp_sim.apps import Row
from vp_sim.compare import Comparison, Results
from vp_sim.measure import OfApplication, OfPolicy
from vp_sim.perturb import Perturbation, as_text
from vp_sim.timeline import Timeline

DIGITS = 4


def as_json(mix_name: str, comparison: Comparison) -> dict[str, Any]:
    shown: dict[str, Any] = {"mix": mix_name}
    if comparison.perturbation:
        shown["perturbation"] = comparison.perturbation.as_json()
    shown["policies"] = _policies(comparison.nominal)
    if comparison.draws:
        shown["draws"] = [_policies(results) for results in comparison.draws]
    return shown


def _policies(results: Results) -> dict[str, Any]:
    return {name: _policy(result) for name, result in results.items()}


def _policy(result: OfPolicy) -> dict[str, Any]:
    return {
        "worst_degradation": round(result.worst_degradation, DIGITS),
        "p95_worst": round(result.p95_worst, DIGITS),
        "spread": round(result.spread, DIGITS),
        "memory_moves": round(result.memory_moves, DIGITS),
        "vcpu_moves": round(result.vcpu_moves, DIGITS),
        "cpu_used": round(result.cpu_used, DIGITS),
        "management_cpu_used": round(result.management_cpu_used, DIGITS),
        "pe": round(result.pe, DIGITS),
        "applications": {
            name: {
                "median": round(app.median, DIGITS),
                "worst": round(app.worst, DIGITS),
                "vs_solo": round(app.vs_solo, DIGITS),
                "final_nodes": [list(nodes) for nodes in app.final_nodes],
            }
            for name, app in result.applications.items()
        },
    }


def show_comparison(screen: Console, mix_name: str, comparison: Comparison) -> None:
    table = Table(
        title=f"{mix_name}: by policy",
        caption="worst, spread: maximum over applications; p95: 95th percentile of the worst over "
        "start orders; others: mean of a run",
    )
    for heading in (
        *("policy", "worst", "p95", "spread", "memory moves", "vCPU moves", "CPU %", "PE"),
    ):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    for name, result in comparison.nominal.items():
        table.add_row(
            name,
            f"{result.worst_degradation:.1%}",
            f"{result.p95_worst:.1%}",
            f"{result.spread:.1%}",
            f"{result.memory_moves:.1f}",
            f"{result.vcpu_moves:.1f}",
            f"{result.cpu_used:.0f}",
            f"{result.pe:.3f}",
        )
    screen.print(table)
    screen.print(
        _by_application(
            "Degradation by application: median / worst, relative to its best baseline run",
            comparison.nominal,
            lambda app: f"{app.median:.1%} / {app.worst:.1%}",
        )
    )
    screen.print(
        _by_application(
            "Degradation by application: median, relative to running alone",
            comparison.nominal,
            lambda app: f"{app.vs_solo:.1%}",
        )
    )
    kinds = _kinds(next(iter(comparison.nominal.values())).applications)
    if kinds:
        screen.print(_separate(kinds, comparison.nominal))
    if comparison.draws:
        screen.print(_draws(comparison.draws))
    show_perturbation(screen, comparison.perturbation)


def show_perturbation(screen: Console, perturbation: Perturbation | None) -> None:
    if perturbation:
        screen.print(as_text(perturbation))


def _kinds(labels: Iterable[str]) -> dict[str, list[str]]:
    """Applications that are there several times: `stream-1` and `stream-2` by `stream`."""
    kinds: dict[str, list[str]] = {}
    for label in labels:
        kinds.setdefault(label.rpartition("-")[0], []).append(label)
    return {kind: of_it for kind, of_it in kinds.items() if len(of_it) > 1}


def _separate(kinds: Mapping[str, Sequence[str]], results: Results) -> Table:
    table = Table(title="Start orders in which they are all on separate nodes at the end")
    table.add_column("applications", no_wrap=True)
    for name in results:
        table.add_column(name, justify="right", overflow="fold")
    for kind, labels in kinds.items():
        cells = []
        for result in results.values():
            ends = zip(*(result.applications[label].final_nodes for label in labels), strict=True)
            apart = sum(_are_disjoint(nodes) for nodes in ends)
            cells.append(f"{apart} of {len(result.orders)}")
        table.add_row(f"{len(labels)} {kind}", *cells)
    return table


def _are_disjoint(nodes: Iterable[Sequence[int]]) -> bool:
    taken = [node for some in nodes for node in some]
    return len(taken) == len(set(taken))


def _by_application(title: str, results: Results, text: Callable[[OfApplication], str]) -> Table:
    table = Table(title=title)
    table.add_column("application", no_wrap=True)
    for name in results:
        table.add_column(name, justify="right", overflow="fold")
    for name in next(iter(results.values())).applications:
        apps = [result.applications[name] for result in results.values()]
        table.add_row(name, *map(text, apps))
    return table


def _draws(draws: Sequence[Results]) -> Table:
    table = Table(title=f"{len(draws)} draws of the estimated parameters: lowest to highest result")
    for heading in ("policy", "worst", "spread", "PE"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    for name in draws[0]:
        worst = [results[name].worst_degradation for results in draws]
        spread = [results[name].spread for results in draws]
        pe = [results[name].pe for results in draws]
        table.add_row(
            name,
            f"{min(worst):.1%} … {max(worst):.1%}",
            f"{min(spread):.1%} … {max(spread):.1%}",
            f"{min(pe):.3f} … {max(pe):.3f}",
        )
    return table


def show_timeline(screen: Console, title: str, timeline: Timeline) -> None:
    table = Table(title=f"{title}: changes")
    for heading in ("second", "application", "change"):
        table.add_column(heading)
    for event in timeline.events:
        table.add_row(f"{event.at_s:.0f}", event.label, event.what)
    screen.print(table)
    if all(event.at_s <= timeline.seconds[0] for event in timeline.events):
        screen.print("No changes after the start.")
    ends = Table(title="Jobs of 300 s")
    for heading in ("application", "duration", "relative to running alone"):
        ends.add_column(heading)
    for name, seconds in sorted(timeline.run.seconds.items()):
        ends.add_row(name, f"{seconds:.1f} s", f"{seconds / 300 - 1:+.1%}")
    screen.print(ends)


def applications(rows: Iterable[Row]) -> Table:
    """What they are made of, beside their figures."""
    table = Table(title="Applications")
    for heading in ("app", "VMs", "vCPUs per VM", "busy for share of time", "source"):
        table.add_column(heading, no_wrap=heading == "app")
    for row in rows:
        phases = ", ".join(f"{p.busy_ratio:.0%} for {p.time_share:.0%}" for p in row.phases)
        table.add_row(row.name, str(row.guests), str(row.vcpus), phases, row.phases_source)
    return table


def provenance(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title="Parameters and their sources")
    for heading in ("row", "parameter", "value", "range", "source"):
        table.add_column(heading, no_wrap=heading in ("row", "parameter"), overflow="fold")
    for row, figures in rows.items():
        for name, figure in figures.items():
            span = f"{figure.low:g} to {figure.high:g}" if figure.is_estimated else ""
            table.add_row(row, name, f"{figure.value:g}", span, figure.source)
    return table
