# SPDX-License-Identifier: Apache-2.0
"""The balloons of a host in memory: what a guest is asked for it has at once, or never."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import NO_MEMORY_SIZE, Held, Knob, MemorySize, Value
from vp_agent.drivers.balloon import NO_STATISTICS
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.fake import FakeGuest, FakeHost


@dataclass(frozen=True, slots=True)
class FakeBalloon:
    host: FakeHost
    name: str = "fake"
    knobs: frozenset[Knob] = frozenset({Knob.MEMORY_SIZE})

    def survey(self, guests: tuple[Guest, ...], held: Mapping[str, Held]) -> tuple[Guest, ...]:
        return tuple(self.look(guest) if guest.uuid in held else guest for guest in guests)

    def look(self, guest: Guest) -> Guest:
        if guest.balloon_obstacle:
            return guest
        used = self.host.find(guest.uuid).memory_used_kib
        why = NO_STATISTICS if used is None else ""
        return guest._replace(memory_used_kib=used, balloon_obstacle=why)

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return self.host.find(guest_uuid).guest.memory_size

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        entry, size = self.host.find(guest_uuid), cast(MemorySize, value)
        guest, used = entry.guest, entry.memory_used_kib
        if guest.balloon_obstacle or used is None or entry.refuses:
            raise ApplyFailed(guest.balloon_obstacle or entry.refuses or NO_STATISTICS)
        if not max(1, used) <= size.kib <= guest.memory_kib:
            raise ApplyFailed(f"{size.kib} KiB is no size for a guest that uses {used} KiB")
        _resize(entry, size)

    def restore(self, guest_uuid: str, held: Held) -> None:
        entry = self.host.find(guest_uuid)
        if entry.guest.memory_size == NO_MEMORY_SIZE:
            return
        flavors = MemorySize(entry.guest.memory_kib)
        size = min(cast(MemorySize, held.original), flavors) if held.original[0] else flavors
        _resize(entry, size)
        if entry.guest.memory_size != size:
            raise ApplyFailed("its balloon driver does not answer")


def _resize(entry: FakeGuest, size: MemorySize) -> None:
    if not entry.keeps_its_size:
        entry.guest = entry.guest._replace(memory_size=size)
