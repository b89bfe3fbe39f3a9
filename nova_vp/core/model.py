# SPDX-License-Identifier: Apache-2.0
"""The values that travel through one tick, and nothing that computes them.

Every type is frozen: a decision is made from one picture of the host and leaves as data. What
could not be read is present as missing, with the reason. Units are in the names. Those that are
made anew for every VP in every tick are named tuples, which cost a third of a dataclass.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple


class Mode(enum.Enum):
    """What the operator lets the agent do on this host."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ENFORCE = "enforce"


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


class FactorClass(enum.IntEnum):
    """Memory factor, LLC misses / L2 misses (thesis section 2.1.1): < 0.25, < 0.6, above."""

    LOW = 0
    MID = 1
    HIGH = 2


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

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset().union(*(d.cpus for d in self.domains))


@dataclass(frozen=True, slots=True)
class Guest:
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
    """Where its vCPU threads may run now, read back from the host."""
    cpu_time_ns: int
    generation: str
    """Changes whenever the vCPU threads are new ones: boot, soft reboot, arrival."""
    is_running: bool = True
    isolation: Isolation = Isolation.NONE
    unmanaged: Unmanaged | None = None
    unmanaged_detail: str = ""
    """For people: which key and value, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Reading:
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


@dataclass(frozen=True, slots=True)
class Applied:
    """What our journal says we changed on one guest, and what stood there before."""

    guest_uuid: str
    cpus: frozenset[int]
    original_cpus: frozenset[int]
    controller: str
    action_id: str
    epoch: int
    """Which agent run wrote it; another run's entry (crash, migration) is undone on sight."""


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
    pressures: Mapping[str, float] = MappingProxyType({})
    """LLC misses per second of each co-runner in the same LLC domain at that time. Kept of those
    alone whom a neighbour's misses can hurt: VPs times neighbours would be most of a tick."""


@dataclass(frozen=True, slots=True)
class Hurt:
    """What `predict` expects when a newcomer joins a domain: shares of performance lost."""

    newcomer_ratio: float
    worst_resident_ratio: float
    worst_strict_ratio: float = 0.0
    """The worst among residents with `vp:isolation=strict`: only they forbid a place."""

    @property
    def worst_ratio(self) -> float:
        return max(self.newcomer_ratio, self.worst_resident_ratio)


class Kind(enum.Enum):
    """Where the interference happens."""

    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Suspect:
    guest_uuid: str
    pressure_per_s: float
    """LLC misses per second now."""
    rise_per_s: float
    """Against the moment the victim was last undisturbed."""


@dataclass(frozen=True, slots=True)
class Detection:
    """One VP is being hurt: by whom, and the numbers that say so."""

    victim_uuid: str
    kind: Kind
    domain_id: int
    since_s: float
    before: Profile
    now: Sample
    state_now: State
    suspects: tuple[Suspect, ...]
    """Guilty ones only, the worst first."""


class Reason(enum.Enum):
    """Why an action was chosen; the numbers travel beside it."""

    HOME = "home-on-arrival"
    MOVE_AGGRESSOR = "move-aggressor"
    MOVE_VICTIM = "move-victim"
    INEFFECTIVE = "undo-ineffective"
    REAPPLY = "reapply-lost-placement"


class Rejection(enum.Enum):
    """Why an alternative was not chosen."""

    NO_FREE_CPU = "no-free-cpu"
    MORE_CROWDED = "more-crowded"
    SHARED_EVERYWHERE = "shares-every-domain-with-the-victim"
    NOT_ALLOWED_CPUS = "outside-allowed-cpus"
    HURTS_MORE = "predicted-hurt-not-lower"
    UNMANAGED = "guest-unmanaged"
    REVERSE_MOVE = "reverse-move-within-hold"
    HOLD = "moved-recently"
    BUDGET = "move-budget-spent"
    FAILED_BEFORE = "ineffective-before"
    OUTRANKED = "another-controller-owns-the-knob"
    NOT_BEST = "another-domain-hurts-less"


@dataclass(frozen=True, slots=True)
class Alternative:
    guest_uuid: str
    domain_id: int
    rejection: Rejection
    hurt: Hurt | None = None
    victim_uuid: str | None = None
    """For whose sake it was considered; set where the whole want was refused."""


@dataclass(frozen=True, slots=True)
class Want:
    """One controller would like one guest's vCPUs to be somewhere else."""

    controller: str
    guest_uuid: str
    domain_ids: tuple[int, ...]
    cpus: frozenset[int]
    reason: Reason
    hurt: Hurt
    detection: Detection | None = None
    rejected: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """Set the affinity of every vCPU of one guest, because of the reason and numbers given."""

    id: str
    controller: str
    guest_uuid: str
    cpus: frozenset[int]
    from_cpus: frozenset[int]
    original_cpus: frozenset[int]
    domain_ids: tuple[int, ...]
    reason: Reason
    decided_s: float
    hurt: Hurt
    victim_uuid: str | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    rejected: tuple[Alternative, ...] = ()
    is_undo: bool = False


class Result(enum.Enum):
    APPLIED = "applied"
    FAILED = "failed"
    MENDED = "mended"
    INEFFECTIVE = "ineffective"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an action. A failure is an outcome, not an exception."""

    action: Action
    result: Result
    at_s: float
    detail: str = ""


class VpView(NamedTuple):
    """What is known of one VP after this tick."""

    guest: Guest
    domain_ids: tuple[int, ...]
    """LLC domains its vCPUs may run in."""
    sample: Sample | None
    incomplete: Incomplete | None
    state: State | None
    since_s: float | None
    sensitivity: Sensitivity
    undisturbed: Profile | None
    detection: Detection | None
    history: tuple[Outcome, ...]
    """Latest last; concerns this guest as the one moved or as the victim."""


@dataclass(frozen=True, slots=True)
class DomainView:
    """One LLC domain: what a newcomer would find there."""

    domain: LlcDomain
    free_cores: float
    allocated_vcpus: float
    pressure_per_s: float
    table: tuple[Hurt, ...]
    """By newcomer: states 0-8, then index 9 = unknown."""


@dataclass(frozen=True, slots=True)
class Decision:
    at_s: float
    mode: Mode
    vps: tuple[VpView, ...]
    domains: tuple[DomainView, ...]
    detections: tuple[Detection, ...]
    proposals: tuple[Action, ...]
    """Wanted, but the mode does not let us: observe and advise."""
    actions: tuple[Action, ...]
    refused: tuple[Alternative, ...] = ()
    """Wanted, but arbitration, pacing or the lack of a place stopped it."""
    foreign: tuple[str, ...] = ()
    """Guests whose placement somebody else changed: ours no more, their journal is dropped."""


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
