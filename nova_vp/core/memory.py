# SPDX-License-Identifier: Apache-2.0
"""What the core remembers from one tick to the next: a value handed in and handed back.

Nothing here decides. `confirm` is the one way in which the world answers a decision.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from nova_vp.core.decided import (
    Action,
    Change,
    Detection,
    DomainView,
    Outcome,
    Reason,
    Result,
    Setting,
)
from nova_vp.core.knobs import Cpus, Knob, Quota, Shares, Value, all_cpus
from nova_vp.core.model import (
    Incomplete,
    Profile,
    Reading,
    Sample,
    State,
)

HISTORY = 8
"""Outcomes kept per VP, for the report."""

STEADY = frozenset({Reason.RENEW_CAP, Reason.REAPPLY})
"""What changes nobody's place: it keeps or restores what stood."""

FIRST_WAIT_S = 30.0
MOST_DOUBLINGS = 4
"""Of the wait after a look for a better arrangement that brought nothing."""

A_PART = 0.1
"""Of a guest's memory: less is a rest that could not be moved."""

BUDGET_S = 60.0
"""The span that the budget of moves is counted over."""


class Pace(NamedTuple):
    """Means of one VP since everybody's place last changed: what a change is measured by."""

    since_s: float = 0.0
    samples: int = 0
    cpi: float = 0.0
    l2_mpki: float = 0.0


class Tracked(NamedTuple):
    """One VP between two ticks."""

    guest_uuid: str
    generation: str = ""
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
    is_homed: bool = False
    moved_at_s: float | None = None
    left: tuple[tuple[frozenset[int], float], ...] = ()
    """CPU sets that a mitigation took it away from, and when."""
    left_nodes: tuple[tuple[frozenset[int], float], ...] = ()
    """Nodes that a mitigation took its memory away from, and when."""
    history: tuple[Outcome, ...] = ()
    pace: Pace = Pace()
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
    actions_done: int = 0
    """On it so far: the like of one, done again, is another one."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An action that was applied and must still prove itself."""

    action: Action
    since_s: float
    before: Mapping[str, Pace]
    """By guest UUID, as it was when the action was decided."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A CPU cap that stands on one guest."""

    ratio: float
    """Of what Nova gave it."""
    original: Quota
    controller: str
    victim_uuid: str
    changed_at_s: float
    lifted_at_s: float | None
    """When it was last raised or lifted before it was put back; None: this is no coming back."""
    busiest_cores: float
    """The most CPU that one vCPU of it used lately when the first of its steps was taken."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What became of one VP's demand for CPU (Merlin, thesis 3.2.3)."""

    acted_at_s: float = -math.inf
    application_set: frozenset[str] = frozenset()
    """S: those that its allocations hurt so far."""
    corunners: frozenset[str] = frozenset()
    """Who shared a cache with it when the last one was made."""
    hurt: frozenset[str] = frozenset()
    """Who got worse in its repercussion interval."""
    last: str = ""
    """The reconfiguration that was made last."""
    granted: frozenset[int] = frozenset()
    """CPUs that it gave the one that asked."""
    tried: frozenset[str] = frozenset()
    """Reconfigurations made for this demand that hurt somebody: not made again."""


class Trial(NamedTuple):
    """A few what-ifs of one tick: these leave, one at a time; or, with a mover, it moves to those
    domains, into the room that one of theirs leaves."""

    leavers: tuple[str, ...]
    mover: str = ""
    domain_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Weighing:
    """Who could leave the host for one escalation's sake: worked out over some ticks."""

    begun_s: float
    todo: tuple[Trial, ...]
    found: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By guest that leaves: what the victim and what all others regain."""


@dataclass(frozen=True, slots=True)
class Memory:
    vps: Mapping[str, Tracked] = field(default_factory=dict)
    undisturbed: Mapping[str, Profile] = field(default_factory=dict)
    """Each VP in its last undisturbed state, by guest UUID. Beside `vps`, since it is the one
    thing that changes in every tick of a quiet host."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """Undisturbed profiles known from before this agent's start, by guest UUID."""
    pending: tuple[Pending, ...] = ()
    acquitted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(victim, suspect) whose separation mended nothing, until when it is not tried again."""
    in_vain: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """(victim, `signature` of what was done for it) that mended nothing, until when."""
    caps: Mapping[str, Cap] = field(default_factory=dict)
    """By capped guest."""
    lifted_at_s: Mapping[str, float] = field(default_factory=dict)
    """By guest: when its cap was last raised or lifted."""
    copy_kib_per_s: float | None = None
    """How fast this host copied memory last; None: it never did."""
    placed_at_s: float = 0.0
    """When anybody's place, memory or cap last changed."""
    rearrange_at_s: float = 0.0
    """Not before that is a better arrangement sought: each fruitless look doubles the wait."""
    fruitless_looks: int = 0
    failed_plans: Mapping[int, float] = field(default_factory=dict)
    """Signatures of rearrangements that brought nothing, until when they are not made again."""
    demands: Mapping[str, Demand] = field(default_factory=dict)
    """Merlin's application sets, by the guest that asked for more CPU."""
    unmet_since_s: Mapping[str, float] = field(default_factory=dict)
    """By guest: since when its demand for CPU finds no rung that could meet it."""
    weighings: Mapping[str, Weighing] = field(default_factory=dict)
    """By id of the escalation that stands, or soon will."""
    moves_at_s: tuple[float, ...] = ()
    held_off: Mapping[tuple[str, Knob], float] = field(default_factory=dict)
    """By guest: what somebody had undone, until when it is not turned anew."""
    foreign: Mapping[str, str] = field(default_factory=dict)
    """Guests whose placement somebody else took over, with the generation it was seen in."""
    domains: tuple[DomainView, ...] = ()
    domains_at_s: float = 0.0
    domains_key: int = 0
    """What the domain views were made from, so that an unchanged host reuses them."""


