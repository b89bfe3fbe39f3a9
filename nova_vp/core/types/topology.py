# SPDX-License-Identifier: Apache-2.0
"""The hardware of a host: LLC domains, NUMA nodes, and what its memory bears."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class LlcDomain:
    """CPUs that share one last-level cache: the unit of placement."""

    id: int
    node: int
    cpus: frozenset[int]
    shared_cores: tuple[frozenset[int], ...] = ()
    """CPUs of each physical core that shows itself as several: hyper-threads, siblings of each
    other. Every other CPU is a core of its own."""

    @property
    def cores(self) -> int:
        """Physical ones."""
        return self.cores_among(self.cpus)

    def cores_among(self, cpus: frozenset[int]) -> int:
        """Physical cores that these CPUs of the domain belong to."""
        here = self.cpus & cpus
        return len(here) - sum(max(len(core & here) - 1, 0) for core in self.shared_cores)


@dataclass(frozen=True, slots=True)
class Topology:
    domains: tuple[LlcDomain, ...]
    distances: tuple[tuple[int, int, int], ...] = ()
    """(node, other node, ACPI SLIT distance; 10 is local)."""

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset().union(*(d.cpus for d in self.domains))

    @property
    def nodes(self) -> tuple[int, ...]:
        return self.nodes_of(self.cpus)

    def nodes_of(self, cpus: frozenset[int]) -> tuple[int, ...]:
        """NUMA nodes that these CPUs belong to."""
        return tuple(sorted({d.node for d in self.domains if d.cpus & cpus}))


class LoadPoint(NamedTuple):
    """What a miss costs under one load."""

    lines_per_s: float
    """Cache lines read and written back together; 0: nobody but who timed it."""
    latency_ns: float


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """Latency of memory against its load: of a memory controller where both nodes are the same,
    else of the link between them and the controller behind it."""

    cpu_node: int
    memory_node: int
    writeback_ratio: float
    """Lines written back per line read while it was measured."""
    points: tuple[LoadPoint, ...]
    """By rising load."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What this host's memory system bears, from `vp-agent calibrate`; None: nobody measured."""

    node_misses_per_s: float | None = None
    """LLC misses per second that one node's memory controller serves before they queue."""
    link_misses_per_s: float | None = None
    """The same for misses that one node's CPUs have served by another node."""
    remote_penalty_ratio: float = 1.4
    """Latency of remote memory over that of local memory."""
    curves: tuple[LoadCurve, ...] = ()
    """What was measured on the way to these figures."""


NO_LIMITS = Limits()
