# SPDX-License-Identifier: Apache-2.0
"""The hardware of a host: LLC domains, NUMA nodes, and what its memory bears."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LlcDomain:
    """CPUs that share one last-level cache: the unit of placement."""

    id: int
    node: int
    cpus: frozenset[int]


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
        return tuple(sorted({d.node for d in self.domains}))


@dataclass(frozen=True, slots=True)
class Limits:
    """What this host's memory system bears, from `vp-agent calibrate`; None: nobody measured."""

    node_misses_per_s: float | None = None
    """LLC misses per second that one node's memory controller serves before they queue."""
    link_misses_per_s: float | None = None
    """The same for misses that one node's CPUs have served by another node."""
    remote_penalty_ratio: float = 1.4
    """Latency of remote memory over that of local memory."""


NO_LIMITS = Limits()
