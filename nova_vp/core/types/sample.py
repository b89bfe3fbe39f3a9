# SPDX-License-Identifier: Apache-2.0
"""What is measured of one VP: counts, rates, its state and its undisturbed profile."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Incomplete(enum.Enum):
    """Why a VP has no usable sample in this tick; it is then not classified."""

    FIRST = "first-sample"
    UNREADABLE = "counters-unreadable"
    RESET = "counters-restarted"
    PARTIAL = "vcpu-missing"
    MULTIPLEXED = "multiplexed"
    IDLE = "idle"
    LATE = "late"
    STOPPED = "not-running"


class Intensity(enum.IntEnum):
    """LLC misses per 1000 instructions (thesis 2.1.1): pug < 2 <= terrier < 15 <= bulldog."""

    PUG = 0
    TERRIER = 1
    BULLDOG = 2
    __hash__ = int.__hash__
    """An enum's own is many times slower, and states are hashed in every tick."""


class FactorClass(enum.IntEnum):
    """Memory factor, LLC misses / L2 misses (thesis section 2.1.1): < 0.25, < 0.6, above."""

    LOW = 0
    MID = 1
    HIGH = 2
    __hash__ = int.__hash__


class State(NamedTuple):
    """One of the nine interference states (thesis figure 4)."""

    factor: FactorClass
    intensity: Intensity

    @property
    def number(self) -> int:
        return 3 * self.factor + self.intensity

    @classmethod
    def from_number(cls, number: int) -> "State":
        return cls(FactorClass(number // 3), Intensity(number % 3))


class Sensitivity(NamedTuple):
    """Which shared points hurt this VP when it loses them (thesis section 2.1.2)."""

    cache: bool = False
    memory: bool = False
    remote_latency: bool = False


class Reading(NamedTuple):
    """Cumulative counts of one guest, all vCPUs summed, as one counter source gave them."""

    instructions: int
    cycles: int
    llc_references: int
    """Equal to L2 misses."""
    llc_misses: int
    llc_misses_remote: int
    vcpus_read: int
    running_ratio: float
    """time_running / time_enabled; 1.0 where the source never multiplexes."""
    generation: str
    """Changes when the source starts again from zero."""
    vcpu_cycles: tuple[int, ...] = ()
    """Cycles of each vCPU that is read; empty where the source tells only their sum."""


class Sample(NamedTuple):
    """Rates of one VP over one interval."""

    at_s: float
    span_s: float
    instructions_per_s: float
    cpi: float
    l2_mpki: float
    """L2 misses (= LLC references) per 1000 instructions."""
    mpki: float
    """LLC misses per 1000 instructions: the intensity."""
    memory_factor: float
    misses_per_s: float
    references_per_s: float
    remote_ratio: float
    """Share of LLC misses that another node's memory served."""
    cpu_cores: float
    busiest_cores: float
    """CPU that the busiest of its vCPUs used; taken as even where nobody tells them apart."""
    running_ratio: float

    @property
    def cache_hits_pki(self) -> float:
        return self.l2_mpki - self.mpki


class MissCost(NamedTuple):
    """Sums over a VP's samples while it did the same work, of which `model.miss_cost` reads what a
    miss costs it; older samples fade."""

    weight: float = 0.0
    """So many samples count."""
    l2_mpki: float = 0.0
    """Mean, as the next two."""
    mpki: float = 0.0
    cpi: float = 0.0
    mpki_squares: float = 0.0
    """Sum of squared distances from the mean."""
    products: float = 0.0
    """Of the distances of `mpki` and `cpi`."""
    cpi_squares: float = 0.0


NO_MISS_COST = MissCost()


class Profile(NamedTuple):
    """A VP in its last undisturbed state: what `predict` and sensitivity use."""

    state: State
    sensitivity: Sensitivity
    l2_mpki: float
    mpki: float
    memory_factor: float
    cpi: float
    instructions_per_s: float
    misses_per_s: float
    references_per_s: float
    samples: int = 1
    """Of so many the means are made, up to those that count."""
    evicted_ratio: float = 0.0
    """Share of its hits that neighbours cost it when this was taken, as `predict` has it."""
    memory_ratio: float = 1.0
    """Latency of its memory then, over that of local memory which serves it alone."""
    pressures: Mapping[str, float] = MappingProxyType({})
    """LLC misses per second of each co-runner in the same LLC domain at that time. Kept of those
    alone whom a neighbour's misses can hurt: VPs times neighbours would be most of a tick."""
    sibling_speed: float = 1.0
    """Of what a core does for one thread alone, that its vCPUs got beside busy siblings then."""
