# SPDX-License-Identifier: Apache-2.0
"""A recorded host behind the drivers of a real one: what was measured, whatever a policy does.

What it turns is shown as turned, so that it does not take its own doing for somebody else's; what
that would have changed in the counters nobody knows. Its first steps are what it would have done,
the later ones less and less.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from nova_vp.core.model.limits import value_now
from nova_vp.core.model.turned import turned
from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import (
    Applied,
    Cpus,
    Held,
    Knob,
    Shares,
    Value,
    all_cpus,
)
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import LatencyReport
from nova_vp.core.types.topology import Limits, Topology
from vp_agent.drivers.base import Actuator, ApplyFailed, GuestGone, VcpuThreads


class Wish(NamedTuple):
    """What a policy turned."""

    at_s: float
    guest_uuid: str
    knob: Knob
    to: Value


@dataclass(slots=True)
class RecordedHost:
    picture: Picture
    """Of now: replaced tick by tick."""
    turned: dict[tuple[str, Knob], Value] = field(default_factory=dict)
    wishes: list[Wish] = field(default_factory=list)
    arrived: dict[str, MemoryMove] = field(default_factory=dict)
    """Memory that was sent since the policy last asked; it is there at once."""

    def find(self, guest_uuid: str) -> Guest:
        """As the policy left it. Raises GuestGone."""
        for guest in self.picture.guests:
            if guest.uuid == guest_uuid:
                return self.seen(guest)
        raise GuestGone(f"guest {guest_uuid} is not running any more")

    def seen(self, guest: Guest) -> Guest:
        for knob in self.picture.knobs:
            value = self.turned.get((guest.uuid, knob))
            if value is not None:
                guest = turned(guest, knob, value)
        return guest


@dataclass(frozen=True, slots=True)
class RecordedGuests:
    host: RecordedHost

    def topology(self) -> Topology:
        return self.host.picture.topology

    def read(self) -> tuple[Guest, ...]:
        return tuple(map(self.host.seen, self.host.picture.guests))

    def stopped(self) -> frozenset[str]:
        return frozenset()

    def threads(self) -> tuple[VcpuThreads, ...]:
        return ()

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class RecordedCounters:
    host: RecordedHost
    name: str = "recorded"

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        return self.host.picture.readings

    def problems(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class RecordedJournal:
    """Of the policy's own doing; what the recorded agent had applied was the host as found."""

    host: RecordedHost
    entries: dict[str, Applied] = field(default_factory=dict)

    def read(self) -> Mapping[str, Applied]:
        here = {guest.uuid for guest in self.host.picture.guests}
        return {uuid: entry for uuid, entry in self.entries.items() if uuid in here}

    def write(self, applied: Applied) -> None:
        self.host.find(applied.guest_uuid)
        self.entries[applied.guest_uuid] = applied

    def drop(self, guest_uuid: str) -> None:
        self.entries.pop(guest_uuid, None)


@dataclass(frozen=True, slots=True)
class RecordedActuator:
    host: RecordedHost
    name: str = "recorded"

    @property
    def knobs(self) -> frozenset[Knob]:
        return self.host.picture.knobs

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return value_now(self.host.find(guest_uuid), knob)

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        guest = self.host.find(guest_uuid)
        if knob not in self.knobs:
            raise ApplyFailed(f"the recorded host could not turn {knob.value}")
        if knob is Knob.PLACEMENT and not all_cpus(cast(Cpus, value)) <= guest.allowed_cpus:
            raise ApplyFailed("beyond the guest's bound")
        self.host.turned[guest_uuid, knob] = value
        self.host.wishes.append(Wish(self.host.picture.at_s, guest_uuid, knob, value))
        if knob is Knob.MEMORY:
            kib = sum(kib for _, kib in guest.memory_by_node)
            to = cast(Shares, value)
            self.host.arrived[guest_uuid] = MemoryMove(guest_uuid, to, kib, 0, is_over=True)

    def restore(self, guest_uuid: str, held: Held) -> None:
        self.apply(guest_uuid, held.knob, held.original)

    def moves(self) -> Mapping[str, MemoryMove]:
        arrived, self.host.arrived = self.host.arrived, {}
        return arrived

    def set_copy_rates(self, rates_kib_per_s: Mapping[str, float]) -> None:
        """Nothing is on its way."""


class RecordedDrivers(NamedTuple):
    """One recorded host as a policy has it: the shape of `vp_sim.sim_drivers.SimDrivers`."""

    guests: RecordedGuests
    counters: RecordedCounters
    journal: RecordedJournal
    actuator: RecordedActuator

    def latency_reports(self) -> Mapping[str, LatencyReport]:
        return self.guests.host.picture.latency_reports

    def limits(self) -> Limits:
        return self.guests.host.picture.limits

    def actuators(self) -> Mapping[Knob, Actuator]:
        return dict.fromkeys(self.actuator.knobs, self.actuator)  # type: ignore[arg-type]


def recorded_drivers_of(host: RecordedHost) -> RecordedDrivers:
    return RecordedDrivers(
        RecordedGuests(host), RecordedCounters(host), RecordedJournal(host), RecordedActuator(host)
    )
