# SPDX-License-Identifier: Apache-2.0
"""`tune` of `io`: what the threads that serve a server's network and disks count for beside its own
vCPUs, from an eighth to eight times what Nova gave.

They share out only what the server is given, so that no other server has less by it: it costs no
credit. Who changes its mind too often is refused until it was quiet for a while.
"""

from typing import cast

from nova_vp.core.controllers.overlays.declaration import NAME, REWEIGH, Reweighed
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.grant import (
    Granted,
    Refused,
    asked_lease_s,
    check_owner,
    turns,
)
from nova_vp.core.model.cpu_weight import multiplied
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import WEIGHT_RANGES, EmulatorWeight, Knob
from nova_vp.core.types.overlay import Call, Direction, Nack, Overlay

STEP_TIMES = 2.0
MOST_STEPS = 3
"""Each way."""


def reweigh(desk: Desk, call: Call, overlay: Overlay, guest: Guest) -> Granted:
    """Raises Refused."""
    _check_threads(desk, guest)
    before = desk.emulators.get(guest.uuid)
    if before is not None:
        check_owner(desk, before.overlay_id, overlay)
    is_up = call.direction is Direction.UP
    made = turns(before, is_up, desk.now_s) if before else 0
    steps = (before.steps if before else 0) + (1 if is_up else -1)
    word, end = ("raised", "much") if is_up else ("lowered", "little")
    if abs(steps) > MOST_STEPS:
        raise Refused(Nack.NO_ROOM, f"its I/O threads have as {end} weight as they may have")
    lease_s = asked_lease_s(call, desk.settings.tune_lease_s)
    desk.note_change(guest.uuid)
    until_s = desk.now_s + lease_s
    desk.emulators[guest.uuid] = Reweighed(
        overlay.id, until_s, steps, is_up, desk.now_s, turns=made
    )
    return Granted(f"the weight of its I/O threads was {word}", lease_s)


def _check_threads(desk: Desk, guest: Guest) -> None:
    """Raises Refused."""
    given = _given(desk, guest)
    if Knob.EMULATOR_WEIGHT not in desk.view.host.knobs or not given.number:
        raise Refused(Nack.NO_ROOM, "this host cannot set the weight of its I/O threads")
    if given.number != WEIGHT_RANGES[given.unit].default:
        raise Refused(Nack.OUTRANKED, "somebody else set the weight of its I/O threads")
    if not desk.view.may_claim(guest.uuid, Knob.EMULATOR_WEIGHT, NAME, REWEIGH.rank):
        raise Refused(Nack.OUTRANKED, "another controller sets the weight of its I/O threads")


def weight_at(desk: Desk, guest: Guest, steps: int) -> EmulatorWeight:
    return multiplied(_given(desk, guest), STEP_TIMES**steps)


def _given(desk: Desk, guest: Guest) -> EmulatorWeight:
    """By Nova, as far as nobody else changed it."""
    applied = desk.view.picture.applied.get(guest.uuid)
    return cast(EmulatorWeight, value_from_nova(guest, Knob.EMULATOR_WEIGHT, applied))
