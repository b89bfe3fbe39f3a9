# SPDX-License-Identifier: Apache-2.0
"""A host in memory: the second implementation of guests, journal and actuator, for loop tests.

It passes the contract suites of the real drivers. Tests change the host (`boot`, `reboot` ...)
and then look at what it now is, not at which method was called. Counters: `counters_fake.py`.
"""

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from nova_vp.core.types.cpu_time import HostCpuTimes
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    SETTABLE_CPU_WEIGHTS,
    WEIGHT_RANGES,
    Applied,
    Cpus,
    CpuWeight,
    EmulatorWeight,
    Held,
    Knob,
    MemorySize,
    Quota,
    Value,
    WeightUnit,
    all_cpus,
)
from nova_vp.core.types.topology import LlcDomain, Topology
from nova_vp.cpuset import format_cpus
from vp_agent.drivers.base import ApplyFailed, GuestGone, HostUnavailable, VcpuThreads

TWO_DOMAINS = Topology(
    domains=(
        LlcDomain(id=0, node=0, cpus=frozenset({0, 1, 2, 3})),
        LlcDomain(id=1, node=1, cpus=frozenset({4, 5, 6, 7})),
    )
)


UNIT = WeightUnit.WEIGHT


@dataclass(slots=True)
class FakeGuest:
    """What stands on the host: the guest and all that goes with it."""

    guest: Guest
    given: Quota
    """By Nova: what a new QEMU starts with, and what no cap may loosen."""
    given_weight: CpuWeight
    """By Nova: what a new QEMU starts with."""
    emulator: frozenset[int]
    """Where the threads besides the vCPUs may run."""
    journal: Applied | None = None
    refuses: str = ""
    """Why changes of this guest fail; empty: they do not."""
    memory_used_kib: int | None = 0
    """As its balloon driver says; None: it has no such driver."""
    keeps_its_size: bool = False
    """Its balloon driver does not answer."""


@dataclass(slots=True)
class FakeHost:
    topology: Topology = TWO_DOMAINS
    is_up: bool = True
    guests: dict[str, FakeGuest] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    """UUIDs of servers that live here and do not run."""
    host_cpu: HostCpuTimes | None = None
    _starts: int = 0

    def boot(self, guest: Guest | None = None, **about: object) -> str:
        """A new guest, floating over its bound; `about` overrides fields of Guest."""
        fresh = (guest or self._a_guest())._replace(generation=self._next_generation())
        # The overrides are checked by Guest's own constructor, which mypy cannot see through.
        fresh = fresh._replace(**about)  # type: ignore[arg-type]
        self._start(fresh, fresh.quota, fresh.cpu_weight)
        return fresh.uuid

    def end(self, uuid: str) -> None:
        """It stops, and stays defined here."""
        del self.guests[uuid]
        self.stopped.add(uuid)

    def reboot(self, uuid: str) -> None:
        """As Nova's: another QEMU from the persistent XML, so no journal and no placement."""
        old = self.guests[uuid]
        fresh = old.guest._replace(generation=self._next_generation())
        self._start(fresh, old.given, old.given_weight)
        self.guests[uuid].refuses = old.refuses

    def _start(self, guest: Guest, given: Quota, weight: CpuWeight) -> None:
        bound = guest.allowed_cpus
        fresh = guest._replace(
            placement=bound,
            vcpu_placement=(),
            quota=given,
            cpu_weight=weight,
            emulator_weight=EmulatorWeight(WEIGHT_RANGES[UNIT].default, UNIT),
            memory_size=MemorySize(guest.memory_kib),
        )
        self.guests[guest.uuid] = FakeGuest(fresh, given, weight, emulator=bound)

    def change(self, uuid: str, **about: object) -> None:
        """Somebody else changed the guest: its placement, whether it runs ..."""
        entry = self.guests[uuid]
        entry.guest = entry.guest._replace(**about)  # type: ignore[arg-type]

    def find(self, uuid: str) -> FakeGuest:
        self.check()
        if uuid not in self.guests:
            raise GuestGone(f"server {uuid} is not running any more")
        return self.guests[uuid]

    def check(self) -> None:
        if not self.is_up:
            raise HostUnavailable("the host is down: set `is_up`")

    def _next_generation(self) -> str:
        self._starts += 1
        return f"start-{self._starts}"

    def _a_guest(self) -> Guest:
        number = self._starts + 1
        cpus = self.topology.cpus
        return Guest(
            uuid=str(uuids.UUID(int=number)),
            domain_name=f"instance-{number:08x}",
            name=f"server-{number}",
            project_id="0" * 32,
            flavor="m1.small",
            vcpus=2,
            memory_kib=65536,
            allowed_cpus=cpus,
            placement=cpus,
            cpu_time_ns=0,
            generation="",
            cpu_weight=CpuWeight(WEIGHT_RANGES[UNIT].default, UNIT),
        )


