# SPDX-License-Identifier: Apache-2.0
"""Which originals are journalled before the next change is made: of overlays' servers, and of
limits that a controller changes every few seconds. A journal that is written at each change would
cost more than all else that the agent does."""

from collections.abc import Collection, Iterable

from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_EMULATOR_WEIGHT,
    NO_MEMORY_SIZE,
    Knob,
    Value,
)
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Enabled, Mode, Policy, tightest

KNOBS = (
    Knob.CPU_CAP,
    Knob.CPU_WEIGHT,
    Knob.PLACEMENT,
    Knob.MEMORY_SIZE,
    Knob.EMULATOR_WEIGHT,
)
_UNKNOWN = (NO_CPU_WEIGHT, NO_MEMORY_SIZE, NO_EMULATOR_WEIGHT)


def originals(
    picture: Picture, policy: Policy, foreign: Collection[str]
) -> dict[str, dict[Knob, Value]]:
    """By guest UUID; of those alone that may be changed now."""
    members = _members(picture, policy)
    often = frozenset(one.controller.name for one in policy.controllers if _changes_often(one))
    found: dict[str, dict[Knob, Value]] = {}
    if not (members or often):
        return found
    for guest in picture.guests:
        knobs = KNOBS if guest.uuid in members else _often_changed(picture, guest.uuid, often)
        if knobs and guest.uuid not in foreign and _is_changed_by_us(guest, picture):
            found[guest.uuid] = _of(guest, knobs, picture)
    return found


def _members(picture: Picture, policy: Policy) -> frozenset[str]:
    """Whom a call may be about."""
    if not any(one.controller.answers_calls for one in policy.controllers):
        return frozenset()
    return frozenset().union(*(overlay.members for overlay in picture.overlays.values()))


def _changes_often(enabled: Enabled) -> bool:
    return bool(enabled.controller.changes_often)


def _often_changed(picture: Picture, uuid: str, often: Collection[str]) -> tuple[Knob, ...]:
    applied = picture.applied.get(uuid)
    held = applied.held if applied else ()
    return tuple(one.knob for one in held if one.controller in often and one.knob in KNOBS)


def _is_changed_by_us(guest: Guest, picture: Picture) -> bool:
    mode = tightest(picture.mode, guest.mode or Mode.ENFORCE)
    return guest.unmanaged is None and mode is Mode.ENFORCE


def _of(guest: Guest, knobs: Iterable[Knob], picture: Picture) -> dict[Knob, Value]:
    applied = picture.applied.get(guest.uuid)
    found = {knob: value_from_nova(guest, knob, applied) for knob in knobs if knob in picture.knobs}
    return {knob: value for knob, value in found.items() if value not in _UNKNOWN}
