# SPDX-License-Identifier: Apache-2.0
"""What an application is to the model: a row of figures, and the numbers made of them.

The rows are in `app_profiles.py`. No policy ever sees one: it sees counters.
"""

from dataclasses import dataclass
from typing import NamedTuple

from vp_sim.parameters import Draw, Parameter, nominal, public

MIB = 1024 * 1024
ALL_COMPUTING = public(1.0, "a job's time is all its own")


class Phase(NamedTuple):
    """A stretch of a job. Phases repeat `cycles` times until the job is done."""

    time_share: float
    """Of the time of one cycle when it runs alone."""
    busy_ratio: float
    """vCPUs that have something to do, of all it has."""
    traffic_factor: float = 1.0
    """Of the private cache's misses per 1000 instructions, against the row's figure."""


@dataclass(frozen=True, slots=True)
class Row:
    """One application as the table has it; each figure says where it comes from."""

    name: str
    vcpus: int
    guests: int
    """VMs of one application; more than one makes a virtual platform of several VMs."""
    memory_mib: Parameter
    footprint_mib: Parameter
    base_cpi: Parameter
    """Cycles per instruction when every access hits the private caches."""
    l1_mpki: Parameter
    l2_mpki: Parameter
    """Misses of the private caches per 1000 instructions: what reaches the LLC."""
    full_ratio: Parameter
    """LLC miss ratio with no room in the LLC at all."""
    least_ratio: Parameter
    """LLC miss ratio that no LLC of this size range gets below."""
    half_mib: Parameter
    """Share of the LLC where half of the difference between the two is won."""
    steepness: Parameter
    """1: gradual; 4: the working set fits or it does not."""
    hit_exposure: Parameter
    """Share of an LLC hit's latency that the core waits for."""
    parallel_misses: Parameter
    """Memory accesses under way at a time: their latency is shared by so many."""
    writeback_ratio: Parameter
    """Lines written back per line read."""
    busy_ratio: Parameter
    """Share of the time its vCPUs are busy, within what the phase lets them."""
    computing_ratio: Parameter = ALL_COMPUTING
    """Share of the time that it is judged by, when it runs alone, in which it computes. The rest of
    a server's response time passes on the network and in its clients, whatever happens here."""
    phases: tuple[Phase, ...] = (Phase(1.0, 1.0),)
    phases_source: str = "estimated: steady"
    cycles: int = 1

    def figures(self) -> dict[str, Parameter]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if isinstance(value, Parameter)}


@dataclass(frozen=True, slots=True, eq=False)
class App:
    """A row with its figures drawn: what the model computes with. Compared by identity: it is
    part of every key that the model remembers solutions by."""

    name: str
    vcpus: int
    guests: int
    memory_mib: float
    footprint_mib: float
    base_cpi: float
    l1_mpki: float
    l2_mpki: float
    full_ratio: float
    least_ratio: float
    half_mib: float
    steepness: float
    hit_exposure: float
    parallel_misses: float
    writeback_ratio: float
    busy_ratio: float
    phases: tuple[Phase, ...]
    cycles: int
    computing_ratio: float = 1.0

    def slowdown_ratio(self, speed_ratio: float) -> float:
        """The time that it takes, divided by that when it runs alone, at this share of the speed
        that it has alone."""
        return 1 - self.computing_ratio + self.computing_ratio / speed_ratio

    def miss_ratio(self, share_mib: float) -> float:
        """The solo miss-rate curve: LLC misses per LLC access, with this much of the LLC."""
        won: float = 1.0 / (1.0 + (share_mib / self.half_mib) ** self.steepness)
        return self.least_ratio + (self.full_ratio - self.least_ratio) * won


def app_of(row: Row, draw: Draw = nominal) -> App:
    drawn = {name: draw(figure) for name, figure in row.figures().items()}
    return App(
        name=row.name,
        vcpus=row.vcpus,
        guests=row.guests,
        phases=row.phases,
        cycles=row.cycles,
        **drawn,
    )
