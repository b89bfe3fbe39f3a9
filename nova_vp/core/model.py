# SPDX-License-Identifier: Apache-2.0
"""What is known of a host at one tick: the picture, and what is measured from it.

Every type is frozen: a decision (`decided.py`) is made from one picture and leaves as data. What
could not be read is present as missing, with the reason. Units are in the names. Those that are
made anew for every VP in every tick are named tuples, which cost a third of a dataclass.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from nova_vp.core.knobs import NO_PARTITION, NO_QUOTA, Applied, Cpus, Knob, Partition, Quota, Shares


class Mode(enum.Enum):
    """What the operator lets the agent do on this host."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ENFORCE = "enforce"


def tightest(mode: Mode, *others: Mode) -> Mode:
    """The one that allows least."""
    return min((mode, *others), key=tuple(Mode).index)


class Isolation(enum.Enum):
    """`vp:isolation`: what the flavor asks for."""

    NONE = "none"
    SOFT = "soft"
    STRICT = "strict"


class Homing(enum.Enum):
    """In which modes a VP gets one LLC domain when it arrives."""

    NEVER = "never"
    ENFORCE = "enforce"
    ALWAYS = "always"


class Controller(enum.Enum):
    """Who may want something of a guest, besides homing."""

    VP = "vp"
    """Mitigation of interference (thesis chapter 2)."""
    REARRANGE = "rearrange"
    """Better places before anybody's state changes (thesis 2.3.1)."""
    MERLIN = "merlin"
    """Elastic demands for CPU (thesis chapter 3)."""


class Unmanaged(enum.Enum):
    """Why a guest is watched but never touched (it can still be victim or aggressor)."""

    NUMA_TOPOLOGY = "numa-topology"
    DEDICATED_CPUS = "dedicated-cpus"
    HUGEPAGES = "hugepages"
    REALTIME = "realtime"
    OPTED_OUT = "vp:manage=no"
    INVALID_SPEC = "invalid-vp-spec"
    NOT_NOVA = "no-nova-metadata"
    MIGRATING = "migrating"
    FOREIGN_CHANGE = "changed-by-somebody-else"
    LEAVING = "about-to-be-migrated"
    """The cluster ordered it, so we let go of it beforehand."""
    ORDERED_OUT = "opted-out"
    """Somebody ordered it for this server; what was set on it is undone."""
    ORDERED_OBSERVE = "ordered-observe"
    """Somebody ordered mode observe for this server, on a host that may do more."""
    AWAITING_ORDERS = "awaiting-orders"
    """It has just arrived, and nobody has said yet whether it may be touched."""


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


@lru_cache(maxsize=1024)
def _shares(memory_by_node: tuple[tuple[int, int], ...]) -> Shares:
    """Asked for in every tick, while memory seldom moves."""
    total = sum(kib for _, kib in memory_by_node)
    return tuple((node, kib / total) for node, kib in memory_by_node if kib)


class Guest(NamedTuple):
    """One running or paused server as libvirt and Nova's metadata describe it."""

    uuid: str
    domain_name: str
    name: str
    project_id: str
    flavor: str
    vcpus: int
    memory_kib: int
    allowed_cpus: frozenset[int]
    """Nova's bound: `<vcpu cpuset>`, or every CPU of the host."""
    placement: frozenset[int]
    """Where any of its vCPU threads may run now, read back from the host."""
    cpu_time_ns: int
    generation: str
    """Changes whenever the vCPU threads are new ones: boot, soft reboot, arrival."""
    is_running: bool = True
    isolation: Isolation = Isolation.NONE
    unmanaged: Unmanaged | None = None
    unmanaged_detail: str = ""
    """For people: which key and value, and what is allowed."""
    vcpu_placement: Cpus = ()
    """By vCPU, where they may not all run alike; empty: each runs wherever any does."""
    group: str = ""
    """`vp:group`: servers of one project that say the same are one VP."""
    priority: float = 1.0
    """`vp:priority`: its weight where demands conflict."""
    cap_floor_ratio: float | None = None
    """Least share of each vCPU that a cap must leave it; None: it is never capped."""
    quota: Quota = NO_QUOTA
    """Read back from the host."""
    memory_split: Shares = ()
    """`vp:memory_split`: shares over as many nodes, to be given at creation; empty: one node."""
    memory_by_node: tuple[tuple[int, int], ...] = ()
    """(node, KiB that lie there now); empty where it was not read."""
    partition: Partition = NO_PARTITION
    """Read back from the host."""
    memory_obstacle: str = ""
    """Why its memory cannot be moved (huge pages, locked, VFIO), for people."""
    migration_obstacle: str = ""
    """Why it cannot be moved to another host, for people."""
    image: str = ""
    """UUID of the image that it was booted from; empty: from none, or nobody says."""
    mode: Mode | None = None
    """Ordered for it alone: the tighter one of this and the host's holds."""

    @property
    def vp_id(self) -> str:
        """One application's servers: a lone server is its own VP."""
        return f"{self.project_id}/{self.group}" if self.group else self.uuid

    @property
    def cpus(self) -> Cpus:
        """Its placement as a knob has it."""
        return self.vcpu_placement or (self.placement,)

    @property
    def memory_shares(self) -> Shares:
        return _shares(self.memory_by_node)


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


