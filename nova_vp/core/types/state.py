# SPDX-License-Identifier: Apache-2.0
"""What the core remembers from one tick to the next: a value handed in and handed back.

Nothing here decides. The host's answers come in by `pipeline.confirm`, and by
`pipeline.revert.note_given_back` where everything was reverted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nova_vp.core.types.action import Action, Outcome
from nova_vp.core.types.claim import Claim, ClaimKey
from nova_vp.core.types.cpu_time import NOT_MEASURED, CpuTimes, CpuUse, HostCpuUse
from nova_vp.core.types.decision import DomainView
from nova_vp.core.types.detection import Detection
from nova_vp.core.types.island import Loan
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.sample import (
    NO_MISS_COST,
    Incomplete,
    MissCost,
    Profile,
    Reading,
    Sample,
    State,
)

HISTORY = 8
"""Outcomes kept per VP, for the report."""

BUDGET_S = 60.0
"""The span that the budget of moves is counted over."""


class PerfWindow(NamedTuple):
    """Means of one VP since places last changed or it began to be degraded: changes are measured by
    them."""

    since_s: float = 0.0
    samples: int = 0
    cpi: float = 0.0
    l2_mpki: float = 0.0
    sibling_speed: float = 1.0
    """Of what a core does for one thread alone, that its vCPUs got beside busy siblings."""


class VpState(NamedTuple):
    """One VP between two ticks."""

    guest_uuid: str
    generation: str = ""
    vp_id: str = ""
    project_id: str = ""
    reading: Reading | None = None
    read_at_s: float = 0.0
    cpu_time_ns: int = 0
    sample: Sample | None = None
    incomplete: Incomplete | None = Incomplete.FIRST
    state: State | None = None
    since_s: float | None = None
    candidate: State | None = None
    candidate_samples: int = 0
    detection: Detection | None = None
    suspected_at_s: float = 0.0
    """When the running detection last had a suspect."""
    moved_at_s: float | None = None
    left: tuple[tuple[frozenset[int], float], ...] = ()
    """CPU sets that a mitigation took it away from, and when."""
    left_nodes: tuple[tuple[frozenset[int], float], ...] = ()
    """Nodes that a mitigation took its memory away from, and when."""
    history: tuple[Outcome, ...] = ()
    window: PerfWindow = PerfWindow()
    peak_cores: float = 0.0
    """The most CPU that it used lately."""
    busiest_cores: float = 0.0
    """The most that one of its vCPUs used lately."""
    seen_at_s: float = 0.0
    """When it had a complete sample last."""
    samples_seen: int = 0
    """Complete ones since it started, as far as that matters."""
    slowed_samples: int = 0
    """In a row, in which it was hurt beyond the cache."""
    unexplained_samples: int = 0
    """In a row, in which it looked hurt and nobody could be blamed."""
    unsettled_samples: int = 0
    """The next ones that may still hold some of a degradation that has ended."""
    actions_done: int = 0
    """On it so far: the like of one, done again, is another one."""
    cpu_times: CpuTimes | None = None
    """As they were last read; None: they were not."""
    quota_under_cap: Quota | None = None
    """What stood there before our cap; None: there was no cap of ours in the last tick."""
    cpu_use: CpuUse | None = None
    """None: not measured since it started."""
    recent_cpu_use: CpuUse | None = None
    """The same of the last seconds, and only since places or caps last changed: what is judged."""
    cpu_sample: CpuUse | None = None
    """The same of the last tick alone."""
    waiting_samples: int = 0
    """In a row, in which it waited for CPU too long."""
    miss_cost: MissCost = NO_MISS_COST


@dataclass(frozen=True, slots=True)
class Pending:
    """An action that was applied and must still prove itself."""

    action: Action
    since_s: float
    before: Mapping[str, PerfWindow]
    """By guest UUID, as it was when the action was decided."""
    cpu_before: Mapping[str, CpuUse] = field(default_factory=dict)
    """The same of CPU waiting, where it is measured."""
    copied_at_s: float = 0.0
    """When memory that it moves was last seen on its way. 0: never."""

    @property
    def judged_from_s(self) -> float:
        return max(self.since_s, self.copied_at_s)


class ActionOnOthers(NamedTuple):
    """One that changed servers of others for one victim's sake."""

    victim_uuid: str
    project_id: str
    """The victim's."""
    at_s: float


