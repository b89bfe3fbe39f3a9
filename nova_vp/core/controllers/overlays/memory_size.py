# SPDX-License-Identifier: Apache-2.0
"""`tune` of the memory size, by the server's balloon: between what it uses, a tenth more than that,
and what its flavor gives.

A server that uses more meanwhile gets memory back before it runs short. Who changes its mind too
often is refused until it was quiet for a while.
"""

import math

from nova_vp.core.controllers.overlays.declaration import NAME, RESIZE, Sized
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.grant import (
    Granted,
    Refused,
    asked_lease_s,
    check_owner,
    turns,
)
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import NO_MEMORY_SIZE, Knob
from nova_vp.core.types.overlay import Call, Direction, Nack, Overlay

STEP_RATIO = 0.1
"""Of the flavor's memory."""
SPARE_RATIO = 0.1
"""Above what is used."""


def resize(desk: Desk, call: Call, overlay: Overlay, guest: Guest) -> Granted:
    """Raises Refused."""
    _check_balloon(desk, guest)
    before = desk.sizes.get(guest.uuid)
    if before is not None:
        check_owner(desk, before.overlay_id, overlay)
    is_up = call.direction is Direction.UP
    made = turns(before, is_up, desk.now_s) if before else 0
    now_kib = before.kib if before else guest.memory_size.kib
    sign = 1 if is_up else -1
    wanted_kib = now_kib + sign * round(STEP_RATIO * guest.memory_kib)
    kib = min(max(wanted_kib, least_kib(guest)), guest.memory_kib)
    if (kib - now_kib) * sign <= 0:
        raise Refused(Nack.NO_ROOM, _why(sign))
    lease_s = asked_lease_s(call, desk.settings.tune_lease_s)
    desk.note_change(guest.uuid)
    until_s = desk.now_s + lease_s
    desk.sizes[guest.uuid] = Sized(overlay.id, until_s, kib, is_up, desk.now_s, made)
    return Granted(f"its memory is resized to {kib // 1024} MiB", lease_s)


def _why(sign: int) -> str:
    return "it has its flavor's memory" if sign > 0 else "it uses nearly all of its memory"


def _check_balloon(desk: Desk, guest: Guest) -> None:
    """Raises Refused."""
    if Knob.MEMORY_SIZE not in desk.view.host.knobs:
        raise Refused(Nack.NO_BALLOON, "this host cannot resize memory")
    if guest.balloon_obstacle:
        raise Refused(Nack.NO_BALLOON, guest.balloon_obstacle)
    if guest.memory_used_kib is None or guest.memory_size == NO_MEMORY_SIZE:
        raise Refused(Nack.NO_BALLOON, "its balloon driver does not say how much memory it uses")
    if not desk.view.may_claim(guest.uuid, Knob.MEMORY_SIZE, NAME, RESIZE.rank):
        raise Refused(Nack.OUTRANKED, "another controller sets its memory size")


def least_kib(guest: Guest) -> int:
    return math.ceil((1 + SPARE_RATIO) * (guest.memory_used_kib or 0))


def size_now_kib(guest: Guest, sized: Sized) -> int:
    """What was granted, or more where it uses more meanwhile: in whole steps, so that it does not
    change in every tick."""
    kib = sized.kib
    while kib < min(least_kib(guest), guest.memory_kib):
        kib += max(round(STEP_RATIO * guest.memory_kib), 1)
    return min(kib, guest.memory_kib)
