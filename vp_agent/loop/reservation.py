# SPDX-License-Identifier: Apache-2.0
"""Which originals are journalled before anybody asks for a change: those of overlays' servers."""

from collections.abc import Collection

from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import NO_CPU_WEIGHT, NO_MEMORY_SIZE, Knob, Value
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, Policy, tightest

KNOBS = (Knob.CPU_CAP, Knob.CPU_WEIGHT, Knob.PLACEMENT, Knob.MEMORY_SIZE)
_UNKNOWN = (NO_CPU_WEIGHT, NO_MEMORY_SIZE)


def originals(
    picture: Picture, policy: Policy, foreign: Collection[str]
) -> dict[str, dict[Knob, Value]]:
    """By guest UUID; of those alone that may be changed now."""
    if not any(one.controller.answers_calls for one in policy.controllers):
        return {}
    members = {uuid for overlay in picture.overlays.values() for uuid in overlay.members}
    return {
        guest.uuid: _of(guest, picture)
        for guest in picture.guests
        if guest.uuid in members and _is_changed_by_us(guest, picture) and guest.uuid not in foreign
    }


def _is_changed_by_us(guest: Guest, picture: Picture) -> bool:
    mode = tightest(picture.mode, guest.mode or Mode.ENFORCE)
    return guest.unmanaged is None and mode is Mode.ENFORCE


def _of(guest: Guest, picture: Picture) -> dict[Knob, Value]:
    applied = picture.applied.get(guest.uuid)
    found = {knob: value_from_nova(guest, knob, applied) for knob in KNOBS if knob in picture.knobs}
    return {knob: value for knob, value in found.items() if value not in _UNKNOWN}
