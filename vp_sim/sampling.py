# SPDX-License-Identifier: Apache-2.0
"""What the comparison policies see: rates of every guest over the last interval, by the drivers.

The decision core has its own observation; these simple policies need no more than this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.sample import Reading
from vp_sim.sim_drivers import SimDrivers

KILO = 1000.0


class Rates(NamedTuple):
    guest: Guest
    mpki: float
    misses_per_s: float
    cores: float

    @property
    def allocated(self) -> int:
        """Physical cores that its vCPUs may have for themselves."""
        return min(self.guest.vcpus, len(self.guest.placement))


@dataclass(slots=True)
class Sampler:
    """Remembers the last reading, as any observer must."""

    drivers: SimDrivers
    _readings: Mapping[str, Reading] = field(default_factory=dict)
    _cpu_time_ns: Mapping[str, int] = field(default_factory=dict)
    _at_s: float = 0.0

    def read(self, now_s: float) -> tuple[Rates, ...]:
        """Every guest's rates; nothing in the first interval."""
        guests = self.drivers.guests.read()
        readings = self.drivers.counters.read(self.drivers.guests.threads())
        span_s = now_s - self._at_s
        seen = tuple(
            _rates(guest, readings[guest.uuid], self._readings[guest.uuid], used, span_s)
            for guest in guests
            if guest.uuid in self._readings and guest.uuid in readings
            for used in [guest.cpu_time_ns - self._cpu_time_ns[guest.uuid]]
        )
        self._readings = readings
        self._cpu_time_ns = {guest.uuid: guest.cpu_time_ns for guest in guests}
        self._at_s = now_s
        return seen


def _rates(guest: Guest, now: Reading, before: Reading, used_ns: int, span_s: float) -> Rates:
    instructions = now.instructions - before.instructions
    misses = now.llc_misses - before.llc_misses
    return Rates(
        guest=guest,
        mpki=KILO * misses / instructions if instructions else 0.0,
        misses_per_s=misses / span_s,
        cores=used_ns / 1e9 / span_s,
    )
