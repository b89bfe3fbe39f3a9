# SPDX-License-Identifier: Apache-2.0
"""Partitions of a host in memory (`fake.py`): the second implementation of the seam.

Like resctrl's groups, what holds a guest back is bound to its threads and outlives the guest.
"""

from dataclasses import dataclass, field
from typing import cast

from nova_vp.core.types.knob import Held, Knob, LlcShare, MembwShare, Value
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.cache_partition import FREE
from vp_agent.drivers.fake import FakeHost


@dataclass(slots=True)
class Group:
    """What stands for one guest: how much its threads may take of each that is limited."""

    generation: str
    """Whose threads."""
    shares: dict[Knob, LlcShare | MembwShare]


@dataclass(slots=True)
class FakePartitions:
    host: FakeHost
    most: int = 15
    """That can stand at a time."""
    name: str = "fake"
    knobs: frozenset[Knob] = frozenset(FREE)
    _standing: dict[str, Group] = field(default_factory=dict)
    """By guest UUID."""

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        group = self._of_this_start(guest_uuid)
        return group.shares.get(knob, FREE[knob]) if group else FREE[knob]

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        entry = self.host.find(guest_uuid)
        share = cast(LlcShare | MembwShare, value)
        if entry.refuses:
            raise ApplyFailed(entry.refuses)
        if knob not in self.knobs or not 0 < share.ratio <= 1:
            raise ApplyFailed("shares are above 0 and up to 1, of what the hardware divides")
        group = self._of_this_start(guest_uuid) or Group(entry.guest.generation, {})
        if guest_uuid not in self._standing and len(self._standing) >= self.most:
            raise ApplyFailed("no group is left")
        group.shares[knob] = share
        self._standing[guest_uuid] = group
        if share == FREE[knob]:
            self._free(guest_uuid, knob)
        self._show(guest_uuid)

    def restore(self, guest_uuid: str, held: Held) -> None:
        self.discard_if_empty(guest_uuid)
        self._free(guest_uuid, held.knob)
        self.host.find(guest_uuid)
        self._show(guest_uuid)

    def held(self) -> frozenset[str]:
        return frozenset(self._standing)

    def discard_if_empty(self, guest_uuid: str) -> None:
        try:
            is_empty = self._of_this_start(guest_uuid) is None
        except GuestGone:
            is_empty = True
        if is_empty:
            self._standing.pop(guest_uuid, None)

    def _of_this_start(self, guest_uuid: str) -> Group | None:
        """Raises GuestGone."""
        generation = self.host.find(guest_uuid).guest.generation
        group = self._standing.get(guest_uuid)
        return group if group and group.generation == generation else None

    def _free(self, guest_uuid: str, knob: Knob) -> None:
        group = self._standing.get(guest_uuid)
        if group:
            group.shares.pop(knob, None)
            if not group.shares:
                del self._standing[guest_uuid]

    def _show(self, guest_uuid: str) -> None:
        entry = self.host.guests[guest_uuid]
        entry.guest = entry.guest._replace(
            llc=cast(LlcShare, self.read(guest_uuid, Knob.LLC)),
            membw=cast(MembwShare, self.read(guest_uuid, Knob.MEMBW)),
        )
