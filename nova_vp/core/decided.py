# SPDX-License-Identifier: Apache-2.0
"""What a tick makes of its picture: detections, wants, actions, and what became of them.

A want says what a controller would like of one or several guests, and is granted whole or not at
all; an action is a granted want. Each carries its reason and the alternatives it rejected.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from nova_vp.core.knobs import Cpus, Knob, Value, all_cpus
from nova_vp.core.model import (
    Guest,
    Incomplete,
    LlcDomain,
    MemoryMove,
    Mode,
    Profile,
    Sample,
    Sensitivity,
    State,
)


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
    CONTROLLER = "memory-controller"
    LINK = "interconnect"
    REMOTE = "remote-latency"
    CPU = "cpu"
    """No interference: it wants more CPU than it was allotted (Merlin)."""


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

    @property
    def measured_loss_ratio(self) -> float:
        """What the victim loses now, from its cycles per instruction before and during."""
        return max(0.0, 1 - self.before.cpi / self.now.cpi) if self.now.cpi else 0.0


class Reason(enum.Enum):
    """Why an action was chosen; the numbers travel beside it."""

    HOME = "home-on-arrival"
    MOVE_AGGRESSOR = "move-aggressor"
    MOVE_VICTIM = "move-victim"
    SEPARATE = "separate-on-hot-node"
    """State-8 VPs of a hot node, one node each (thesis 2.1.3)."""
    REARRANGE = "rearrange-predicted-hurt"
    SWAP = "swap-places"
    BRING_HOME = "bring-memory-and-cpus-together"
    PARTITION = "partition-cache-or-bandwidth"
    CAP = "cap-aggressor"
    RENEW_CAP = "renew-cap"
    LIFT_CAP = "lift-cap"
    MORE_CPU = "more-cpu"
    """Merlin: a VP uses nearly all the CPU that it was allotted."""
    LESS_CPU = "cpu-given-back"
    INEFFECTIVE = "undo-ineffective"
    REVOKED = "undo-ordered"
    """Somebody ordered that an action be undone."""
    REAPPLY = "reapply-lost-placement"


TRIED = frozenset(
    {
        Reason.MOVE_AGGRESSOR,
        Reason.MOVE_VICTIM,
        Reason.SEPARATE,
        Reason.REARRANGE,
        Reason.SWAP,
        Reason.BRING_HOME,
        Reason.PARTITION,
        Reason.CAP,
    }
)


class Rejection(enum.Enum):
    """Why an alternative was not chosen."""

    NO_FREE_CPU = "no-free-cpu"
    MORE_CROWDED = "more-crowded"
    SHARED_EVERYWHERE = "shares-every-domain-with-the-victim"
    HURTS_MORE = "predicted-hurt-not-lower"
    HURTS_OTHERS = "would-hurt-others-too-much"
    GAINS_TOO_LITTLE = "predicted-gain-too-small"
    UNFAIR = "would-favour-one-over-another"
    UNMANAGED = "guest-unmanaged"
    NEVER_CAPPED = "flavor-allows-no-cap"
    AT_FLOOR = "cap-at-its-floor"
    REVERSE_MOVE = "reverse-move-within-hold"
    HOLD = "moved-recently"
    BUDGET = "move-budget-spent"
    FAILED_BEFORE = "ineffective-before"
    OUTRANKED = "another-controller-owns-the-knob"
    NOT_BEST = "another-domain-hurts-less"
    REVOKED = "undone-by-order"


class Rung(enum.Enum):
    """The ways to help, as the thesis orders them: 2.1.3 for mitigation, 3.1 for demands."""

    RAISE_CAP = "raise-cap"
    LOCAL_CPU = "local-cpu"
    REMOTE_CPU = "remote-cpu"
    MOVE = "move-vcpus"
    SWAP = "swap"
    MOVE_WITH_MEMORY = "move-vcpus-and-memory"
    MOVE_MEMORY = "move-memory"
    PARTITION = "partition"
    CAP = "cap"


@dataclass(frozen=True, slots=True)
class Alternative:
    guest_uuid: str
    domain_id: int
    rejection: Rejection
    hurt: Hurt | None = None
    victim_uuid: str | None = None
    """For whose sake it was considered; set where the whole want was refused."""
    rung: Rung = Rung.MOVE


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob of one guest as a controller would like it."""

    guest_uuid: str
    knob: Knob
    value: Value


