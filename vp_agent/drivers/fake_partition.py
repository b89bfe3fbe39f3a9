# SPDX-License-Identifier: Apache-2.0
"""Partitions of a host in memory (`fake.py`): the second implementation of the seam.

Like resctrl's groups, what holds a guest back is bound to its threads and outlives the guest.
"""

from dataclasses import dataclass, field
from typing import cast

from nova_vp.core.types.knob import Held, Knob, Partition, Value
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.fake import FakeHost


@dataclass(slots=True)
class FakePartitions:
    host: FakeHost
    most: int = 15
    """That can stand at a time."""
    name: str = "fake"
    knobs: frozenset[Knob] = frozenset({Knob.PARTITION})
    _standing: dict[str, tuple[str, Partition]] = field(default_factory=dict)
    """By guest UUID: whose threads (generation) are held, and how much they may take."""

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        generation, partition = self._standing.get(guest_uuid, ("", Partition()))
        guest = self.host.find(guest_uuid).guest
        return partition if guest.generation == generation else Partition()

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        entry = self.host.find(guest_uuid)
        partition = cast(Partition, value)
        if entry.refuses:
            raise ApplyFailed(entry.refuses)
        if not all(0 < ratio <= 1 for ratio in partition):
            raise ApplyFailed("shares are above 0 and up to 1")
        if partition == Partition():
            self._standing.pop(guest_uuid, None)
            self._show(guest_uuid, partition)
            return
        if guest_uuid not in self._standing and len(self._standing) >= self.most:
            raise ApplyFailed("no group is left")
        self._standing[guest_uuid] = (entry.guest.generation, partition)
        self._show(guest_uuid, partition)

    def restore(self, guest_uuid: str, held: Held) -> None:
        self._standing.pop(guest_uuid, None)
        self.host.find(guest_uuid)
        self._show(guest_uuid, Partition())

    def held(self) -> frozenset[str]:
        return frozenset(self._standing)

    def discard_if_empty(self, guest_uuid: str) -> None:
        generation, _ = self._standing.get(guest_uuid, ("", None))
        try:
            is_empty = self.host.find(guest_uuid).guest.generation != generation
        except GuestGone:
            is_empty = True
        if is_empty:
            self._standing.pop(guest_uuid, None)

    def _show(self, guest_uuid: str, partition: Partition) -> None:
        entry = self.host.guests[guest_uuid]
        entry.guest = entry.guest._replace(partition=partition)
