# SPDX-License-Identifier: Apache-2.0
"""What one node's memory controller and one link bear, as the limits that the core decides by.

Measured by reading memory from more and more CPUs of a node until the rate grows no more, its own
memory first, then another node's. Where the counter source models the host (vpmu), what it models
is asked for instead: its misses are no traffic of this machine.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Protocol, runtime_checkable

from nova_vp.core.model.predict import LIMIT_LOAD
from nova_vp.core.types.topology import Limits, Topology
from vp_agent.calibration.bench import Bench
from vp_agent.calibration.bench_worker import LINE_BYTES

KNEE_RATIO = LIMIT_LOAD
"""Share of the highest rate that counts as the limit. Requests queue long before a controller is
full: with random arrivals and one service time (M/D/1) a miss takes twice as long from two thirds
on, and measured curves of loaded latency turn up between 60 and 80 %."""

FLAT_RATIO = 1.05
"""Twice the CPUs that bring less than this have reached the plateau."""

SPAN_S = 0.4
BUDGET_S = 20.0
"""After that nothing new is begun; with what starting takes, all is over in 30 s."""


class CannotCalibrate(Exception):
    """The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the memory moves flat out."""

    node_lines_per_s: float
    """Cache lines, that is LLC misses; of the weakest node."""
    link_lines_per_s: float | None = None
    remote_penalty_ratio: float | None = None
    notes: tuple[str, ...] = ()
    """What an operator should know of these numbers."""

    @property
    def limits(self) -> Limits:
        link = self.link_lines_per_s
        return Limits(
            node_misses_per_s=self.node_lines_per_s * KNEE_RATIO,
            link_misses_per_s=None if link is None else link * KNEE_RATIO,
            remote_penalty_ratio=self.remote_penalty_ratio or Limits().remote_penalty_ratio,
        )


@runtime_checkable
class KnowsCapacity(Protocol):
    """A counter source that counts misses of a modelled memory."""

    def node_lines_per_s(self) -> float | None:
        """Of the weakest modelled controller; None if none is modelled yet, or without a limit."""


def modelled(source: KnowsCapacity) -> Capacity:
    """Raises CannotCalibrate."""
    lines_per_s = source.node_lines_per_s()
    if lines_per_s is None:
        raise CannotCalibrate(
            "the software PMU models no memory controller yet. Start one server (its plugin makes "
            "the controllers, unless it has bandwidth=0), then calibrate again"
        )
    return Capacity(
        lines_per_s, notes=("values of the software PMU's model; nothing was measured",)
    )


@dataclass(slots=True)
class _Seen:
    """Rates so far, in bytes per second."""

    local: dict[int, dict[int, float]] = field(default_factory=dict)
    """By node and number of CPUs."""
    remote: dict[tuple[int, int], float] = field(default_factory=dict)
    """By node of the CPUs and of the memory."""
    latency_s: dict[tuple[int, int], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Step:
    title: str
    run: Callable[[], None]


def measured(
    bench: Bench, topology: Topology, clock: Callable[[], float], tell: Callable[[str], None]
) -> Capacity:
    """Raises BenchFailed."""
    seen = _Seen()
    began_s = clock()
    steps = list(_steps(bench, topology, seen))
    for number, step in enumerate(steps):
        if clock() - began_s > BUDGET_S:
            tell(f"time limit reached: {len(steps) - number} of {len(steps)} measurements skipped")
            break
        tell(f"{number + 1}/{len(steps)} {step.title}")
        step.run()
    return _capacity(seen)


def _steps(bench: Bench, topology: Topology, seen: _Seen) -> Iterator[_Step]:
    """What tells most comes first: time may run out."""
    cpus = {node: _cpus_of(topology, node) for node in topology.nodes}
    pairs = _pairs(topology)
    for node in topology.nodes:
        yield _local(bench, seen, node, cpus[node])
    timed = set()
    for here, there in pairs:
        yield _remote(bench, seen, here, there, cpus[here])
        for memory in (here, there):
            if (here, memory) not in timed:
                timed.add((here, memory))
                yield _latency(bench, seen, here, memory, cpus[here][0])
    for node in topology.nodes:
        for count in _counts(len(cpus[node])):
            yield _local(bench, seen, node, cpus[node][:count])


def _local(bench: Bench, seen: _Seen, node: int, cpus: Sequence[int]) -> _Step:
    def run() -> None:
        rate = bench.read_bytes_per_s(cpus, node, SPAN_S)
        seen.local.setdefault(node, {})[len(cpus)] = rate

    return _Step(f"node {node}: local memory, read by {len(cpus)} CPUs", run)


def _remote(bench: Bench, seen: _Seen, here: int, there: int, cpus: Sequence[int]) -> _Step:
    def run() -> None:
        seen.remote[here, there] = bench.read_bytes_per_s(cpus, there, SPAN_S)

    return _Step(f"node {there}: memory, read by {len(cpus)} CPUs of node {here}", run)


def _latency(bench: Bench, seen: _Seen, here: int, there: int, cpu: int) -> _Step:
    def run() -> None:
        seen.latency_s[here, there] = bench.latency_s(cpu, there, SPAN_S)

    return _Step(f"node {there}: memory latency from node {here}", run)


def _cpus_of(topology: Topology, node: int) -> tuple[int, ...]:
    """One LLC after the other in turn, so that few CPUs already use all of the node's ways out."""
    domains = [sorted(d.cpus) for d in topology.domains if d.node == node]
    longest = max(map(len, domains))
    return tuple(cpus[i] for i in range(longest) for cpus in domains if i < len(cpus))


