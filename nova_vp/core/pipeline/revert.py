# SPDX-License-Identifier: Apache-2.0
"""Undoing one action because a person says so: what of it still stands goes back.

It goes the way of what did not help, and is held off as long; what was found before it comes back,
not what Nova gave, so that an earlier action of ours stands again. Where a person wants a whole
server left alone, the agent has given it back already, and here that is noted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from nova_vp.core.model.holds import unexpired
from nova_vp.core.model.limits import differs, value_now
from nova_vp.core.pipeline.confirm import note_outcome
from nova_vp.core.pipeline.ledger import end_of_guests, rolled_back
from nova_vp.core.pipeline.verify import not_again, undoing, value_before
from nova_vp.core.types.action import NEVER_APPLIED, Action, Change, Outcome, Result
from nova_vp.core.types.claim import ClaimGroup, Setting
from nova_vp.core.types.guest import Guest, MemoryMove, Unmanaged
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import REVOKED
from nova_vp.core.types.state import CoreState

_REACHABLE = (None, Unmanaged.OVERRIDE_OBSERVE)
"""On any other guest nothing of ours stands, or nothing can be changed now."""
_OVER = (Result.INEFFECTIVE, Result.UNDONE)


def revert(
    state: CoreState, picture: Picture, policy: Policy
) -> tuple[CoreState, tuple[ClaimGroup, ...]]:
    """The state in which they are not done again at once, and the groups to undo them."""
    wants: list[ClaimGroup] = []
    if not picture.revoked:
        return state, ()
    guests = {guest.uuid: guest for guest in picture.guests}
    known = done(outcome for vp in state.vps.values() for outcome in vp.history)
    for action_id in sorted(picture.revoked & known.keys()):
        action = known[action_id].action
        settings = tuple(standing(action, guests, picture.memory_moves))
        if settings:
            mover = action.guest_uuid if action.guest_uuid in guests else settings[0].guest_uuid
            wants.append(undoing(action, guests[mover], settings, REVOKED, picture))
            state = _held_off(state, known[action_id], settings, picture.at_s, policy)
    return state, tuple(wants)


def done(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """By id; those that failed, or were rejected, never were."""
    return {o.action.id: o for o in outcomes if o.result not in NEVER_APPLIED}


def standing(
    action: Action, guests: Mapping[str, Guest], moves: Mapping[str, MemoryMove]
) -> Iterator[Setting]:
    """What would undo it. Nothing: it is over, or is itself an undoing."""
    for change in () if action.is_undo else action.changes:
        guest = guests.get(change.guest_uuid)
        if guest and guest.unmanaged in _REACHABLE and _stands(change, guest, moves):
            was = change.original if change.now == change.to else value_before(change, guest)
            yield Setting(guest.uuid, change.knob, was)


def _stands(change: Change, guest: Guest, moves: Mapping[str, MemoryMove]) -> bool:
    if change.is_restoring:
        return False
    move = moves.get(guest.uuid)
    is_under_way = move is not None and not move.is_over and move.to == change.to
    return is_under_way or not differs(change.to, value_now(guest, change.knob))


def _held_off(
    state: CoreState, outcome: Outcome, settings: Iterable[Setting], now_s: float, policy: Policy
) -> CoreState:
    state = rolled_back(_noted(state, outcome, now_s, policy), outcome.action)
    state = not_again(state, outcome.action, now_s, policy)
    until_s = now_s + policy.reverse_hold_s
    knobs = {(setting.guest_uuid, setting.knob): until_s for setting in settings}
    return replace(state, held_off={**unexpired(state.held_off, now_s), **knobs})


def _noted(state: CoreState, outcome: Outcome, now_s: float, policy: Policy) -> CoreState:
    """Undone, and not judged any more."""
    state = note_outcome(state, replace(outcome, result=Result.UNDONE, settled_s=now_s), policy)
    pending = tuple(one for one in state.pending if one.action.id != outcome.action.id)
    return replace(state, pending=pending)


def note_left_alone(state: CoreState, picture: Picture, policy: Policy) -> CoreState:
    """Servers that an override leaves alone, once nothing of ours is on them."""
    uuids = [
        guest.uuid
        for guest in picture.guests
        if guest.unmanaged is Unmanaged.EXEMPT and not _is_held(guest, picture)
    ]
    return note_given_back(state, uuids, picture.at_s, policy)


def _is_held(guest: Guest, picture: Picture) -> bool:
    applied = picture.applied.get(guest.uuid)
    return applied is not None and any(held.value != held.original for held in applied.held)


def note_given_back(
    state: CoreState, uuids: Collection[str], now_s: float, policy: Policy
) -> CoreState:
    """By order these have their own values again: what stood last for each knob was undone."""
    for uuid in uuids:
        for outcome in _stood(state.vps[uuid].history, uuid):
            state = _noted(state, outcome, now_s, policy)
    return end_of_guests(state, uuids)


def _stood(history: Iterable[Outcome], uuid: str) -> Collection[Outcome]:
    last = {
        change.knob: (outcome, change)
        for outcome in done(history).values()
        for change in outcome.action.changes
        if change.guest_uuid == uuid
    }
    return {
        outcome.action.id: outcome
        for outcome, change in last.values()
        if not (outcome.action.is_undo or change.is_restoring or outcome.result in _OVER)
    }.values()
