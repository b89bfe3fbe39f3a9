# SPDX-License-Identifier: Apache-2.0
"""A host in memory: the second implementation of guests, journal and actuator, for loop tests.

It passes the contract suites of the real drivers. Tests change the host (`boot`, `reboot` ...)
and then look at what it now is, not at which method was called. Counters: `counters_fake.py`.
"""

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nova_vp.core.model import Applied, Guest, LlcDomain, Topology
from vp_agent.drivers.base import ApplyFailed, GuestGone, HostUnavailable, VcpuThreads
from vp_agent.drivers.cpuset import format_cpus

TWO_DOMAINS = Topology(
    domains=(
        LlcDomain(id=0, node=0, cpus=frozenset({0, 1, 2, 3})),
        LlcDomain(id=1, node=1, cpus=frozenset({4, 5, 6, 7})),
    )
)


@dataclass(slots=True)
class FakeGuest:
    """What stands on the host: the guest and all that goes with it."""

    guest: Guest
    journal: Applied | None = None
    refuses: str = ""
    """Why changes of this guest fail; empty: they do not."""


@dataclass(slots=True)
class FakeHost:
    topology: Topology = TWO_DOMAINS
    is_up: bool = True
    guests: dict[str, FakeGuest] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    """UUIDs of servers that live here and do not run."""
    _starts: int = 0

    def boot(self, guest: Guest | None = None, **about: object) -> str:
        """A new guest, floating over its bound; `about` overrides fields of Guest."""
        fresh = replace(guest or self._a_guest(), generation=self._next_generation())
        # The overrides are checked by Guest's own constructor, which mypy cannot see through.
        fresh = replace(fresh, **about)  # type: ignore[arg-type]
        self.guests[fresh.uuid] = FakeGuest(replace(fresh, placement=fresh.allowed_cpus))
        return fresh.uuid

    def end(self, uuid: str) -> None:
        """It stops, and stays defined here."""
        del self.guests[uuid]
        self.stopped.add(uuid)

    def reboot(self, uuid: str) -> None:
        """As Nova's: another QEMU from the persistent XML, so no journal and no placement."""
        old = self.guests[uuid]
        guest = replace(
            old.guest, generation=self._next_generation(), placement=old.guest.allowed_cpus
        )
        self.guests[uuid] = FakeGuest(guest, refuses=old.refuses)

    def change(self, uuid: str, **about: object) -> None:
        """Somebody else changed the guest: its placement, whether it runs ..."""
        entry = self.guests[uuid]
        entry.guest = replace(entry.guest, **about)  # type: ignore[arg-type]

    def find(self, uuid: str) -> FakeGuest:
        self.check()
        if uuid not in self.guests:
            raise GuestGone(f"guest {uuid} is not running any more")
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

    def placement(self, guest_uuid: str) -> frozenset[int]:
        return self.host.find(guest_uuid).guest.placement

    def place(self, guest_uuid: str, cpus: frozenset[int]) -> None:
        entry = self.host.find(guest_uuid)
        _check_refusal(entry)
        if not cpus or not cpus <= entry.guest.allowed_cpus:
            raise ApplyFailed(f"CPUs {format_cpus(cpus)} are outside the guest's bound")
        entry.guest = replace(entry.guest, placement=cpus)

    def restore(self, applied: Applied) -> None:
        entry = self.host.find(applied.guest_uuid)
        bound = entry.guest.allowed_cpus
        self.place(applied.guest_uuid, (applied.original_cpus & bound) or bound)


def _check_refusal(entry: FakeGuest) -> None:
    if entry.refuses:
        raise ApplyFailed(entry.refuses)
