# SPDX-License-Identifier: Apache-2.0
"""Islands: disjoint sets of a host's CPUs, each with a scheduler kind, and CPUs lent between them.
Its memory is that of the NUMA nodes that its own CPUs belong to.

Source: thesis 2013, section 4.3.1. Nothing here decides.
"""

import enum
from typing import NamedTuple


class Scheduler(enum.Enum):
    """How the servers of an island share its CPUs."""

    FAIR = "fair"
    """By their weights."""
    CAPPED = "capped"
    """The same, and together they use at most so many cores."""
    EXCLUSIVE = "exclusive"
    """Each vCPU has a CPU of its own."""


class Island(NamedTuple):
    name: str
    own_cpus: frozenset[int]
    """Those that belong to it."""
    scheduler: Scheduler = Scheduler.FAIR
    cap_cores: float | None = None
    """That its servers may use together, as far as it has its own CPUs; None: all."""
    lent: frozenset[int] = frozenset()
    """Of its own, those that another island has now."""
    borrowed: frozenset[int] = frozenset()
    """Those of others that it has now."""

    @property
    def cpus(self) -> frozenset[int]:
        """Those that it has now."""
        return (self.own_cpus - self.lent) | self.borrowed


class Loan(NamedTuple):
    """One CPU that an island has of another one."""

    cpu: int
    lender: str
    borrower: str
    """Names of islands."""
    overlay_id: str
    """For whose servers; empty: for all servers of the island, since the host is capped."""
    began_at_s: float
    until_s: float

    @property
    def is_for_all(self) -> bool:
        return not self.overlay_id


class IslandView(NamedTuple):
    """One island after a tick or a call, for people."""

    island: Island
    servers: tuple[str, ...]
    """That run there and nowhere else."""
    cap_cores: float | None = None
    """That holds now, with those of borrowed CPUs and that of the host; None: none."""
    nodes: tuple[int, ...] = ()
    """NUMA nodes whose memory is its own."""
    loans: tuple[Loan, ...] = ()
    """Of the CPUs that it has of others."""
    problem: str = ""
    """Why its cap does not hold, or which CPUs are missing; empty: all is well."""