@dataclass(frozen=True, slots=True)
class MemoryMove:
    """One guest's memory on its way between nodes."""

    guest_uuid: str
    to: Shares
    moved_kib: int
    left_kib: int
    is_over: bool = False
    problem: str = ""
    """Why it ended early; empty: it did not."""
    kib_per_s: float = 0.0
    """While it copies, the waits of its pace apart; 0 until it has copied."""


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


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything one tick decides from. Nobody fetches more halfway."""

    at_s: float
    """Monotonic."""
    mode: Mode
    topology: Topology
    guests: tuple[Guest, ...]
    readings: Mapping[str, Reading]
    """By guest UUID; a guest that could not be read is absent."""
    applied: Mapping[str, Applied]
    """By guest UUID."""
    approved: frozenset[str] = frozenset()
    """Ids of proposals that an operator told us to apply."""
    revoked: frozenset[str] = frozenset()
    """Ids of actions that an operator told us to undo."""
    knobs: frozenset[Knob] = frozenset({Knob.PLACEMENT})
    """What the actuators of this host can turn."""
    memory_moves: Mapping[str, MemoryMove] = field(default_factory=dict)
    """By guest UUID: moves under way, and those that ended since the last tick."""
    limits: Limits = NO_LIMITS
    epoch: int = 0
    """Of the run of the agent that sees it."""


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


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's numbers. Defaults are written once, in `nova_vp/conf`."""

    dwell_samples: int = 2
    hysteresis_ratio: float = 0.1
    l2_hold_ratio: float = 0.2
    min_instructions_per_s: float = 1e6
    min_references_pki: float = 1.0
    sensitive_hits_pki: float = 10.0
    min_running_ratio: float = 0.8
    max_sample_age_s: float = 5.0
    guilty_rise_ratio: float = 0.5
    guilty_min_share_ratio: float = 0.1
    miss_penalty_cycles: float = 160.0
    strict_max_hurt_ratio: float = 0.05
    effect_window_s: float = 10.0
    reverse_hold_s: float = 900.0
    move_hold_s: float = 10.0
    moves_per_minute: int = 6
    home_on_arrival: Homing = Homing.ENFORCE
    cpi_rise_ratio: float = 0.1
    hot_node_by_mpki: bool = False
    hot_node_mpki: float = 100.0
    least_gain_ratio: float = 0.03
    most_hurt_ratio: float = 0.05
    felt_loss_ratio: float = 0.03
    noise_ratio: float = 0.02
    settle_samples: int = 5
    rearrange_after_s: float = 10.0
    cap_probe_s: float = 60.0
    memory_move_price_ratio: float = 0.15
    memory_pace_kib_per_s: float = 524288.0
    phased_pace_ratio: float = 0.25
    partition_llc_ratio: float = 0.25
    partition_bandwidth_ratio: float = 0.5
    escalate_after_s: float = 30.0
    controllers: frozenset[Controller] = frozenset({Controller.VP, Controller.REARRANGE})
    demand_sensitivity: float = 0.8
    epoch_s: float = 10.0
    repercussion_s: float = 3.0
    epsilon: float = 0.1
