# SPDX-License-Identifier: Apache-2.0
"""The claims that stand, kept in step with what was applied, taken back, or lost.

A claim is in the ledger once the host has applied it, or at once if it changes nothing: a looser
limit behind a tighter one. Nothing here decides.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from nova_vp.core.model.limits import (
    LIMITS,
    PLACES,
    Claims,
    differs,
    holding,
    of_controller,
    size,
    value_now,
)
from nova_vp.core.types.action import Action
from nova_vp.core.types.claim import Claim, ClaimKey, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Applied, Knob, Value
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.state import HISTORY, CoreState


def end_lost(state: CoreState, picture: Picture) -> CoreState:
    """Without claims that ended by themselves: the guest left, or what was set is gone from our
    journal (a lease that ran out, a reboot, a release by hand, a foreign change)."""
    if not state.claims:
        return state
    guests = {guest.uuid: guest for guest in picture.guests}
    kept = {
        key: claims
        for key, claims in state.claims.items()
        if (guest := guests.get(key[0]))
        and _stands(key, claims, guest, picture.applied.get(key[0]))
    }
    return state if len(kept) == len(state.claims) else replace(state, claims=kept)


def _stands(
    key: ClaimKey, claims: tuple[Claim, ...], guest: Guest, applied: Applied | None
) -> bool:
    if applied is not None and applied.of(key[1]) is not None:
        return True
    # A place that Nova gave, too, is in no journal.
    return key[1] in PLACES and not differs(claims[0].value, value_now(guest, key[1]))


def end_of_guests(state: CoreState, guest_uuids: Collection[str]) -> CoreState:
    """These have Nova's own values again."""
    kept = {key: claims for key, claims in state.claims.items() if key[0] not in guest_uuids}
    return state if len(kept) == len(state.claims) else replace(state, claims=kept)


def with_claims(
    claims: Claims, controller: str, settings: Iterable[Setting], template: Claim
) -> dict[ClaimKey, tuple[Claim, ...]]:
    """With one group granted: a limit beside those of other controllers, a place instead of them.
    A group that a place is taken from yields as a whole."""
    found = dict(claims)
    for setting in settings:
        key = (setting.guest_uuid, setting.knob)
        old = found.get(key, ())
        if setting.knob not in LIMITS and of_controller(old, controller) is None:
            for one in old:
                found = _without_group(found, one.action_id)
        found[key] = beside(old, setting, template._replace(controller=controller))
    return found


def beside(old: tuple[Claim, ...], setting: Setting, template: Claim) -> tuple[Claim, ...]:
    """The claims for one knob with a new one: beside those of others for a limit, else alone."""
    own = of_controller(old, template.controller)
    others = (one for one in old if one.controller != template.controller)
    new = _succeeding(own, template._replace(value=setting.value))
    return (*others, new) if setting.knob in LIMITS else (new,)


def _succeeding(old: Claim | None, new: Claim) -> Claim:
    if old is None:
        return new
    earlier = old.earlier if old.value == new.value else _with_step(old)
    return new._replace(earlier=earlier, victim_uuid=new.victim_uuid or old.victim_uuid)


def _with_step(old: Claim) -> tuple[tuple[str, Value], ...]:
    return (*old.earlier, (old.action_id, old.value))[-HISTORY:]


def _without_group(claims: Claims, action_id: str) -> dict[ClaimKey, tuple[Claim, ...]]:
    left = {
        key: tuple(one for one in some if one.action_id != action_id)
        for key, some in claims.items()
    }
    return {key: some for key, some in left.items() if some}


def relaxed(
    claims: Claims, settings: Iterable[Setting], action_id: str, at_s: float
) -> dict[ClaimKey, tuple[Claim, ...]]:
    """With limits raised so far, by leave of those whose limits they are."""
    found = dict(claims)
    for setting in settings:
        key = (setting.guest_uuid, setting.knob)
        found[key] = tuple(
            one._replace(
                value=setting.value,
                action_id=action_id,
                changed_at_s=at_s,
                earlier=_with_step(one),
            )
            if size(one.value) < size(setting.value)
            else one
            for one in found.get(key, ())
        )
    return found


def note_applied(state: CoreState, action: Action, at_s: float) -> CoreState:
    """What stands now that the host has applied an action, or needed to change nothing for it."""
    loosened = {
        change.guest_uuid: at_s
        for change in action.changes
        if change.knob in LIMITS and size(change.to) > size(change.now)
    }
    claims: Mapping[ClaimKey, tuple[Claim, ...]] = state.claims
    if action.claims:
        template = Claim(action.controller, (), action.reason, action.id, at_s, action.victim_uuid)
        new = tuple(one for one in action.claims if not _stood_before(claims, action, one))
        claims = with_claims(claims, action.controller, new, template)
    if action.relaxes:
        claims = relaxed(claims, action.relaxes, action.id, at_s)
    if not loosened and claims is state.claims:
        return state
    return replace(state, claims=claims, loosened_at_s={**state.loosened_at_s, **loosened})


def _stood_before(claims: Claims, action: Action, setting: Setting) -> bool:
    """The same controller claims it already, by an earlier action, and this one changes nothing of
    it: to take this action back must not take that along."""
    own = of_controller(claims.get((setting.guest_uuid, setting.knob), ()), action.controller)
    changed = {(change.guest_uuid, change.knob) for change in action.changes}
    is_changed = (setting.guest_uuid, setting.knob) in changed
    return own is not None and own.value == setting.value and not is_changed


def owners(state: CoreState, action: Action) -> frozenset[str]:
    """Whom it concerns: whose action it is, and whose limits it raised."""
    raised = (
        one.controller
        for setting in action.relaxes
        for one in state.claims.get((setting.guest_uuid, setting.knob), ())
    )
    return frozenset((action.controller, *raised))


def rolled_back(state: CoreState, action: Action) -> CoreState:
    """Without what an action claimed, as far as nothing came after it: what the same controller
    claimed before it stands again."""
    claims = dict(state.claims)
    for key, some in state.claims.items():
        kept = []
        for one in some:
            if one.action_id != action.id:
                kept.append(one)
            elif one.earlier and key[1] not in PLACES:
                *earlier, (action_id, value) = one.earlier
                kept.append(one._replace(value=value, action_id=action_id, earlier=tuple(earlier)))
        if tuple(kept) == some:
            continue
        if kept:
            claims[key] = tuple(kept)
        else:
            del claims[key]
    return replace(state, claims=claims)


def is_overtaken(state: CoreState, action: Action) -> bool:
    """Nothing of it is what holds now: another claim does."""
    return not any(
        (one := binding_of(state, change.guest_uuid, change.knob)) is not None
        and one.action_id == action.id
        for change in action.changes
    )


def binding_of(state: CoreState, guest_uuid: str, knob: Knob) -> Claim | None:
    return holding(knob, state.claims.get((guest_uuid, knob), ()))
