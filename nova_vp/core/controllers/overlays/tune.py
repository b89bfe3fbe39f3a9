# SPDX-License-Identifier: Apache-2.0
"""`tune` of the CPU: a little more or less for one server; the host decides how much.

Up first relaxes the limit that the overlay set itself, then raises the weight; down goes the other
way round. Who changes its mind too often is refused until it was quiet for a while.
"""

from nova_vp.core.controllers.overlays.declaration import Tuned
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.grant import (
    Granted,
    Refused,
    asked_lease_s,
    check_owner,
    turns,
)
from nova_vp.core.controllers.overlays.standing import is_tuned
from nova_vp.core.controllers.overlays.weights import check_weight, raised, weight_of
from nova_vp.core.model.cpu_cap import CAP_STEP
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import Call, Direction, Nack, Overlay

WEIGHT_STEP = 1.25
MOST_TIMES = WEIGHT_STEP**8
LEAST_TIMES = WEIGHT_STEP**-6


def tune(desk: Desk, call: Call, overlay: Overlay, guest: Guest) -> Granted:
    """Raises Refused."""
    before = desk.tuned.get(guest.uuid) or Tuned(overlay.id, 0.0)
    if is_tuned(before):
        check_owner(desk, before.overlay_id, overlay)
    is_up = call.direction is Direction.UP
    made = turns(before, is_up, desk.now_s)
    after, what = _up(desk, guest, before, overlay) if is_up else _down(desk, guest, before)
    lease_s = asked_lease_s(call, desk.settings.tune_lease_s)
    if is_tuned(before):
        lease_s = max(lease_s, before.until_s - desk.now_s)
    desk.tuned[guest.uuid] = after._replace(
        overlay_id=overlay.id,
        until_s=desk.now_s + lease_s,
        is_up=is_up,
        changed_at_s=desk.now_s,
        turns=made,
    )
    desk.note_change(guest.uuid)
    return Granted(what, lease_s if is_tuned(after) else None)


def _up(desk: Desk, guest: Guest, before: Tuned, overlay: Overlay) -> tuple[Tuned, str]:
    if before.cap_steps:
        return before._replace(cap_steps=before.cap_steps - 1), "its own limit was raised"
    times = before.weight_times
    more = raised(desk, guest, times, min(times * WEIGHT_STEP, MOST_TIMES), overlay)
    return before._replace(weight_times=more), "its weight was raised"


def _down(desk: Desk, guest: Guest, before: Tuned) -> tuple[Tuned, str]:
    times = before.weight_times
    if times > 1.0:
        less = max(times / WEIGHT_STEP, 1.0)
        return before._replace(weight_times=less), "its weight was lowered"
    if _may_tighten(desk, guest, before.cap_steps + 1):
        return before._replace(cap_steps=before.cap_steps + 1), "its own limit was lowered"
    check_weight(desk, guest)
    less = max(times / WEIGHT_STEP, LEAST_TIMES)
    if weight_of(desk, guest, less) == weight_of(desk, guest, times):
        raise Refused(Nack.NO_ROOM, "it has as little as it may have")
    return before._replace(weight_times=less), "its weight was lowered"


def _may_tighten(desk: Desk, guest: Guest, steps: int) -> bool:
    floor = guest.cap_floor_ratio
    return (
        Knob.CPU_CAP in desk.view.host.knobs
        and floor is not None
        and not guest.is_latency_critical
        and round(1.0 - CAP_STEP * steps, 6) >= floor
    )
