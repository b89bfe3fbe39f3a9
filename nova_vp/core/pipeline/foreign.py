# SPDX-License-Identifier: Apache-2.0
"""Changes that somebody else made: such a guest is left alone from then on."""

from dataclasses import replace

from nova_vp.core.model.limits import value_now
from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.knob import Applied, Knob
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.state import CoreState

_INEXACT = (Knob.MEMORY, Knob.MEMORY_SIZE)


def respect_foreign_changes(
    state: CoreState, picture: Picture
) -> tuple[Picture, CoreState, tuple[str, ...]]:
    """A placement or limit that is neither ours nor the original is somebody else's: so is the
    guest from then on."""
    seen = {
        guest.uuid: guest.generation
        for guest in picture.guests
        if (applied := picture.applied.get(guest.uuid))
        and guest.unmanaged is None
        and _is_foreign(applied, guest)
    }
    generations = {guest.uuid: guest.generation for guest in picture.guests}
    kept = {u: g for u, g in state.foreign.items() if generations.get(u) == g}
    foreign = {**kept, **seen}
    if not foreign and not state.foreign:
        return picture, state, ()
    state = replace(state, foreign=foreign)
    return respect_noted(state, picture), state, tuple(seen)


def respect_noted(state: CoreState, picture: Picture) -> Picture:
    """Between two ticks nobody looks for new changes; those that were seen still stand."""
    if not state.foreign:
        return picture
    guests = tuple(_left_alone(g) if g.uuid in state.foreign else g for g in picture.guests)
    return replace(picture, guests=guests)


def _is_foreign(applied: Applied, guest: Guest) -> bool:
    """Where memory lies, and how much a balloon has left, is never exactly as asked, and nobody
    else changes it."""
    for held in applied.held:  # Of every guest in every tick: without a generator.
        if held.knob not in _INEXACT:
            now = value_now(guest, held.knob)
            if now not in (held.value, held.original):
                return True
    return False


def _left_alone(guest: Guest) -> Guest:
    if guest.unmanaged:
        return guest
    detail = (
        "its vCPUs were placed or limited by hand or by another tool; reboot it to hand it back"
    )
    return guest._replace(unmanaged=Unmanaged.FOREIGN_CHANGE, unmanaged_detail=detail)
