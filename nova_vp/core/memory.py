# SPDX-License-Identifier: Apache-2.0
"""What the core remembers from one tick to the next: a value handed in and handed back.

Nothing here decides. `confirm` is the one way in which the world answers a decision.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nova_vp.core.model import (
    Action,
    Detection,
    DomainView,
    Incomplete,
    Outcome,
    Profile,
    Reading,
    Reason,
    Result,
    Sample,
    State,
)

HISTORY = 8
"""Outcomes kept per VP, for the report."""

BUDGET_S = 60.0
"""The span that the budget of moves is counted over."""


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
    history: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """A mitigation that was applied and must still prove itself on the victim."""

    action: Action
    since_s: float


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
    moves_at_s: tuple[float, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)
    """Guests whose placement somebody else took over, with the generation it was seen in."""
    domains: tuple[DomainView, ...] = ()
    domains_at_s: float = 0.0
    domains_key: int = 0
    """What the domain views were made from, so that an unchanged host reuses them."""


def confirm(memory: Memory, outcomes: Iterable[Outcome]) -> Memory:
    """What the host answered to the decision's actions."""
    vps = dict(memory.vps)
    pending = memory.pending
    moves = memory.moves_at_s
    for outcome in outcomes:
        action = outcome.action
        _note(vps, outcome)
        moved = vps.get(action.guest_uuid)
        if moved is None:
            continue
        vps[action.guest_uuid] = _moved(moved, outcome)
        if outcome.result is Result.APPLIED and action.victim_uuid and not action.is_undo:
            pending += (Pending(action, outcome.at_s),)
            moves = (*(at_s for at_s in moves if outcome.at_s - at_s < BUDGET_S), outcome.at_s)
    return replace(memory, vps=vps, pending=pending, moves_at_s=moves)


def _moved(vp: Tracked, outcome: Outcome) -> Tracked:
    action = outcome.action
    applied = outcome.result is Result.APPLIED
    left = vp.left
    if applied and action.victim_uuid and not action.is_undo:
        left = (*left, (action.from_cpus, outcome.at_s))[-HISTORY:]
    is_homed = vp.is_homed or (applied and action.reason is Reason.HOME)
    return vp._replace(moved_at_s=outcome.at_s, left=left, is_homed=is_homed)


def _note(vps: dict[str, Tracked], outcome: Outcome) -> None:
    """Write the outcome into the history of the guest that was moved and of the victim."""
    for uuid in {outcome.action.guest_uuid, outcome.action.victim_uuid}:
        vp = vps.get(uuid) if uuid else None
        if vp is not None:
            kept = tuple(o for o in vp.history if o.action.id != outcome.action.id)
            vps[vp.guest_uuid] = vp._replace(history=(*kept, outcome)[-HISTORY:])


def note_outcome(memory: Memory, outcome: Outcome) -> Memory:
    """A later verdict on an action (mended, ineffective) replaces its earlier one."""
    vps = dict(memory.vps)
    _note(vps, outcome)
    return replace(memory, vps=vps)
