# SPDX-License-Identifier: Apache-2.0
"""What one run works on: the ledger, as it changes call by call, and what ends by itself.

A grant that does not stand as a claim was refused later in the pipeline, or lost: it ends too.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.overlays.accounts import filled
from nova_vp.core.controllers.overlays.declaration import (
    NAME,
    Account,
    Boost,
    Conceded,
    Ledger,
    OverlaysSettings,
    Sized,
    Tuned,
)
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
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
        self.harms = dict(ledger.harms)
        self.crowds: dict[frozenset[int], Any] = {}
        """Of `weights.py`, until a weight changes."""
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
        self.changed: set[str] = set()
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

    def account(self, overlay_id: str) -> Account:
        """As it is now."""
        account = filled(self.accounts.get(overlay_id), self.now_s, self.settings)
        self.accounts[overlay_id] = account
        return account

    def change_account(self, overlay_id: str, **fields: float | int | str | None) -> None:
        self.accounts[overlay_id] = self.account(overlay_id)._replace(**fields)  # type: ignore[arg-type]

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

    def ledger(self) -> Ledger:
        return Ledger(self.accounts, self.tuned, self.boosts, self.sizes, self.conceded, self.harms)


def is_tuned(tuned: Tuned) -> bool:
    return bool(tuned.cap_steps) or tuned.weight_times != 1.0


def _as_it_stands(
    uuid: str, tuned: Tuned, standing: set[tuple[str, Knob]], is_boosted: bool
) -> Tuned:
    """While a server runs first its own limit does not stand."""
    if (uuid, Knob.CPU_WEIGHT) not in standing:
        tuned = tuned._replace(weight_times=1.0)
    if (uuid, Knob.CPU_CAP) not in standing and not is_boosted:
        tuned = tuned._replace(cap_steps=0)
    return tuned
