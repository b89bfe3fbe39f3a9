# SPDX-License-Identifier: Apache-2.0
"""Counters moved by hand: the second implementation of the seam, for loop tests and replay.

It keeps the promises of the real sources (cumulative, zero after a restart, absent when gone) and
passes the same contract suite.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nova_vp.core.types.sample import Reading
from vp_agent.drivers.base import VcpuThreads


@dataclass(frozen=True, slots=True)
class VcpuCounts:
    """What one vCPU did."""

    instructions: int = 0
    cycles: int = 0
    llc_references: int = 0
    llc_misses_local: int = 0
    llc_misses_remote: int = 0

    @property
    def llc_misses(self) -> int:
        return self.llc_misses_local + self.llc_misses_remote


class FakeCounters:
    name = "fake"

    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}
        self._problems: dict[str, str] = {}
        self._wanted: frozenset[str] = frozenset()

    def start(self, guest_uuid: str, vcpus: int, generation: str) -> None:
        """A guest begins or begins again: its counts are zero."""
        self._readings[guest_uuid] = Reading(
            0, 0, 0, 0, 0, vcpus, 1.0, generation, vcpu_cycles=(0,) * vcpus
        )
        self._problems.pop(guest_uuid, None)

    def add(self, guest_uuid: str, counts: VcpuCounts, vcpu: int = 0) -> None:
        was = self._readings[guest_uuid]
        vcpu_cycles = list(was.vcpu_cycles)
        vcpu_cycles[vcpu] += counts.cycles
        self._readings[guest_uuid] = was._replace(
            instructions=was.instructions + counts.instructions,
            cycles=was.cycles + counts.cycles,
            llc_references=was.llc_references + counts.llc_references,
            llc_misses=was.llc_misses + counts.llc_misses,
            llc_misses_remote=was.llc_misses_remote + counts.llc_misses_remote,
            vcpu_cycles=tuple(vcpu_cycles),
        )

    def degrade(self, guest_uuid: str, vcpus_read: int, running_ratio: float, why: str) -> None:
        self._readings[guest_uuid] = self._readings[guest_uuid]._replace(
            vcpus_read=vcpus_read, running_ratio=running_ratio
        )
        self._problems[guest_uuid] = why

    def remove(self, guest_uuid: str) -> None:
        del self._readings[guest_uuid]

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        self._wanted = frozenset(guest.guest_uuid for guest in threads)
        return {uuid: self._readings[uuid] for uuid in self._wanted & self._readings.keys()}

    def problems(self) -> Mapping[str, str]:
        return {uuid: self._problems[uuid] for uuid in self._wanted & self._problems.keys()}

    def close(self) -> None: ...
