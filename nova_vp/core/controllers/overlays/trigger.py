# SPDX-License-Identifier: Apache-2.0
"""`trigger`: servers run first at once, for a moment, as far as their overlay has credit.

A server runs first by its weight, and without the limit that its overlay set itself. All servers of
a call are triggered, or none.
"""

from collections.abc import Sequence

from nova_vp.core.controllers.overlays.declaration import Boost
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.grant import Granted, Refused, asked_lease_s, check_owner
from nova_vp.core.controllers.overlays.weights import (
    check_weight,
    most_times,
    no_more_weight,
    weight_of,
)
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.overlay import Call, Nack, Overlay


def trigger(desk: Desk, call: Call, overlay: Overlay, guests: Sequence[Guest]) -> Granted:
    """Raises Refused."""
    lease_s = asked_lease_s(call, desk.settings.trigger_lease_s)
    until_s = desk.now_s + lease_s
    boosts = {guest.uuid: _boost(desk, overlay, guest, guests, until_s) for guest in guests}
    prices_s = {uuid: one.until_s - _paid_until_s(desk, uuid) for uuid, one in boosts.items()}
    price_s = sum(prices_s.values())
    credit_s = desk.credit_s(overlay)
    if price_s > credit_s:
        left = f"{credit_s:.2g} s of its credit are left, {price_s:.2g} s are needed"
        raise Refused(Nack.NO_CREDIT, left)
    desk.spend(overlay, price_s)
    desk.boosts.update(boosts)
    desk.note_change(*boosts)
    return Granted(f"servers that run first: {len(boosts)}", lease_s, prices_s)


def _paid_until_s(desk: Desk, uuid: str) -> float:
    standing = desk.boosts.get(uuid)
    return standing.until_s if standing else desk.now_s


def _boost(
    desk: Desk, overlay: Overlay, guest: Guest, together: Sequence[Guest], until_s: float
) -> Boost:
    """Raises Refused."""
    before = desk.boosts.get(guest.uuid)
    if before is not None:
        check_owner(desk, before.overlay_id, overlay)
        most = min(desk.settings.trigger_times, most_times(desk, (guest,), overlay))
        return Boost(overlay.id, max(until_s, before.until_s), max(before.times, most))
    check_weight(desk, guest)
    tuned = desk.tuned.get(guest.uuid)
    now = tuned.weight_times if tuned else 1.0
    most = most_times(desk, _unboosted(desk, together), overlay)
    times = max(min(desk.settings.trigger_times, most), now)
    is_higher = weight_of(desk, guest, times).number > weight_of(desk, guest, now).number
    if not (is_higher or (tuned is not None and tuned.cap_steps)):
        raise no_more_weight(guest if most < desk.settings.trigger_times else None)
    return Boost(overlay.id, until_s, times)


def _unboosted(desk: Desk, guests: Sequence[Guest]) -> list[Guest]:
    return [guest for guest in guests if guest.uuid not in desk.boosts]