@dataclass(frozen=True, slots=True)
class FakeGuests:
    host: FakeHost

    def topology(self) -> Topology:
        self.host.check()
        return self.host.topology

    def read(self) -> tuple[Guest, ...]:
        self.host.check()
        return tuple(entry.guest for entry in self.host.guests.values())

    def stopped(self) -> frozenset[str]:
        return frozenset(self.host.stopped)

    def host_name(self) -> str:
        return "fake.example.org"

    def threads(self) -> tuple[VcpuThreads, ...]:
        return tuple(
            VcpuThreads(
                guest_uuid=guest.uuid,
                domain_name=guest.domain_name,
                pid=number,
                tids=tuple(range(number, number + guest.vcpus)),
                generation=guest.generation,
            )
            for number, guest in enumerate((e.guest for e in self.host.guests.values()), 1000)
        )

    def host_cpu(self) -> HostCpuTimes | None:
        return self.host.host_cpu

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class FakeJournal:
    host: FakeHost

    def read(self) -> Mapping[str, Applied]:
        self.host.check()
        return {
            uuid: entry.journal
            for uuid, entry in self.host.guests.items()
            if entry.journal is not None
        }

    def write(self, applied: Applied) -> None:
        entry = self.host.find(applied.guest_uuid)
        _check_refusal(entry)
        entry.journal = applied

    def drop(self, guest_uuid: str) -> None:
        self.host.check()
        if guest_uuid in self.host.guests:
            self.host.guests[guest_uuid].journal = None


@dataclass(frozen=True, slots=True)
class FakeActuator:
    host: FakeHost
    name: str = "fake"
    knobs: frozenset[Knob] = frozenset({Knob.PLACEMENT, Knob.CPU_CAP, Knob.CPU_WEIGHT})

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        guest = self.host.find(guest_uuid).guest
        if knob is Knob.CPU_CAP:
            return guest.quota
        return guest.cpu_weight if knob is Knob.CPU_WEIGHT else guest.cpus

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        entry = self.host.find(guest_uuid)
        _check_refusal(entry)
        if knob is Knob.CPU_CAP:
            _check_quota(entry, cast(Quota, value))
            entry.guest = entry.guest._replace(quota=cast(Quota, value))
        elif knob is Knob.CPU_WEIGHT:
            _check_weight(entry, cast(CpuWeight, value))
            entry.guest = entry.guest._replace(cpu_weight=cast(CpuWeight, value))
        else:
            cpus = cast(Cpus, value)
            _check_cpus(entry, cpus)
            _place(entry, cpus, all_cpus(cpus))

    def restore(self, guest_uuid: str, held: Held) -> None:
        entry = self.host.find(guest_uuid)
        _check_refusal(entry)
        if held.knob is Knob.CPU_CAP:
            entry.guest = entry.guest._replace(quota=cast(Quota, held.original))
        elif held.knob is Knob.CPU_WEIGHT:
            _restore_weight(entry, cast(CpuWeight, held.original))
        else:
            bound = entry.guest.allowed_cpus
            cpus = tuple(one & bound for one in cast(Cpus, held.original))
            _place(entry, cpus if all(cpus) else (bound,), bound)


def _place(entry: FakeGuest, cpus: Cpus, emulator: frozenset[int]) -> None:
    alike = len(set(cpus)) == 1
    entry.guest = entry.guest._replace(
        placement=all_cpus(cpus), vcpu_placement=() if alike else cpus
    )
    entry.emulator = emulator


def _check_cpus(entry: FakeGuest, cpus: Cpus) -> None:
    guest = entry.guest
    outside = any(not one or not one <= guest.allowed_cpus for one in cpus)
    if outside or len(cpus) not in (1, guest.vcpus):
        listed = "; ".join(format_cpus(one) for one in cpus)
        raise ApplyFailed(f"CPUs {listed} are outside the guest's bound, or too few or many sets")


def _check_quota(entry: FakeGuest, quota: Quota) -> None:
    before = entry.journal.of(Knob.CPU_CAP) if entry.journal else None
    bound = cast(Quota, before.original) if before else entry.guest.quota
    is_looser = 0 < bound.quota_us * quota.period_us < quota.quota_us * bound.period_us
    if quota.quota_us < 1000 or quota.period_us < 1000 or is_looser:
        raise ApplyFailed(f"{quota} is too little for a CPU quota, or more than the guest's own")


def _check_weight(entry: FakeGuest, weight: CpuWeight) -> None:
    is_one = weight.unit is UNIT and SETTABLE_CPU_WEIGHTS[UNIT].takes(weight.number)
    if entry.guest.cpu_weight == NO_CPU_WEIGHT or not is_one:
        raise ApplyFailed(f"{weight} is no CPU weight of this host")
    if entry.guest.cpu_weight.number < SETTABLE_CPU_WEIGHTS[UNIT].least:
        raise ApplyFailed(f"{entry.guest.cpu_weight} could not be put back")


def _restore_weight(entry: FakeGuest, original: CpuWeight) -> None:
    if entry.guest.cpu_weight == NO_CPU_WEIGHT:
        return
    is_known = original != NO_CPU_WEIGHT and original.unit is UNIT
    weight = original if is_known else entry.given_weight
    entry.guest = entry.guest._replace(cpu_weight=weight)


def _check_refusal(entry: FakeGuest) -> None:
    if entry.refuses:
        raise ApplyFailed(entry.refuses)
