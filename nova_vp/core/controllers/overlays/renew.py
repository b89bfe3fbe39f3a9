# SPDX-License-Identifier: Apache-2.0
"""`renew`: what an overlay tuned and borrowed stands for another lease, no more and no less.

A trigger is not renewed: it needs credit. Overlays that take turns keep no CPU by it for which one
that has none waits.
"""

from collections.abc import Iterator, Sequence

from nova_vp.core.controllers.overlays.borrow import check_turn
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.grant import Granted, Refused, asked_lease_s
from nova_vp.core.controllers.overlays.release import loans_of
from nova_vp.core.controllers.overlays.standing import is_tuned
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Loan
from nova_vp.core.types.overlay import Call, Nack, Overlay


def renew(desk: Desk, call: Call, overlay: Overlay, guests: Sequence[Guest]) -> Granted:
    """Raises Refused."""
    loans = loans_of(desk, call, overlay, guests)
    if loans:
        check_turn(desk, overlay)
    ends_s = [*_renew_loans(desk, call, loans), *_renew_grants(desk, call, overlay, guests)]
    if not ends_s:
        raise Refused(Nack.NOTHING_TO_RENEW, "the overlay tuned and borrowed nothing there")
    return Granted(f"leases that were renewed: {len(ends_s)}", min(ends_s) - desk.now_s)


def _renew_loans(desk: Desk, call: Call, loans: Sequence[Loan]) -> Iterator[float]:
    """Yields when each ends now: none sooner than before."""
    lease_s = asked_lease_s(call, desk.settings.borrow_lease_s)
    for loan in loans:
        renewed = loan._replace(until_s=max(loan.until_s, desk.now_s + lease_s))
        desk.loans[desk.loans.index(loan)] = renewed
        yield renewed.until_s


def _renew_grants(
    desk: Desk, call: Call, overlay: Overlay, guests: Sequence[Guest]
) -> Iterator[float]:
    """The same of what was tuned."""
    lease_s = asked_lease_s(call, desk.settings.tune_lease_s)
    until_s = desk.now_s + lease_s
    for guest in guests:
        tuned, sized = desk.tuned.get(guest.uuid), desk.sizes.get(guest.uuid)
        if tuned is not None and tuned.overlay_id == overlay.id and is_tuned(tuned):
            desk.tuned[guest.uuid] = tuned._replace(until_s=max(tuned.until_s, until_s))
            yield desk.tuned[guest.uuid].until_s
        if sized is not None and sized.overlay_id == overlay.id:
            desk.sizes[guest.uuid] = sized._replace(until_s=max(sized.until_s, until_s))
            yield desk.sizes[guest.uuid].until_s
        reweighed = desk.emulators.get(guest.uuid)
        if reweighed is not None and reweighed.overlay_id == overlay.id:
            reweighed = reweighed._replace(until_s=max(reweighed.until_s, until_s))
            desk.emulators[guest.uuid] = reweighed
            yield reweighed.until_s
