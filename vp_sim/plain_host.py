# SPDX-License-Identifier: Apache-2.0
"""What hosts of small models have in common as drivers of the agent's core: a journal in memory,
no memory that moves, and all drivers in one object.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import Applied, Held, Knob, Value
from nova_vp.core.types.service_level import LatencyReport
from nova_vp.core.types.topology import NO_LIMITS, Limits
from vp_agent.drivers.base import Actuator, VcpuThreads

GENERATION = "start-1"
"""Nobody reboots here."""


@dataclass(slots=True)
class PlainHost:
    """Whoever inherits from it adds `topology`, `counters` and `apply`."""

    guests_by_uuid: dict[str, Guest] = field(default_factory=dict)
    entries: dict[str, Applied] = field(default_factory=dict)
    limits_value: Limits = NO_LIMITS
    knobs: frozenset[Knob] = frozenset({Knob.PLACEMENT, Knob.CPU_CAP, Knob.CPU_WEIGHT})

    @property
    def journal(self) -> "MemoryJournal":
        return MemoryJournal(self.entries)

    def read(self) -> tuple[Guest, ...]:
        return tuple(self.guests_by_uuid.values())

    def threads(self) -> tuple[VcpuThreads, ...]:
        return ()

    def limits(self) -> Limits:
        return self.limits_value

    def actuators(self) -> Mapping[Knob, Actuator]:
        return dict.fromkeys(self.knobs, cast(Actuator, self))

    def latency_reports(self) -> Mapping[str, LatencyReport]:
        return {}

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        raise NotImplementedError

    def restore(self, guest_uuid: str, held: Held) -> None:
        self.apply(guest_uuid, held.knob, held.original)

    def survey(self, guests: tuple[Guest, ...], now_s: float) -> tuple[Guest, ...]:
        return guests

    def moves(self) -> Mapping[str, MemoryMove]:
        return {}

    def set_copy_rates(self, kib_per_s: Mapping[str, float]) -> None:
        """No memory moves here."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class MemoryJournal:
    entries: dict[str, Applied]

    def read(self) -> Mapping[str, Applied]:
        return dict(self.entries)

    def write(self, applied: Applied) -> None:
        self.entries[applied.guest_uuid] = applied

    def drop(self, guest_uuid: str) -> None:
        self.entries.pop(guest_uuid, None)
