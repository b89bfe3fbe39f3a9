# SPDX-License-Identifier: Apache-2.0
"""Moving memory on the host in memory of `fake.py`: the second implementation of the mover.

It keeps the real one's promises (tests/contract/test_memory.py). Time passes only while somebody
looks: each call of `moves` finds one chunk more copied.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from nova_vp.core.types.guest import Guest, MemoryMove, Unmanaged
from nova_vp.core.types.knob import Held, Knob, Shares, Value
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.fake import FakeHost
from vp_agent.drivers.guest_pages import CHUNK_PAGES, PAGE_KIB

CHUNK_KIB = CHUNK_PAGES * PAGE_KIB


@dataclass(slots=True)
class Moving:
    to: Shares
    generation: str
    whole_kib: int
    moved_kib: int = 0
    stop: str = ""


@dataclass(slots=True)
class FakeMover:
    host: FakeHost
    spare_kib: dict[int, float] = field(default_factory=dict)
    """By node; a node that is not named has room for everything."""
    name: str = "fake"
    knobs: frozenset[Knob] = frozenset({Knob.MEMORY})
    _queue: dict[str, Moving] = field(default_factory=dict)
    _paces: Mapping[str, float] = field(default_factory=dict)

    def survey(self, guests: tuple[Guest, ...], now_s: float) -> tuple[Guest, ...]:
        for guest in guests:
            if guest.unmanaged is Unmanaged.MIGRATING:
                self.abort(guest.uuid, "it migrates")
        return guests

    def moves(self) -> Mapping[str, MemoryMove]:
        self._copy_a_chunk()
        found = {uuid: self._seen(uuid, moving) for uuid, moving in self._queue.items()}
        self._queue = {uuid: m for uuid, m in self._queue.items() if not found[uuid].is_over}
        return found

    def set_copy_rates(self, kib_per_s: Mapping[str, float]) -> None:
        self._paces = kib_per_s

    def abort(self, guest_uuid: str, why: str) -> None:
        if guest_uuid in self._queue:
            self._queue[guest_uuid].stop = why

    def close(self) -> None:
        for moving in self._queue.values():
            moving.stop = "the agent stopped"

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return self.host.find(guest_uuid).guest.memory_shares

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        to = cast(Shares, value)
        guest = self.host.find(guest_uuid).guest
        nodes = {domain.node for domain in self.host.topology.domains}
        total = math.fsum(share for _, share in to)
        if not all(node in nodes and share > 0 for node, share in to) or abs(total - 1) > 1e-6:
            raise ApplyFailed(f"{to} are not shares over nodes {sorted(nodes)}")
        if guest.memory_obstacle:
            raise ApplyFailed(guest.memory_obstacle)
        moving = self._queue.get(guest_uuid)
        if moving is None or moving.stop or moving.to != to:
            self._begin(guest, to)

    def _begin(self, guest: Guest, to: Shares) -> None:
        arriving = {node: kib for node, kib in _still_to_come(guest, to).items() if kib > 0}
        for node, kib in arriving.items():
            if kib > self.spare_kib.get(node, math.inf):
                raise ApplyFailed(f"{kib} KiB do not fit onto node {node}")
        self._queue[guest.uuid] = Moving(to, guest.generation, sum(arriving.values()))

    def restore(self, guest_uuid: str, held: Held) -> None:
        if not held.original:
            return
        self.apply(guest_uuid, held.knob, held.original)
        self._paces = {}
        move = self.moves()[guest_uuid]
        while not move.is_over:
            move = self.moves()[guest_uuid]
        if guest_uuid not in self.host.guests:
            raise GuestGone(move.problem)
        if move.problem:
            raise ApplyFailed(move.problem)

    def _copy_a_chunk(self) -> None:
        for uuid, moving in self._queue.items():
            entry = self.host.guests.get(uuid)
            if entry is None or entry.guest.generation != moving.generation:
                moving.stop = f"server {uuid} has ended or was restarted"
            elif not moving.stop and self._paces.get(uuid, math.inf) > 0:
                self._copy(entry.guest, moving)
            if not moving.stop and self._paces.get(uuid, math.inf) > 0:
                return

    def _copy(self, guest: Guest, moving: Moving) -> None:
        coming = _still_to_come(guest, moving.to)
        source, target = min(coming, key=coming.__getitem__), max(coming, key=coming.__getitem__)
        kib = min(CHUNK_KIB, coming[target])
        if kib > self.spare_kib.get(target, math.inf):
            moving.stop = f"node {target} runs short of memory"
            return
        lies = dict(guest.memory_by_node)
        lies[source] -= kib
        lies[target] = lies.get(target, 0) + kib
        moving.moved_kib += kib
        self.host.change(guest.uuid, memory_by_node=tuple(sorted(lies.items())))

    def _seen(self, uuid: str, moving: Moving) -> MemoryMove:
        left_kib = moving.whole_kib - moving.moved_kib
        return MemoryMove(
            guest_uuid=uuid,
            to=moving.to,
            moved_kib=moving.moved_kib,
            left_kib=left_kib,
            is_over=bool(moving.stop) or not left_kib,
            problem=moving.stop,
            kib_per_s=1e6 if moving.moved_kib else 0.0,
        )


def _still_to_come(guest: Guest, to: Shares) -> dict[int, int]:
    """KiB by node; below zero: to leave."""
    lies = dict(guest.memory_by_node)
    total = sum(lies.values())
    wanted = {node: round(share * total) for node, share in to}
    wanted[to[0][0]] += total - sum(wanted.values())
    return {node: wanted.get(node, 0) - lies.get(node, 0) for node in {*lies, *wanted}}
