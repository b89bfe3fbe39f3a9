# SPDX-License-Identifier: Apache-2.0
"""The modelled host behind the drivers of a real one (`vp_agent.drivers.base`).

What passes here is all that a policy ever learns: guests with random UUIDs, noisy counters, the
topology. Names of applications and the figures of the model stay on the other side.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, cast

from nova_vp import flavor_specs
from nova_vp.core.types.guest import Guest, Isolation, MemoryMove
from nova_vp.core.types.knob import Applied, Cpus, Held, Knob, Quota, Shares, Value, all_cpus
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import LatencyReport
from nova_vp.core.types.topology import NO_LIMITS, Limits, Topology
from vp_agent.drivers.base import Actuator, ApplyFailed, GuestGone, VcpuThreads
from vp_sim.host import KIB, NS_PER_S, Move, SimGuest, SimHost

GENERATION = "start-1"
"""Nobody reboots here."""


def find(host: SimHost, guest_uuid: str) -> SimGuest:
    if guest_uuid not in host.guests:
        raise GuestGone(f"guest {guest_uuid} is not running any more")
    return host.guests[guest_uuid]


@dataclass(frozen=True, slots=True)
class SimGuests:
    host: SimHost

    def topology(self) -> Topology:
        return self.host.machine.topology

    def read(self) -> tuple[Guest, ...]:
        cpus = self.host.machine.topology.cpus
        return tuple(_guest(guest, cpus) for guest in self.host.guests.values())

    def stopped(self) -> frozenset[str]:
        return frozenset()

    def threads(self) -> tuple[VcpuThreads, ...]:
        return ()

    def close(self) -> None:
        """Nothing is held."""


def _guest(guest: SimGuest, cpus: frozenset[int]) -> Guest:
    return Guest(
        uuid=guest.uuid,
        domain_name=f"instance-{guest.uuid[:8]}",
        name=f"server-{guest.uuid[:8]}",
        project_id="0" * 32,
        flavor="sim",
        vcpus=guest.app.vcpus,
        memory_kib=int(guest.app.memory_mib * KIB),
        allowed_cpus=cpus,
        placement=guest.placement,
        cpu_time_ns=int(guest.cpu_time_s * NS_PER_S),
        generation=GENERATION,
        isolation=Isolation.SOFT,
        vcpu_placement=guest.cpus if len(guest.cpus) > 1 else (),
        group=guest.group,
        priority=guest.priority,
        controller_keys=guest.controller_keys,
        cap_floor_ratio=_cap_floor_ratio(guest.controller_keys),
        quota=guest.quota,
        memory_by_node=tuple(sorted((n, int(kib)) for n, kib in guest.memory_kib.items())),
    )


@cache
def _cap_floor_ratio(controller_keys: tuple[tuple[str, str], ...]) -> float | None:
    """Of each vCPU, as a flavor with these keys leaves it."""
    soft = {"vp:isolation": Isolation.SOFT.value}
    return flavor_specs.parse(soft | dict(controller_keys)).cap_floor_ratio


@dataclass(frozen=True, slots=True)
class SimCounters:
    host: SimHost
    name: str = "sim"

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        return {
            guest.uuid: _reading(self.host.sample(guest), guest.vcpu_cycles)
            for guest in self.host.guests.values()
        }

    def problems(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        """Nothing is held."""


def _reading(counted: tuple[float, ...], vcpu_cycles: tuple[float, ...]) -> Reading:
    instructions, cycles, references, misses, remote = map(int, counted)
    return Reading(
        instructions=instructions,
        cycles=cycles,
        llc_references=references,
        llc_misses=misses,
        llc_misses_remote=remote,
        vcpus_read=len(vcpu_cycles),
        running_ratio=1.0,
        generation=GENERATION,
        vcpu_cycles=tuple(map(int, vcpu_cycles)),
    )


@dataclass(frozen=True, slots=True)
class SimJournal:
    host: SimHost
    entries: dict[str, Applied] = field(default_factory=dict)

    def read(self) -> Mapping[str, Applied]:
        return dict(self.entries)

    def write(self, applied: Applied) -> None:
        find(self.host, applied.guest_uuid)
        self.entries[applied.guest_uuid] = applied

    def drop(self, guest_uuid: str) -> None:
        self.entries.pop(guest_uuid, None)


@dataclass(slots=True)
class SimActuator:
    host: SimHost
    name: str = "sim"
    knobs: frozenset[Knob] = frozenset({Knob.PLACEMENT, Knob.CPU_CAP, Knob.MEMORY})

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        guest = find(self.host, guest_uuid)
        if knob is Knob.PLACEMENT:
            return guest.cpus
        return guest.quota if knob is Knob.CPU_CAP else guest.shares

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        guest = find(self.host, guest_uuid)
        if knob is Knob.PLACEMENT:
            self._place(guest, cast(Cpus, value))
        elif knob is Knob.CPU_CAP:
            self.host.limit(guest, cast(Quota, value))
        elif knob is Knob.MEMORY:
            self._send(guest, cast(Shares, value))
        else:
            raise ApplyFailed(f"a modelled host has no {knob.value} to turn")

    def _place(self, guest: SimGuest, cpus: Cpus) -> None:
        if not all(cpus) or not all_cpus(cpus) <= self.host.machine.topology.cpus:
            raise ApplyFailed(f"CPUs {sorted(all_cpus(cpus))} are not all CPUs of this host")
        self.host.place(guest, cpus)

    def _send(self, guest: SimGuest, to: Shares) -> None:
        whole = sum(guest.memory_kib.values())
        for node, share in to:
            new = share * whole - guest.memory_kib.get(node, 0.0)
            if new > self.host.free_kib(node):
                raise ApplyFailed(f"node {node} has no room for {int(new)} KiB")
        self.host.send(guest, to)

    def restore(self, guest_uuid: str, held: Held) -> None:
        self.apply(guest_uuid, held.knob, held.original)

    def survey(self, guests: tuple[Guest, ...], now_s: float) -> tuple[Guest, ...]:
        """They say where their memory lies as they are read."""
        return guests

    def moves(self) -> Mapping[str, MemoryMove]:
        moves = {uuid: _memory_move(uuid, move, True) for uuid, move in self.host.ended.items()}
        self.host.ended.clear()
        under_way = {
            guest.uuid: _memory_move(guest.uuid, guest.move, False)
            for guest in self.host.guests.values()
            if guest.move
        }
        return {**moves, **under_way}

    def set_copy_rates(self, kib_per_s: Mapping[str, float]) -> None:
        for guest in self.host.guests.values():
            if guest.move:
                guest.move.most_kib_per_s = kib_per_s.get(guest.uuid, math.inf)

    def abort(self, guest_uuid: str, why: str) -> None:
        self.host.stop(find(self.host, guest_uuid))

    def close(self) -> None:
        """Nothing is held."""


def _memory_move(uuid: str, move: Move, is_over: bool) -> MemoryMove:
    return MemoryMove(
        guest_uuid=uuid,
        to=move.to,
        moved_kib=int(move.whole_kib - move.left_kib),
        left_kib=int(move.left_kib),
        is_over=is_over,
    )


class SimDrivers(NamedTuple):
    """One host as a policy has it."""

    guests: SimGuests
    counters: SimCounters
    journal: SimJournal
    actuator: SimActuator
    calibrated: Limits
    """What a calibration of this host found (`calibration`), never what the model computes with."""

    def limits(self) -> Limits:
        return self.calibrated

    def latency_reports(self) -> Mapping[str, LatencyReport]:
        """No application of these mixes has a latency to report."""
        return {}

    def actuators(self) -> Mapping[Knob, Actuator]:
        return dict.fromkeys(self.actuator.knobs, self.actuator)


def turn(drivers: SimDrivers, guest_uuid: str, knob: Knob, value: Value) -> bool:
    """Whether the host did it: it may have no room, no such knob, or bind the guest elsewhere."""
    try:
        drivers.actuator.apply(guest_uuid, knob, value)
    except ApplyFailed:
        return False
    return True


def sim_drivers_of(host: SimHost, calibrated: Limits = NO_LIMITS) -> SimDrivers:
    return SimDrivers(
        SimGuests(host), SimCounters(host), SimJournal(host), SimActuator(host), calibrated
    )