def _counts(most: int) -> tuple[int, ...]:
    """Half as many again and again, without the first, which is measured already."""
    return tuple(sorted({max(1, most >> halvings) for halvings in (1, 2, 3)} - {most}))


def _pairs(topology: Topology) -> tuple[tuple[int, int], ...]:
    """For each node the next one, and the farthest: all pairs of eight nodes would take minutes."""
    nodes = topology.nodes
    distance: Mapping[tuple[int, int], int] = {(a, b): far for a, b, far in topology.distances}
    pairs: dict[tuple[int, int], None] = {}
    for at, here in enumerate(nodes):
        others = [*nodes[at + 1 :], *nodes[:at]]
        farthest = max(others, key=lambda there: distance.get((here, there), 0), default=None)
        for there in (*islice(others, 1), farthest):
            if there is not None:
                pairs[here, there] = None
    return tuple(pairs)


def _capacity(seen: _Seen) -> Capacity:
    plateau = {node: max(rates.values()) for node, rates in seen.local.items()}
    link = min(seen.remote.values(), default=None)
    return Capacity(
        node_lines_per_s=min(plateau.values()) / LINE_BYTES,
        link_lines_per_s=None if link is None else link / LINE_BYTES,
        remote_penalty_ratio=_penalty(seen.latency_s),
        notes=tuple(_notes(seen)),
    )


def _penalty(latency_s: Mapping[tuple[int, int], float]) -> float | None:
    """Of the farthest; never below 1, which noise can make of two equal ones."""
    ratios = [
        latency / latency_s[here, here]
        for (here, there), latency in latency_s.items()
        if here != there and latency_s.get((here, here), 0.0) > 0
    ]
    return max(1.0, *ratios) if ratios else None


def _notes(seen: _Seen) -> Iterator[str]:
    for node, rates in seen.local.items():
        knee = _knee(rates)
        if knee is None:
            yield (
                f"node {node}: its CPUs cannot saturate its memory controller; the real limit is "
                "higher"
            )
        else:
            yield f"node {node}: {knee} of {max(rates)} CPUs saturate its memory controller"


def _knee(rates: Mapping[int, float]) -> int | None:
    """The fewest CPUs from which on more bring nothing; None if even the last ones did."""
    counts = sorted(rates)
    knee = None
    for fewer, more in pairwise(counts):
        if rates[more] >= rates[fewer] * FLAT_RATIO:
            knee = None
        elif knee is None:
            knee = fewer
    return knee
