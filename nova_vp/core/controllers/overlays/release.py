# SPDX-License-Identifier: Apache-2.0
"""`release`: what an overlay was granted for these servers goes back at once.

Servers that the host limited for them are limited no more. What was not used up of a trigger goes
back into its credit.
"""

from collections.abc import Sequence

from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.grant import Granted, Refused
from nova_vp.core.controllers.overlays.standing import is_tuned
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Loan
from nova_vp.core.types.overlay import Call, Nack, Overlay


def release(desk: Desk, call: Call, overlay: Overlay, guests: Sequence[Guest]) -> Granted:
    """Raises Refused."""
    released = sum(_release(desk, overlay, guest.uuid) for guest in guests)
    returned = _return_cpus(desk, call, overlay, guests)
    released += returned
    if not released:
        raise Refused(Nack.NOTHING_TO_RELEASE, "the overlay holds nothing of these servers")
    if returned:
        _note_return(desk, overlay.id)
    return Granted(f"grants that were given back: {released}")


def note_ended_loans(desk: Desk) -> None:
    """Whoever asks for a short lease gives a CPU back as well, without a call."""
    hold_s = desk.settings.borrow_hold_s
    ended = (one for one in desk.view.core.loans if one.until_s <= desk.now_s)
    short = {one.overlay_id for one in ended if one.until_s - one.began_at_s < hold_s}
    for overlay_id in short & desk.overlays.keys():
        _note_return(desk, overlay_id)


def _note_return(desk: Desk, overlay_id: str) -> None:
    account = desk.account(overlay_id)
    is_quick = desk.now_s - account.returned_at_s < desk.settings.borrow_hold_s
    returns = account.returns + 1 if is_quick else 1
    desk.change_account(overlay_id, returns=returns, returned_at_s=desk.now_s)


def _return_cpus(desk: Desk, call: Call, overlay: Overlay, guests: Sequence[Guest]) -> int:
    back = loans_of(desk, call, overlay, guests)
    desk.loans = [loan for loan in desk.loans if loan not in back]
    desk.note_change(*desk.places)
    return len(back)


def loans_of(desk: Desk, call: Call, overlay: Overlay, guests: Sequence[Guest]) -> list[Loan]:
    """Those that the islands of these servers borrowed for the overlay; without a server, all."""
    homes = {home.name for guest in guests if (home := desk.home(guest)) is not None}
    return [
        loan
        for loan in desk.loans
        if loan.overlay_id == overlay.id and (not call.guest_uuid or loan.borrower in homes)
    ]


def _release(desk: Desk, overlay: Overlay, uuid: str) -> int:
    boost = desk.boosts.get(uuid)
    if boost is not None and boost.overlay_id == overlay.id:
        desk.spend(overlay, desk.now_s - boost.until_s)
    tuned, found = desk.tuned.get(uuid), 0
    if tuned is not None and tuned.overlay_id == overlay.id and is_tuned(tuned):
        desk.tuned[uuid] = tuned._replace(cap_steps=0, weight_times=1.0)
        found += 1
    for grants in (desk.boosts, desk.sizes, desk.emulators):
        one = grants.get(uuid)
        if one is not None and one.overlay_id == overlay.id:
            del grants[uuid]
            found += 1
    desk.note_change(uuid)
    return found + _end_conceded(desk, overlay, uuid)


def _end_conceded(desk: Desk, overlay: Overlay, for_uuid: str) -> int:
    ended = [
        uuid
        for uuid, one in desk.conceded.items()
        if (one.overlay_id, one.for_uuid) == (overlay.id, for_uuid)
    ]
    for uuid in ended:
        del desk.conceded[uuid]
    desk.note_change(*ended)
    return len(ended)
