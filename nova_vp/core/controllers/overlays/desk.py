# SPDX-License-Identifier: Apache-2.0
"""What one run works on: the ledger, as it changes call by call, and what ends by itself.

A grant that does not stand as a claim was refused later in the pipeline, or lost: it ends too.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.overlays.accounts import filled, purse_filled
from nova_vp.core.controllers.overlays.declaration import (
    NAME,
    Account,
    Boost,
    Conceded,
    Ledger,
    OverlaysSettings,
    Purse,
    Sized,
    Tuned,
)
from nova_vp.core.model.islands import island_of
from nova_vp.core.model.limits import of_controller
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island, Loan
from nova_vp.core.types.knob import Cpus, Knob, all_cpus
from nova_vp.core.types.overlay import Overlay

QUICK_S = 5.0
"""For so long it is remembered which way a server was tuned last, whatever came of it."""

_Grant = TypeVar("_Grant", Tuned, Boost, Sized, Conceded)


class Desk:
    def __init__(self, view: View, ledger: Ledger, settings: OverlaysSettings) -> None:
        self.view = view
        self.settings = settings
        self.now_s = view.now_s
        self.overlays: Mapping[str, Overlay] = view.picture.overlays
        self.accounts = {
            uuid: account for uuid, account in ledger.accounts.items() if uuid in self.overlays
        }
        self.purses = dict(ledger.purses)
        self.harms = dict(ledger.harms)
        self.crowds: dict[frozenset[int], Any] = {}
        """Of `weights.py`, until a weight changes."""
        self.pins: dict[str, Mapping[str, Cpus]] = {}
        """By exclusive island."""
        self._homes: dict[frozenset[int], Island | None] = {}
        self._on: dict[frozenset[int], list[Guest]] = {}
        self.standing = standing = {key for key, _ in view.standing(NAME)}
        boosted = ledger.boosts.keys()
        tuned = {
            uuid: _as_it_stands(uuid, one, standing, uuid in boosted)
            for uuid, one in ledger.tuned.items()
        }
        boosts, sizes, conceded = ledger.boosts, ledger.sizes, ledger.conceded
        self.tuned = self._unended(
            {
                uuid: one
                for uuid, one in tuned.items()
                if is_tuned(one) or self.now_s - one.changed_at_s < QUICK_S
            }
        )
        self.boosts = self._unended(
            {u: one for u, one in boosts.items() if (u, Knob.CPU_WEIGHT) in standing}
        )
        self.sizes = self._unended(
            {u: one for u, one in sizes.items() if (u, Knob.MEMORY_SIZE) in standing}
        )
        self.conceded = {
            uuid: one
            for uuid, one in conceded.items()
            if (uuid, Knob.CPU_CAP) in standing
            and one.until_s > self.now_s
            and one.overlay_id in self.overlays
            and uuid in view.host.guests
        }
        self.places = {
            uuid: place
            for uuid, place in ledger.places.items()
            if (uuid, Knob.PLACEMENT) in standing and view.host.guests[uuid].unmanaged is None
        }
        self.caps = dict(ledger.caps)
        self.lend_again_s = {
            name: at_s for name, at_s in ledger.lend_again_s.items() if at_s > self.now_s
        }
        self.loans = [loan for loan in view.core.loans if self._stands(loan)]
        self.changed: set[str] = set()
        if len(self.loans) < len(view.core.loans):
            self.changed |= self.places.keys()
        self.changed |= ledger.tuned.keys() - self.tuned.keys()
        self.changed |= boosts.keys() - self.boosts.keys()
        self.changed |= sizes.keys() - self.sizes.keys()
        self.changed |= conceded.keys() - self.conceded.keys()
        """Servers of which this run may claim something else than what stands."""

    def _unended(self, grants: Mapping[str, _Grant]) -> dict[str, _Grant]:
        """Of servers that are here and still members of an overlay that is still there."""
        return {
            uuid: one
            for uuid, one in grants.items()
            if one.until_s > self.now_s
            and (overlay := self.overlays.get(one.overlay_id)) is not None
            and uuid in overlay.members
            and uuid in self.view.host.guests
        }

    def _stands(self, loan: Loan) -> bool:
        """It is not over, and one of those that it is for has the CPU."""
        is_capped = self.view.policy.host_cap_cores is not None
        is_wanted = is_capped if loan.is_for_all else loan.overlay_id in self.overlays
        if loan.until_s <= self.now_s or not is_wanted:
            return False
        claims = self.view.core.claims
        return any(
            (own := of_controller(claims.get((uuid, Knob.PLACEMENT), ()), NAME)) is not None
            and loan.cpu in all_cpus(cast(Cpus, own.value))
            for uuid, guest in self.view.host.guests.items()
            if self.gains(loan, guest)
        )

    def gains(self, loan: Loan, guest: Guest) -> bool:
        """Whether the CPU is lent for this server too, if it is in that island."""
        if loan.is_for_all:
            return True
        overlay = self.overlays.get(loan.overlay_id)
        return overlay is not None and guest.uuid in overlay.members

    def home(self, guest: Guest) -> Island | None:
        """Its island; None: it runs in several, or beside them."""
        place = guest.placement
        if place not in self._homes:
            self._homes[place] = island_of(place, self.view.islands)
        return self._homes[place]

    def account(self, overlay_id: str) -> Account:
        """As it is now."""
        account = filled(self.accounts.get(overlay_id), self.now_s, self.settings)
        self.accounts[overlay_id] = account
        return account

    def change_account(self, overlay_id: str, **fields: float | int | str | None) -> None:
        self.accounts[overlay_id] = self.account(overlay_id)._replace(**fields)  # type: ignore[arg-type]

    def credit_s(self, overlay: Overlay) -> float:
        """Of its own and of its project, what is less."""
        return min(self.account(overlay.id).credit_s, self._purse(overlay).credit_s)

    def spend(self, overlay: Overlay, price_s: float) -> None:
        """Less than 0: it gets back what it did not use."""
        left_s = min(self.account(overlay.id).credit_s - price_s, self.settings.credit_s)
        self.change_account(overlay.id, credit_s=left_s)
        purse = self._purse(overlay)
        self.purses[overlay.project_id] = purse._replace(credit_s=purse.credit_s - price_s)

    def halve_credit(self, overlay: Overlay) -> None:
        self.change_account(overlay.id, credit_s=self.account(overlay.id).credit_s / 2)
        purse = self._purse(overlay)
        self.purses[overlay.project_id] = purse._replace(credit_s=purse.credit_s / 2)

    def _purse(self, overlay: Overlay) -> Purse:
        return purse_filled(self.purses.get(overlay.project_id), self.now_s, self.settings)

    def _unfilled_purses(self) -> dict[str, Purse]:
        full_s = purse_filled(None, self.now_s, self.settings).credit_s
        now = {
            project_id: purse_filled(purse, self.now_s, self.settings)
            for project_id, purse in self.purses.items()
        }
        return {project_id: one for project_id, one in now.items() if one.credit_s < full_s}

    def guests_of(self, overlay: Overlay) -> list[Guest]:
        guests = self.view.host.guests
        return [guests[uuid] for uuid in sorted(overlay.members) if uuid in guests]

    def beside(self, guest: Guest) -> list[Guest]:
        """Other servers that may run on its CPUs, and run."""
        return [one for one in self.on(guest.placement) if one.uuid != guest.uuid]

    def on(self, cpus: frozenset[int]) -> list[Guest]:
        """Servers that may run on one of these CPUs, and run."""
        if cpus not in self._on:
            guests = self.view.host.guests.values()
            meets = {place: bool(place & cpus) for place in self.view.host.domain_ids}
            self._on[cpus] = [one for one in guests if meets[one.placement] and one.is_running]
        return self._on[cpus]

    def note_change(self, *uuids: str) -> None:
        """Of what these were granted."""
        self.changed.update(uuids)
        self.crowds.clear()

    def next_end_s(self) -> float | None:
        grants = (self.tuned, self.boosts, self.sizes, self.conceded)
        ends_s = [one.until_s for some in grants for one in some.values()]
        return min((*ends_s, *(loan.until_s for loan in self.loans)), default=None)

    def ledger(self) -> Ledger:
        return Ledger(
            accounts=self.accounts,
            purses=self._unfilled_purses(),
            tuned=self.tuned,
            boosts=self.boosts,
            sizes=self.sizes,
            conceded=self.conceded,
            harms=self.harms,
            places=self.places,
            caps=self.caps,
            lend_again_s=self.lend_again_s,
        )


def is_tuned(tuned: Tuned) -> bool:
    return bool(tuned.cap_steps) or tuned.weight_times != 1.0


def _as_it_stands(
    uuid: str, tuned: Tuned, standing: set[tuple[str, Knob]], is_boosted: bool
) -> Tuned:
    """While a server runs first its own limit does not stand."""
    if tuned.weight_times != 1.0 and (uuid, Knob.CPU_WEIGHT) not in standing:
        tuned = tuned._replace(weight_times=1.0)
    if tuned.cap_steps and (uuid, Knob.CPU_CAP) not in standing and not is_boosted:
        tuned = tuned._replace(cap_steps=0)
    return tuned