def signature(settings: Iterable[Setting | Change]) -> int:
    """What makes two rearrangements the same one."""
    return hash(frozenset((s.guest_uuid, s.knob, _target(s)) for s in settings))


def _target(setting: Setting | Change) -> Value:
    return setting.value if isinstance(setting, Setting) else setting.to


def confirm(memory: Memory, outcomes: Iterable[Outcome]) -> Memory:
    """What the host answered to the decision's actions."""
    for outcome in outcomes:
        memory = _confirm(memory, outcome)
    return memory


def _confirm(memory: Memory, outcome: Outcome) -> Memory:
    action, at_s = outcome.action, outcome.at_s
    vps = dict(memory.vps)
    _note(vps, outcome)
    if action.guest_uuid not in vps:
        return replace(memory, vps=vps)
    for uuid in {c.guest_uuid for c in action.changes if c.knob is not Knob.CPU_CAP} & vps.keys():
        vps[uuid] = _moved(vps[uuid], outcome)
    memory = replace(memory, vps=vps)
    if outcome.result is not Result.APPLIED:
        return memory
    memory = _capped(memory, outcome)
    if action.reason in STEADY:
        return memory
    vp = vps[action.guest_uuid]
    vps[action.guest_uuid] = vp._replace(actions_done=vp.actions_done + 1)
    memory = replace(memory, vps=vps, placed_at_s=at_s)
    if not action.is_tried:
        return memory
    before = {uuid: vp.pace for uuid, vp in vps.items() if vp.pace.samples}
    moves = (*(moved_s for moved_s in memory.moves_at_s if at_s - moved_s < BUDGET_S), at_s)
    pending = (*memory.pending, Pending(action, at_s, before))
    return replace(memory, pending=pending, moves_at_s=moves)


def _moved(vp: Tracked, outcome: Outcome) -> Tracked:
    action, at_s = outcome.action, outcome.at_s
    applied = outcome.result is Result.APPLIED
    left, left_nodes = vp.left, vp.left_nodes
    is_grown = action.reason is Reason.MORE_CPU
    for change in action.changes if applied and (action.is_tried or is_grown) else ():
        if change.guest_uuid != vp.guest_uuid:
            continue
        if change.knob is Knob.PLACEMENT:
            gone = all_cpus(cast(Cpus, change.now))
            gone -= all_cpus(cast(Cpus, change.to)) if is_grown else frozenset()
            left = (*left, (gone, at_s))[-HISTORY:] if gone else left
        elif change.knob is Knob.MEMORY:
            gone = nodes_of(change.now, at_least=A_PART) - nodes_of(change.to)
            left_nodes = (*left_nodes, (gone, at_s))[-HISTORY:]
    is_homed = vp.is_homed or (applied and action.reason is Reason.HOME)
    return vp._replace(moved_at_s=at_s, left=left, left_nodes=left_nodes, is_homed=is_homed)


def nodes_of(value: Value, at_least: float = 0.0) -> frozenset[int]:
    """Where a MEMORY value has at least such a share."""
    return frozenset(node for node, share in cast(Shares, value) if share >= at_least)


def _capped(memory: Memory, outcome: Outcome) -> Memory:
    caps, lifted = dict(memory.caps), dict(memory.lifted_at_s)
    for change in outcome.action.changes:
        if change.knob is not Knob.CPU_CAP or change.to == change.now:
            continue
        uuid = change.guest_uuid
        to, now = cast(Quota, change.to), cast(Quota, change.now)
        original = cast(Quota, change.original)
        old = caps.pop(uuid, None)
        if not change.is_restoring:
            caps[uuid] = Cap(
                ratio=to.cores / original.cores,
                original=original,
                controller=outcome.action.controller,
                victim_uuid=outcome.action.victim_uuid or (old.victim_uuid if old else ""),
                changed_at_s=outcome.at_s,
                lifted_at_s=lifted.get(uuid) if to.cores < now.cores else None,
                busiest_cores=old.busiest_cores if old else memory.vps[uuid].busiest_cores,
            )
        if to.cores > now.cores:
            lifted[uuid] = outcome.at_s
    return replace(memory, caps=caps, lifted_at_s=lifted)


def _note(vps: dict[str, Tracked], outcome: Outcome) -> None:
    """Write the outcome into the history of all whom it moved and of those it is for."""
    action = outcome.action
    moved = {change.guest_uuid for change in action.changes}
    for uuid in {*moved, action.guest_uuid, action.victim_uuid, action.on_behalf_of}:
        vp = vps.get(uuid) if uuid else None
        if vp is not None:
            kept = tuple(o for o in vp.history if o.action.id != action.id)
            vps[vp.guest_uuid] = vp._replace(history=(*kept, outcome)[-HISTORY:])


def note_outcome(memory: Memory, outcome: Outcome) -> Memory:
    """A later verdict on an action (mended, ineffective) replaces its earlier one."""
    vps = dict(memory.vps)
    _note(vps, outcome)
    return replace(memory, vps=vps)


def put_off(memory: Memory, now_s: float) -> Memory:
    """The next look for a better arrangement is farther away, until one of them brings some."""
    wait_s = FIRST_WAIT_S * 2.0 ** min(memory.fruitless_looks, MOST_DOUBLINGS)
    looks = memory.fruitless_looks + 1
    return replace(memory, rearrange_at_s=now_s + wait_s, fruitless_looks=looks)