class VirtualPlace(NamedTuple):
    """Where a server would be placed: see `nova_vp.core.pipeline.virtual_places`."""

    generation: str
    """Of the vCPU threads that it is for."""
    cpus: frozenset[int]


class WithoutGain(NamedTuple):
    """Actions on others for one victim that did not help it, in a row."""

    actions: int = 0
    """Since the last hold."""
    holds: int = 0
    until_s: float = 0.0
    """Until then nothing is done to others for it."""


class RejectedProposal(NamedTuple):
    """What an operator rejected, and how long it is not proposed again."""

    until_s: float
    since_s: float | None
    """Since when the degradation lasted that it was for; None: it was for none."""


class WhatIf(NamedTuple):
    """A few what-ifs of one tick: these leave, one at a time; or, with a mover, it moves to those
    domains, into the room that one of theirs leaves."""

    leavers: tuple[str, ...]
    mover: str = ""
    domain_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CandidateEvaluation:
    """Who could leave the host for one escalation's sake: worked out over some ticks."""

    begun_s: float
    todo: tuple[WhatIf, ...]
    found: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By guest that leaves: what the victim and what all others regain."""


@dataclass(frozen=True, slots=True)
class CoreState:
    vps: Mapping[str, VpState] = field(default_factory=dict)
    undisturbed: Mapping[str, Profile] = field(default_factory=dict)
    """Each VP in its last undisturbed state, by guest UUID. Beside `vps`, since it is the one
    thing that changes in every tick of a quiet host."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """Undisturbed profiles known from before this agent's start, by guest UUID."""
    miss_costs: Mapping[str, MissCost] = field(default_factory=dict)
    """Learned before this agent's start, by guest UUID: each goes on from there."""
    pending: tuple[Pending, ...] = ()
    cleared_suspects: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(victim, suspect) whose separation mended nothing, until when it is not tried again."""
    failed_actions: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """(victim or nobody, `signature` of what was done for it) that brought nothing, until when."""
    rejected: Mapping[tuple[str, int], RejectedProposal] = field(default_factory=dict)
    """By (victim or nobody, `subject` of what was proposed for it)."""
    claims: Mapping[ClaimKey, tuple[Claim, ...]] = field(default_factory=dict)
    """What stands: one claim for each controller that limits a knob, one for a place or memory."""
    loosened_at_s: Mapping[str, float] = field(default_factory=dict)
    """By guest: when a limit of it was last raised or removed."""
    controllers: Mapping[str, Any] = field(default_factory=dict)
    """By name: what each controller remembers, a value of its own kind."""
    copy_kib_per_s: float | None = None
    """How fast this host copied memory last; None: it never did."""
    virtual_places: Mapping[str, VirtualPlace] = field(default_factory=dict)
    """By guest UUID, while the host only observes."""
    placed_at_s: float = 0.0
    """When anybody's place, memory or cap last changed."""
    evaluations: Mapping[str, CandidateEvaluation] = field(default_factory=dict)
    """By id of the escalation that stands, or soon will."""
    moves_at_s: tuple[float, ...] = ()
    actions_on_others: tuple[ActionOnOthers, ...] = ()
    """Of the last hour, also of victims that left since."""
    without_gain: Mapping[str, WithoutGain] = field(default_factory=dict)
    """By victim."""
    held_off: Mapping[tuple[str, Knob], float] = field(default_factory=dict)
    """By guest: what somebody had undone, until when it is not turned anew."""
    foreign: Mapping[str, str] = field(default_factory=dict)
    """Guests whose placement somebody else took over, with the generation it was seen in."""
    domains: tuple[DomainView, ...] = ()
    domains_at_s: float = 0.0
    domains_key: int = 0
    """What the domain views were made from, so that an unchanged host reuses them."""
    host_cpu: HostCpuUse = NOT_MEASURED
    loans: tuple[Loan, ...] = ()
    """CPUs lent between islands."""
