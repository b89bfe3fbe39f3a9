# SPDX-License-Identifier: Apache-2.0
"""Where servers run while CPUs are lent: those of the lender leave them, those they are lent for
may use them. Once nothing is lent any more they run where they ran before.
"""

from collections.abc import Iterator, Mapping

from nova_vp.core.controllers.overlays.declaration import NAME, RETURN
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.exclusive import pins_of
from nova_vp.core.controllers.overlays.lending import may_place
from nova_vp.core.controllers.overlays.standing import gains
from nova_vp.core.types.claim import ClaimGroup, PredictedLoss, Release, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island, Scheduler
from nova_vp.core.types.knob import Cpus, Knob, all_cpus


def note_places(desk: Desk) -> None:
    """Remember where those ran that loans concern."""
    kinds = {island.scheduler for island in desk.view.islands}
    has_any = bool(desk.loans) or Scheduler.EXCLUSIVE in kinds
    for guest in desk.view.host.guests.values() if has_any else ():
        is_new = guest.uuid not in desk.places and may_place(desk, guest)
        if is_new and place_of(desk, guest, guest.cpus) != guest.cpus:
            desk.places[guest.uuid] = guest.cpus
            desk.note_change(guest.uuid)


def place_of(desk: Desk, guest: Guest, before: Cpus) -> Cpus:
    """With what is lent now, within Nova's bound."""
    home = desk.home(guest)
    if home is None:
        return before
    if home.scheduler is Scheduler.EXCLUSIVE:
        return _pins(desk, home).get(guest.uuid, before)
    away = frozenset(loan.cpu for loan in desk.loans if loan.lender == home.name)
    more = frozenset(
        loan.cpu
        for loan in desk.loans
        if loan.borrower == home.name and gains(desk.overlays, loan, guest)
    )
    more &= guest.allowed_cpus | guest.beyond_island
    return tuple(((one - away) or one) | more for one in before)


def _pins(desk: Desk, island: Island) -> Mapping[str, Cpus]:
    if island.name not in desk.pins:
        desk.pins[island.name] = pins_of(desk, island)
    return desk.pins[island.name]


def placement_of(desk: Desk, guest: Guest) -> Cpus | None:
    """None: it runs where it ran before."""
    before = desk.places.get(guest.uuid)
    if before is None:
        return None
    place = place_of(desk, guest, before)
    return None if place == before else place


def returns(desk: Desk) -> Iterator[ClaimGroup | Release]:
    """What puts servers back where they ran before; once they are there, they are nobody's."""
    for uuid, before in list(desk.places.items()):
        guest = desk.view.host.guests[uuid]
        if place_of(desk, guest, before) != before:
            continue
        bound = guest.allowed_cpus | guest.beyond_island
        within = tuple(one & bound for one in before)
        back: Cpus = within if all(within) else (guest.allowed_cpus,)
        if guest.cpus == back:
            del desk.places[uuid]
            yield Release(uuid, Knob.PLACEMENT)
        else:
            yield _return(desk, uuid, back)


def _return(desk: Desk, uuid: str, back: Cpus) -> ClaimGroup:
    return ClaimGroup(
        controller=NAME,
        guest_uuid=uuid,
        settings=(Setting(uuid, Knob.PLACEMENT, back),),
        domain_ids=domain_ids(desk, back),
        reason=RETURN,
        predicted_loss=PredictedLoss(0.0, 0.0),
    )


def domain_ids(desk: Desk, cpus: Cpus) -> tuple[int, ...]:
    place = all_cpus(cpus)
    return tuple(one.id for one in desk.view.host.topology.domains if one.cpus & place)
