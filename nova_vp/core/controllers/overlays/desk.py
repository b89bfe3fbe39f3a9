# SPDX-License-Identifier: Apache-2.0
"""What one run works on: the ledger, as it changes call by call."""

from collections.abc import Mapping
from typing import Any

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.overlays.accounts import filled, purse_filled
from nova_vp.core.controllers.overlays.declaration import (
    Account,
    Ledger,
    NewGrant,
    OverlaysSettings,
    Purse,
)
from nova_vp.core.controllers.overlays.standing import what_stands
from nova_vp.core.model.islands import island_of
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island
from nova_vp.core.types.knob import Cpus, Knob
from nova_vp.core.types.overlay import Overlay


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
        stands = what_stands(view, ledger)
        self.standing = stands.keys
        self.tuned, self.boosts = stands.tuned, stands.boosts
        self.sizes, self.emulators = stands.sizes, stands.emulators
        self.conceded, self.places, self.loans = stands.conceded, stands.places, stands.loans
        self.caps = dict(ledger.caps)
        self.lend_again_s = {
            name: at_s for name, at_s in ledger.lend_again_s.items() if at_s > self.now_s
        }
        self.grants: dict[str, NewGrant] = {}
        self.changed = set(stands.ended)
        """Servers of which this run may claim something else than what stands."""
        self._charge_late_ends(ledger)

    def _charge_late_ends(self, ledger: Ledger) -> None:
        """Who ran first for longer than was paid, since a tick took its time, pays for that too."""
        for uuid, boost in ledger.boosts.items():
            late_s = self.now_s - boost.until_s
            overlay = self.overlays.get(boost.overlay_id)
            if late_s > 0.0 and overlay is not None and (uuid, Knob.CPU_WEIGHT) in self.standing:
                self.spend(overlay, min(late_s, self.settings.credit_s))

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

    def change_account(self, overlay_id: str, **fields: Any) -> None:
        self.accounts[overlay_id] = self.account(overlay_id)._replace(**fields)

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
        grants = (self.tuned, self.boosts, self.sizes, self.emulators, self.conceded)
        ends_s = [one.until_s for some in grants for one in some.values()]
        return min((*ends_s, *(loan.until_s for loan in self.loans)), default=None)

    def ledger(self) -> Ledger:
        return Ledger(
            accounts=self.accounts,
            purses=self._unfilled_purses(),
            tuned=self.tuned,
            boosts=self.boosts,
            sizes=self.sizes,
            emulators=self.emulators,
            conceded=self.conceded,
            harms=self.harms,
            places=self.places,
            caps=self.caps,
            grants=self.grants,
            lend_again_s=self.lend_again_s,
        )
