# SPDX-License-Identifier: Apache-2.0
"""What stands of that which was granted, when a run begins.

A grant ends with its lease, its server, its overlay, and the server's membership. One that does not
stand as a claim was refused later in the pipeline, or lost: it ends too.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar, cast

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.overlays.declaration import (
    NAME,
    Boost,
    Conceded,
    Ledger,
    Reweighed,
    Sized,
    Tuned,
)
from nova_vp.core.model.limits import of_controller
from nova_vp.core.types.claim import ClaimKey
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Loan
from nova_vp.core.types.knob import Cpus, Knob, all_cpus
from nova_vp.core.types.overlay import Overlay

QUICK_S = 5.0
"""For so long it is remembered which way a server was tuned last, whatever came of it."""

_Grant = TypeVar("_Grant", Tuned, Boost, Sized, Reweighed)
_Any = TypeVar("_Any")


class Standing(NamedTuple):
    keys: frozenset[ClaimKey]
    """Of all claims of this controller."""
    tuned: dict[str, Tuned]
    boosts: dict[str, Boost]
    sizes: dict[str, Sized]
    emulators: dict[str, Reweighed]
    conceded: dict[str, Conceded]
    places: dict[str, Cpus]
    """Each by server."""
    loans: list[Loan]
    ended: frozenset[str]
    """Servers of which something ended: they may claim something else than what stands."""


def what_stands(view: View, ledger: Ledger) -> Standing:
    keys = frozenset(key for key, _ in view.standing(NAME))
    found = Standing(
        keys,
        tuned=_unended(view, _tuned_as_it_stands(ledger, keys, view.now_s)),
        boosts=_unended(view, _claimed(ledger.boosts, Knob.CPU_WEIGHT, keys)),
        sizes=_unended(view, _claimed(ledger.sizes, Knob.MEMORY_SIZE, keys)),
        emulators=_unended(view, _claimed(ledger.emulators, Knob.EMULATOR_WEIGHT, keys)),
        conceded=_conceded(view, ledger, keys),
        places={
            uuid: place
            for uuid, place in _claimed(ledger.places, Knob.PLACEMENT, keys).items()
            if view.host.guests[uuid].unmanaged is None
        },
        loans=[loan for loan in view.core.loans if _is_on(view, loan)],
        ended=frozenset(),
    )
    return found._replace(ended=frozenset(_ended(view, ledger, found)))


def _claimed(grants: Mapping[str, _Any], knob: Knob, keys: frozenset[ClaimKey]) -> dict[str, _Any]:
    return {uuid: one for uuid, one in grants.items() if (uuid, knob) in keys}


def _tuned_as_it_stands(
    ledger: Ledger, keys: frozenset[ClaimKey], now_s: float
) -> dict[str, Tuned]:
    """And for a while which way a server was tuned of which nothing stands."""
    found: dict[str, Tuned] = {}
    for uuid, one in ledger.tuned.items():
        if (uuid, Knob.CPU_WEIGHT) not in keys:
            one = one._replace(weight_times=1.0)
        # While a server runs first its own limit does not stand.
        if (uuid, Knob.CPU_CAP) not in keys and uuid not in ledger.boosts:
            one = one._replace(cap_steps=0)
        if one.until_s <= now_s:
            one = one._replace(weight_times=1.0, cap_steps=0, until_s=one.changed_at_s + QUICK_S)
        if is_tuned(one) or now_s - one.changed_at_s < QUICK_S:
            found[uuid] = one
    return found


def _unended(view: View, grants: Mapping[str, _Grant]) -> dict[str, _Grant]:
    """Of servers that are here and still members of an overlay that is still there."""
    overlays = view.picture.overlays
    return {
        uuid: one
        for uuid, one in grants.items()
        if one.until_s > view.now_s
        and (overlay := overlays.get(one.overlay_id)) is not None
        and uuid in overlay.members
        and uuid in view.host.guests
    }


def _conceded(view: View, ledger: Ledger, keys: frozenset[ClaimKey]) -> dict[str, Conceded]:
    """As long as the server that they are limited for is here, and its overlay's."""
    overlays, guests = view.picture.overlays, view.host.guests
    return {
        uuid: one
        for uuid, one in _claimed(ledger.conceded, Knob.CPU_CAP, keys).items()
        if one.until_s > view.now_s
        and (overlay := overlays.get(one.overlay_id)) is not None
        and one.for_uuid in overlay.members
        and guests.keys() >= {uuid, one.for_uuid}
    }


def _is_on(view: View, loan: Loan) -> bool:
    """It is not over, and one of those that it is for has the CPU."""
    is_capped = view.policy.host_cap_cores is not None
    is_wanted = is_capped if loan.is_for_all else loan.overlay_id in view.picture.overlays
    if loan.until_s <= view.now_s or not is_wanted:
        return False
    claims = view.core.claims
    return any(
        (own := of_controller(claims.get((uuid, Knob.PLACEMENT), ()), NAME)) is not None
        and loan.cpu in all_cpus(cast(Cpus, own.value))
        for uuid, guest in view.host.guests.items()
        if gains(view.picture.overlays, loan, guest)
    )


def _ended(view: View, ledger: Ledger, stands: Standing) -> Iterator[str]:
    if len(stands.loans) < len(view.core.loans):
        yield from stands.places
    yield from ledger.tuned.keys() - {u for u, one in stands.tuned.items() if is_tuned(one)}
    yield from ledger.boosts.keys() - stands.boosts.keys()
    yield from ledger.sizes.keys() - stands.sizes.keys()
    yield from ledger.emulators.keys() - stands.emulators.keys()
    yield from ledger.conceded.keys() - stands.conceded.keys()


def is_tuned(tuned: Tuned) -> bool:
    return bool(tuned.cap_steps) or tuned.weight_times != 1.0


def gains(overlays: Mapping[str, Overlay], loan: Loan, guest: Guest) -> bool:
    """Whether the CPU is lent for this server too, if it is in that island."""
    if loan.is_for_all:
        return True
    overlay = overlays.get(loan.overlay_id)
    return overlay is not None and guest.uuid in overlay.members
