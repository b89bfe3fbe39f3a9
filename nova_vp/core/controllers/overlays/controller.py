# SPDX-License-Identifier: Apache-2.0
"""Overlays coordinate the servers of one application by small calls (thesis 2013, chapter 4).

The coordinator of the host: it puts calls in order, grants or refuses each, and restates what
stands; what was granted ends with its lease. `tune.py`, `trigger.py`, `memory_size.py` and
`emulator_weight.py` say what a call gets, `accounts.py` how often, `harm.py` at which cost to
others, `concede.py` what follows refusals.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.overlays.accounts import counted, refunded, served, with_call
from nova_vp.core.controllers.overlays.borrow import borrow
from nova_vp.core.controllers.overlays.caps import borrow_for_islands, deal_out
from nova_vp.core.controllers.overlays.claims import Touched, claims_of, kept
from nova_vp.core.controllers.overlays.concede import end_too_dear, island_name, note_nack, unmet
from nova_vp.core.controllers.overlays.declaration import (
    NAME,
    REASONS,
    Ledger,
    NewGrant,
    OverlaysSettings,
)
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.emulator_weight import reweigh
from nova_vp.core.controllers.overlays.grant import Granted, Refused
from nova_vp.core.controllers.overlays.harm import measure_harm, watch_raised
from nova_vp.core.controllers.overlays.lending import give_back_needed
from nova_vp.core.controllers.overlays.memory_size import resize
from nova_vp.core.controllers.overlays.places import note_places, returns
from nova_vp.core.controllers.overlays.release import note_ended_loans, release
from nova_vp.core.controllers.overlays.renew import renew
from nova_vp.core.controllers.overlays.trigger import trigger
from nova_vp.core.controllers.overlays.tune import tune
from nova_vp.core.controllers.overlays.views import island_views, overlay_views
from nova_vp.core.types.claim import ClaimGroup, Release
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.overlay import (
    ArbitrationClass,
    Call,
    CallAnswer,
    CallResource,
    Direction,
    Nack,
    Overlay,
    Verb,
    held_off,
)


class Overlays(Controller):
    name = NAME
    summary = "lets applications coordinate the resources of their own servers (inTune)"
    needs_counters = False
    answers_calls = True
    settings = OverlaysSettings
    state = Ledger
    reasons = REASONS

    def run(self, view: View, state: Ledger, settings: OverlaysSettings) -> Answer:
        desk = Desk(view, state, settings)
        note_ended_loans(desk)
        measure_harm(desk)
        if not view.on_call:
            end_too_dear(desk)
            give_back_needed(desk)
            borrow_for_islands(desk)
        touched: list[Touched] = []
        answers = tuple(_answer(desk, call, touched) for call in _in_order(desk))
        problems = {} if view.on_call else deal_out(desk)
        note_places(desk)
        watch_raised(desk)
        back = tuple(returns(desk))
        groups = (*claims_of(desk, touched), *unmet(desk))
        return Answer(
            desk.ledger(),
            (*groups, *(one for one in back if isinstance(one, ClaimGroup))),
            tuple(one for one in back if isinstance(one, Release)),
            answers=answers,
            restates=kept(desk),
            loans=tuple(desk.loans),
            islands=() if view.on_call else island_views(desk, problems),
            overlays=() if view.on_call else overlay_views(desk),
            next_end_s=desk.next_end_s(),
        )

    def answered(self, state: Ledger, answers: tuple[tuple[Call, CallAnswer], ...]) -> Ledger:
        accounts = dict(state.accounts)
        for call, answer in answers:
            if account := accounts.get(call.overlay_id):
                accounts[call.overlay_id] = counted(account, is_granted=answer.nack is None)
        state = replace(state, accounts=accounts)
        for call, answer in answers:
            if grant := state.grants.get(call.id):
                state = served(state, grant) if answer.nack is None else refunded(state, grant)
        return replace(state, grants={})


def _in_order(desk: Desk) -> Iterable[Call]:
    """What is given back comes first; then overlays by falling priority; then those that take
    turns, one call of each before the second one of any, who was served longest ago first."""
    calls = desk.view.picture.calls
    if len(calls) < 2:
        return calls
    turns: Counter[str] = Counter()

    def precedence(call: Call) -> tuple[float, ...]:
        overlay = desk.overlays.get(call.overlay_id)
        if overlay is None or call.verb is Verb.RELEASE:
            return ()  # Before all others.
        if overlay.arbitration is ArbitrationClass.ROUND_ROBIN:
            turns[overlay.id] += 1
            return turns[overlay.id], desk.account(overlay.id).served_at_s
        return 0, -overlay.priority

    return sorted(calls, key=precedence)


def _answer(desk: Desk, call: Call, touched: list[Touched]) -> CallAnswer:
    overlay = desk.overlays.get(call.overlay_id)
    if overlay is None:
        return CallAnswer(call.id, Nack.UNKNOWN_OVERLAY, "no server of it is on this host")
    if held_off_s := _held_off_s(desk, call, overlay):
        return held_off(call.id, held_off_s)
    try:
        guests = _servers_of(desk, call, overlay)
        granted = _GRANTS[call.verb](desk, call, overlay, guests)
    except Refused as refused:
        if refused.lacking is not None:
            note_nack(desk, overlay, refused.lacking, call.cpus)
        return CallAnswer(call.id, refused.nack, refused.detail)
    islands = tuple({island_name(desk, guest) for guest in guests}) if _wants_cpu(call) else ()
    desk.grants[call.id] = NewGrant(overlay.id, overlay.project_id, islands, granted.prices_s)
    uuids = {guest.uuid for guest in guests}
    if call.verb is Verb.BORROW:
        note_places(desk)
        uuids |= desk.places.keys()
    touched.append(Touched(frozenset(uuids), (call.id,), guests[0].uuid))
    return CallAnswer(call.id, None, granted.what, granted.lease_s)


def _wants_cpu(call: Call) -> bool:
    """So that it helps if the host limits another server. What else is granted in between leaves
    the overlay as short of CPU as it was: monitors lower one server when they raise another."""
    is_more = call.resource is CallResource.CPU and call.direction is Direction.UP
    return call.verb in (Verb.TRIGGER, Verb.BORROW) or (call.verb is Verb.TUNE and is_more)


def _held_off_s(desk: Desk, call: Call, overlay: Overlay) -> float:
    """0: the call is considered. What is given back is always welcome."""
    if call.verb is Verb.RELEASE:
        return 0.0
    account, is_considered = with_call(desk.account(overlay.id))
    desk.accounts[overlay.id] = account
    return 0.0 if is_considered else account.held_off_until_s - desk.now_s


def _servers_of(desk: Desk, call: Call, overlay: Overlay) -> list[Guest]:
    """Whom the call is about. Raises Refused."""
    if call.verb in (Verb.TUNE, Verb.BORROW) and not call.guest_uuid:
        raise Refused(Nack.NOT_A_MEMBER, "name the server that it is for")
    if call.guest_uuid:
        guests = [guest for guest in desk.guests_of(overlay) if guest.uuid == call.guest_uuid]
    else:
        members = desk.guests_of(overlay)
        guests = members if call.verb is Verb.RELEASE else list(_changeable(members))
    if not guests:
        raise Refused(Nack.NOT_A_MEMBER, "the overlay has no such server on this host")
    for guest in guests:
        if call.verb is not Verb.RELEASE and not guest.takes_help:
            why = guest.unmanaged.value if guest.unmanaged else "it refuses help"
            raise Refused(Nack.UNMANAGED, why)
        if call.verb not in (Verb.RELEASE, Verb.RENEW) and not guest.is_running:
            raise Refused(Nack.HOST_REFUSED, "the server does not run")
    return guests


def _changeable(guests: Iterable[Guest]) -> Iterator[Guest]:
    return (guest for guest in guests if guest.takes_help and guest.is_running)


def _tune(desk: Desk, call: Call, overlay: Overlay, guests: Sequence[Guest]) -> Granted:
    return _CHANGES[call.resource](desk, call, overlay, guests[0])


_CHANGES = {
    CallResource.CPU: tune,
    CallResource.MEMORY_SIZE: resize,
    CallResource.IO: reweigh,
}
_GRANTS = {
    Verb.TUNE: _tune,
    Verb.TRIGGER: trigger,
    Verb.BORROW: borrow,
    Verb.RELEASE: release,
    Verb.RENEW: renew,
}
