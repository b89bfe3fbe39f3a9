# SPDX-License-Identifier: Apache-2.0
"""Changes that somebody else made: such a guest is left alone from then on."""

from dataclasses import replace

from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.knob import Applied, Knob, Value
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.state import CoreState


def respect_foreign_changes(
    state: CoreState, picture: Picture
) -> tuple[Picture, CoreState, tuple[str, ...]]:
    """A placement, quota or weight that is neither ours nor the original is somebody else's: so is
    the guest from then on."""
    seen = {
        guest.uuid: guest.generation
        for guest in picture.guests
        if (applied := picture.applied.get(guest.uuid))
        and guest.unmanaged is None
        and (
            _is_foreign(applied, Knob.PLACEMENT, guest.cpus)
            or _is_foreign(applied, Knob.CPU_CAP, guest.quota)
            or _is_foreign(applied, Knob.CPU_WEIGHT, guest.cpu_weight)
        )
    }
    generations = {guest.uuid: guest.generation for guest in picture.guests}
    kept = {u: g for u, g in state.foreign.items() if generations.get(u) == g}
    foreign = {**kept, **seen}
    if not foreign and not state.foreign:
        return picture, state, ()
    guests = tuple(_left_alone(g) if g.uuid in foreign else g for g in picture.guests)
    return replace(picture, guests=guests), replace(state, foreign=foreign), tuple(seen)


def _is_foreign(applied: Applied, knob: Knob, now: Value) -> bool:
    held = applied.of(knob)
    return held is not None and now not in (held.value, held.original)


def _left_alone(guest: Guest) -> Guest:
    if guest.unmanaged:
        return guest
    detail = (
        "its CPUs, quota or weight were set by hand or by another tool; reboot it to hand it back"
    )
    return guest._replace(unmanaged=Unmanaged.FOREIGN_CHANGE, unmanaged_detail=detail)