@dataclass(frozen=True, slots=True)
class Want:
    """What one controller would like: all of its settings, or none. Without any it says that
    nothing helps, and why."""

    controller: str
    guest_uuid: str
    """The guest it is mainly about; others may have to make room."""
    settings: tuple[Setting, ...]
    domain_ids: tuple[int, ...]
    """Where that guest's vCPUs will be."""
    reason: Reason
    hurt: Hurt
    detection: Detection | None = None
    rejected: tuple[Alternative, ...] = ()
    evidence: Mapping[str, float] = field(default_factory=dict)
    rung: Rung | None = None
    on_behalf_of: str | None = None
    """Whose demand is met, where another one has to move for it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One knob of one guest, from what stands there now."""

    guest_uuid: str
    knob: Knob
    to: Value
    now: Value
    original: Value
    """What stood there before us."""
    until_s: float | None = None

    @property
    def is_restoring(self) -> bool:
        """It leaves nothing of ours."""
        return self.to == self.original


@dataclass(frozen=True, slots=True)
class Action:
    """A want that may be acted on: its changes, in this order, because of the reason and numbers
    given. One that fails takes back those before it."""

    id: str
    controller: str
    guest_uuid: str
    changes: tuple[Change, ...]
    domain_ids: tuple[int, ...]
    reason: Reason
    decided_s: float
    hurt: Hurt
    victim_uuid: str | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    rejected: tuple[Alternative, ...] = ()
    is_undo: bool = False
    rung: Rung | None = None
    on_behalf_of: str | None = None
    """Whose demand is met, where another one has to move for it."""

    @property
    def is_tried(self) -> bool:
        """It must prove itself afterwards, and is undone if it does not."""
        return self.reason in TRIED and not self.is_undo

    @property
    def cpus(self) -> frozenset[int]:
        """Where the guest's vCPUs will run; empty if they stay."""
        change = self.change_of(Knob.PLACEMENT)
        return all_cpus(cast(Cpus, change.to)) if change else frozenset()

    @property
    def from_cpus(self) -> frozenset[int]:
        change = self.change_of(Knob.PLACEMENT)
        return all_cpus(cast(Cpus, change.now)) if change else frozenset()

    def change_of(self, knob: Knob) -> Change | None:
        """Of the guest that it is about."""
        mine = (c for c in self.changes if c.guest_uuid == self.guest_uuid and c.knob is knob)
        return next(mine, None)


class Role(enum.Enum):
    """What a guest is to a victim that nothing on this node helps."""

    VICTIM = "victim"
    AGGRESSOR = "aggressor"
    CO_RUNNER = "co-runner"


class Migrant(NamedTuple):
    """A guest that could leave this host, and what that would bring."""

    guest_uuid: str
    role: Role
    relief_ratio: float
    """Share of its undisturbed performance that the victim would regain."""
    others_ratio: float
    """What all the others would, summed up; negative if they would pay for it."""


@dataclass(frozen=True, slots=True)
class Escalation:
    """Nothing on this node helps: the cluster must (Merlin's last rung)."""

    id: str
    victim_uuid: str
    kind: Kind
    decided_s: float
    since_s: float
    evidence: Mapping[str, float]
    rejected: tuple[Alternative, ...]
    candidates: tuple[Migrant, ...] = ()
    """All who run here, the greatest relief first; empty until all are weighed."""


class Result(enum.Enum):
    APPLIED = "applied"
    FAILED = "failed"
    MENDED = "mended"
    INEFFECTIVE = "ineffective"
    UNJUDGED = "unjudged"
    """Whether it helped could not be told: too little was seen, or its victim left."""
    UNDONE = "undone"
    """By order."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an action. A failure is an outcome, not an exception."""

    action: Action
    result: Result
    at_s: float
    """When it was done, or failed."""
    detail: str = ""
    settled_s: float | None = None
    """When a later result than that of the doing was known; None: there is none."""


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
class NodeView:
    """One NUMA node's memory controller."""

    node: int
    misses_per_s: float
    """Served by its memory, whoever missed."""
    mpki: float
    """The thesis's measure: summed over the VPs whose memory lies there."""
    limit_misses_per_s: float | None
    is_hot: bool


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
    nodes: tuple[NodeView, ...] = ()
    memory_moves: tuple[MemoryMove, ...] = ()
    memory_pace_kib_per_s: Mapping[str, float] = field(default_factory=dict)
    """By guest whose memory is under way: how fast it may go on."""
    escalations: tuple[Escalation, ...] = ()
    foreign: tuple[str, ...] = ()
    """Guests whose placement somebody else changed: ours no more, their journal is dropped."""
