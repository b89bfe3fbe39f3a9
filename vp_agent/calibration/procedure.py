# SPDX-License-Identifier: Apache-2.0
"""Which loads are measured, in which order, and what they come to. Nothing here touches a host.

For every memory controller and every link: latency while it is idle, flat out and at shares of
that, with reads alone and with write-backs among them. Measured loaded-latency curves are flat up
to 60 to 80 % of the highest rate and then turn up, so most shares lie there.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from nova_vp.core.types.topology import LoadCurve, LoadPoint, Topology
from vp_agent.calibration.capacity import CannotCalibrate, Capacity, Measured, capacity_of
from vp_agent.calibration.load import MIXED, READS, Bench, Load, Response, Route

SHARES = (0.3, 0.5, 0.65, 0.8, 0.9)
"""Of the highest rate, that CPUs are held to."""
SPAN_S = 0.4
BUDGET_S = 180.0
"""After that no further route is begun."""


class NodePair(NamedTuple):
    """One controller, or one link, and who measures it."""

    here: int
    """Node of the CPUs."""
    there: int
    """Node of the memory."""
    cpus: tuple[int, ...]
    timer: int

    def __str__(self) -> str:
        by = f"{len(self.cpus)} CPU{'s' * (len(self.cpus) > 1)}"
        if self.here == self.there:
            return f"node {self.here}: its memory, loaded by {by}"
        return f"link: memory of node {self.there}, loaded by {by} of node {self.here}"


def measured(
    bench: Bench, topology: Topology, clock: Callable[[], float], tell: Callable[[str], None]
) -> Capacity:
    """Raises BenchFailed, CannotCalibrate."""
    pairs = tuple(_pairs(bench, topology))
    found: list[Measured] = []
    began_s = clock()
    for number, pair in enumerate(pairs):
        passed_s = clock() - began_s
        if passed_s > BUDGET_S:
            tell(f"time limit reached: {len(pairs) - number} of {len(pairs)} measurements skipped")
            break
        left = f", about {passed_s / number * (len(pairs) - number):.0f} s left" if number else ""
        tell(f"{number + 1}/{len(pairs)} {pair}{left}")
        found.append(_measure(bench, pair))
    return capacity_of(
        found, topology.distances, skipped=[(p.here, p.there) for p in pairs[len(found) :]]
    )


def _pairs(bench: Bench, topology: Topology) -> Iterator[NodePair]:
    """What tells most comes first: time may run out."""
    crews = {node: _crew(bench, topology, node) for node in topology.nodes}
    for here, there in (*((node, node) for node in topology.nodes), *_links(topology)):
        yield NodePair(here, there, *crews[here])


def _crew(bench: Bench, topology: Topology, node: int) -> tuple[tuple[int, ...], int]:
    """Who loads, and who measures. Raises CannotCalibrate."""
    *others, timer = _cpus_of(topology, node)
    if not others:
        raise CannotCalibrate(
            f"node {node} has one CPU. Calibration needs two of each node: one loads the memory "
            "while the other one measures its latency. Set [agent] node_limit_misses_per_s instead"
        )
    # What shares its core slows the timer, whatever the memory does.
    apart = tuple(cpu for cpu in others if cpu not in bench.siblings(timer))
    return apart or tuple(others), timer


def _cpus_of(topology: Topology, node: int) -> tuple[int, ...]:
    """One LLC after the other in turn, so that few CPUs already use all of the node's ways out."""
    domains = [sorted(d.cpus) for d in topology.domains if d.node == node]
    longest = max(map(len, domains))
    return tuple(cpus[i] for i in range(longest) for cpus in domains if i < len(cpus))


def _links(topology: Topology) -> tuple[tuple[int, int], ...]:
    """From each node to the next one and to the farthest, then all others."""
    nodes = topology.nodes
    distance: Mapping[tuple[int, int], int] = {(a, b): far for a, b, far in topology.distances}
    links: dict[tuple[int, int], None] = {}
    for at, here in enumerate(nodes):
        others = [*nodes[at + 1 :], *nodes[:at]]
        with suppress(ValueError):  # One node has no links.
            farthest = max(others, key=lambda there: distance.get((here, there), 0))
            links.update(dict.fromkeys((here, there) for there in (*islice(others, 1), farthest)))
    links.update(dict.fromkeys((a, b) for a in nodes for b in nodes if a != b))
    return tuple(links)


def _measure(bench: Bench, pair: NodePair) -> Measured:
    with bench.route(pair.cpus, pair.timer, pair.there) as route:
        idle = route.measure(Load((), READS), SPAN_S)
        reads = _responses(route, pair, READS)
        mixed = _responses(route, pair, MIXED)
        rates = {len(pair.cpus): reads[-1].read_lines_per_s}
        if pair.here == pair.there:
            for count in _counts(len(pair.cpus)):
                some = Load(pair.cpus[:count], READS)
                rates[count] = route.measure(some, SPAN_S).read_lines_per_s
    return Measured(
        curves=tuple(_curve(pair, idle, responses) for responses in (reads, mixed)),
        rates=rates,
        counted_by=mixed[-1].counted_by,
    )


def _responses(route: Route, pair: NodePair, writeback_ratio: float) -> tuple[Response, ...]:
    """At the shares, then flat out."""
    flat_out = route.measure(Load(pair.cpus, writeback_ratio), SPAN_S)
    held = [
        route.measure(Load(pair.cpus, writeback_ratio, share * flat_out.lines_per_s), SPAN_S)
        for share in SHARES
    ]
    return (*held, flat_out)


def _curve(pair: NodePair, idle: Response, responses: tuple[Response, ...]) -> LoadCurve:
    flat_out = responses[-1]
    points = [LoadPoint(one.lines_per_s, one.latency_s * 1e9) for one in responses]
    return LoadCurve(
        cpu_node=pair.here,
        memory_node=pair.there,
        writeback_ratio=flat_out.written_lines_per_s / flat_out.read_lines_per_s,
        points=(LoadPoint(0.0, idle.latency_s * 1e9), *sorted(points)),
    )


def _counts(most: int) -> tuple[int, ...]:
    """Half as many again and again, without the first, which is measured already."""
    return tuple(sorted({max(1, most >> halvings) for halvings in (1, 2, 3)} - {most}))
