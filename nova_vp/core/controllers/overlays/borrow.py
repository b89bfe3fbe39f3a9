# SPDX-License-Identifier: Apache-2.0
"""`borrow`: whole CPUs for the servers of an overlay in one island, from another island.

Islands of the same overlay are asked first, then the idlest (thesis 2013, 4.3.3). A CPU is not lent
where the memory bandwidth that it would use is not there. An overlay of a higher priority gets the
CPU of a lower one; those that take turns leave the last CPU to who has none.
"""

from collections.abc import Iterator, Sequence

from nova_vp.core.controllers.overlays.bandwidth import full_node
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.grant import MOST_TURNS, Granted, Refused, asked_lease_s
from nova_vp.core.controllers.overlays.lending import (
    has_lent,
    idle_cores,
    lendable,
    may_place,
    priority_of,
)
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island, Loan, Scheduler
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import ArbitrationClass, Call, Nack, Overlay

WAITS_S = 10.0
"""For so long the last CPU is left to who was refused one and has none."""


def borrow(desk: Desk, call: Call, overlay: Overlay, guests: Sequence[Guest]) -> Granted:
    """Raises Refused."""
    guest, island = guests[0], desk.home(guests[0])
    if Knob.PLACEMENT not in desk.view.host.knobs:
        raise Refused(Nack.NO_ROOM, "this host places no servers")
    if island is None:
        raise Refused(Nack.NO_ROOM, "the server runs in several islands: it needs no loan")
    if island.scheduler is Scheduler.EXCLUSIVE:
        raise Refused(Nack.NO_ROOM, "each vCPU of its island has a CPU of its own: it borrows none")
    if has_lent(desk, island):
        raise Refused(Nack.NO_ROOM, "its island has lent CPUs: it gets them back as it needs them")
    if not may_place(desk, guest):
        raise Refused(Nack.OUTRANKED, "another controller sets where the server runs")
    check_turn(desk, overlay)
    _check_returns(desk, overlay)
    own = [one for one in desk.guests_of(overlay) if desk.home(one) == island]
    node = full_node(desk, own, call.cpus)
    if node is not None:
        raise Refused(Nack.NO_ROOM, f"the memory controller of node {node} is at its limit")
    lease_s = asked_lease_s(call, desk.settings.borrow_lease_s)
    new = [
        Loan(cpu, lender, island.name, overlay.id, desk.now_s, desk.now_s + lease_s)
        for cpu, lender in _cpus(desk, call, overlay, guest, island)
    ]
    taken = {loan.cpu for loan in new}
    kept = [loan for loan in desk.loans if loan.cpu not in taken]
    desk.loans = [_renewed(loan, overlay, desk.now_s + lease_s) for loan in kept] + new
    desk.note_change(*desk.places)
    desk.change_account(overlay.id, wants_cpu_at_s=None)
    lenders = ", ".join(sorted({loan.lender for loan in new}))
    return Granted(f"CPUs that {lenders} lent: {len(new)}", lease_s)


def _renewed(loan: Loan, overlay: Overlay, until_s: float) -> Loan:
    is_own = loan.overlay_id == overlay.id
    return loan._replace(until_s=max(until_s, loan.until_s)) if is_own else loan


def check_turn(desk: Desk, overlay: Overlay) -> None:
    """Whether it may have more CPUs, or keep them for longer. Raises Refused."""
    having = {loan.overlay_id for loan in desk.loans}
    if overlay.arbitration is not ArbitrationClass.ROUND_ROBIN or overlay.id not in having:
        return
    for other_id, account in desk.accounts.items():
        takes_turns = desk.overlays[other_id].arbitration is ArbitrationClass.ROUND_ROBIN
        since_s = account.wants_cpu_at_s
        waits = since_s is not None and desk.now_s - since_s < WAITS_S
        if waits and takes_turns and other_id not in having:
            raise Refused(Nack.OUTRANKED, "another overlay waits for a CPU: it is its turn")


def _check_returns(desk: Desk, overlay: Overlay) -> None:
    """CPUs do not go back and forth. Raises Refused."""
    account, hold_s = desk.account(overlay.id), desk.settings.borrow_hold_s
    if account.returns >= MOST_TURNS and desk.now_s - account.returned_at_s < hold_s:
        raise Refused(Nack.TOO_SOON, f"it gave CPUs back too often: wait {hold_s:g} s")


def _cpus(
    desk: Desk, call: Call, overlay: Overlay, guest: Guest, island: Island
) -> list[tuple[int, str]]:
    """So many CPUs, each with its lender. Raises Refused."""
    lenders = _lenders(desk, call, overlay, island)
    found = [
        (cpu, lender.name) for lender in lenders for cpu in lendable(desk, lender, guest, island)
    ]
    if len(found) < call.cpus:
        found += _outranked(desk, overlay, guest, {lender.name for lender in lenders})
    if len(found) >= call.cpus:
        return found[: call.cpus]
    if any(loan.overlay_id != overlay.id for loan in desk.loans):
        desk.change_account(overlay.id, wants_cpu_at_s=desk.now_s)
    raise Refused(Nack.NO_ROOM, f"CPUs that can be lent: {len(found)} of {call.cpus}", guest)


def _lenders(desk: Desk, call: Call, overlay: Overlay, island: Island) -> list[Island]:
    """Raises Refused."""
    others = [one for one in desk.view.islands if one.name != island.name]
    if call.island:
        named = [one for one in others if one.name == call.island]
        if not named:
            known = ", ".join(one.name for one in others) or "none"
            raise Refused(Nack.UNKNOWN_ISLAND, f"islands that could lend: {known}")
        return named
    homes = [desk.home(guest) for guest in desk.guests_of(overlay)]
    own = {home.name for home in homes if home is not None}
    return sorted(others, key=lambda one: (one.name not in own, -idle_cores(desk, one), one.name))


def _outranked(
    desk: Desk, overlay: Overlay, guest: Guest, lenders: set[str]
) -> Iterator[tuple[int, str]]:
    """CPUs of overlays that matter less and had them for a while, the least of all first."""
    if overlay.arbitration is not ArbitrationClass.PRIORITY:
        return
    for loan in sorted(desk.loans, key=lambda one: (priority_of(desk, one), one.cpu)):
        is_settled = desk.now_s - loan.began_at_s >= desk.settings.borrow_hold_s
        is_lower = priority_of(desk, loan) < overlay.priority
        is_allowed = loan.cpu in guest.allowed_cpus | guest.beyond_island
        if is_lower and is_settled and is_allowed and loan.lender in lenders:
            yield loan.cpu, loan.lender
