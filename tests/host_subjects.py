# SPDX-License-Identifier: Apache-2.0
"""Subjects of the contract suites of guests, journal and actuators: real libvirt, and the fake.

Each is one host that a test can act on as an operator would, and an agent's drivers on it. A new
agent on the same host (`restart_agent`) shares nothing with the old one but the host.
"""

import os
from typing import Any, Protocol

import libvirt

from nova_vp.core.model import Applied
from tests.domain_xml import a_domain, nova_metadata
from tests.libvirt_host import LibvirtHost
from vp_agent.drivers import actuator_kernel
from vp_agent.drivers.actuator_libvirt import LibvirtActuator
from vp_agent.drivers.base import Actuator, GuestsDriver, Journal
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.fake import FakeActuator, FakeGuests, FakeHost, FakeJournal
from vp_agent.drivers.journal import LibvirtJournal
from vp_agent.drivers.libvirt_guests import LibvirtGuests
from vp_agent.drivers.vcpu_threads import read_tids


class Subject(Protocol):
    guests: GuestsDriver
    journal: Journal
    actuator: Actuator
    all_cpus: frozenset[int]

    def boot(self, cpus: frozenset[int] | None = None, vcpus: int = 2) -> str: ...
    def end(self, uuid: str) -> None: ...
    def soft_reboot(self, uuid: str) -> None: ...
    def suspend(self, uuid: str) -> None: ...
    def resume(self, uuid: str) -> None: ...
    def place_by_hand(self, uuid: str, cpus: frozenset[int]) -> None: ...
    def affinities(self, uuid: str) -> set[frozenset[int]]: ...
    def stop_host(self) -> None: ...
    def start_host(self) -> None: ...
    def restart_agent(self) -> None: ...
    def close(self) -> None: ...


class LibvirtSubject:
    """A private libvirtd with QEMU guests; `actuator_name` as in [agent] actuator."""

    def __init__(self, host: LibvirtHost, actuator_name: str = "kernel") -> None:
        self.host = host
        self._actuator_name = actuator_name
        self._names: dict[str, str] = {}
        self._operator = host.connect()
        self._connection: Connection | None = None
        self.restart_agent()
        self.all_cpus = self.guests.topology().cpus

    def restart_agent(self) -> None:
        self.close()
        self._connection = Connection(self.host.uri)
        self.domains = Domains(self._connection, self.host.run_directory)
        self.guests = LibvirtGuests(self.domains)
        self.journal = LibvirtJournal(self.domains)
        self.actuator: Actuator = (
            actuator_kernel.create(self.domains)
            if self._actuator_name == "kernel"
            else LibvirtActuator(self.domains)
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def boot(self, cpus: frozenset[int] | None = None, vcpus: int = 2) -> str:
        cpuset = ",".join(map(str, sorted(cpus or self.all_cpus)))
        return self.boot_xml(vcpus=vcpus, cpuset=cpuset, metadata=nova_metadata())

    def boot_xml(self, **about: Any) -> str:
        name = f"instance-{len(self._names) + 1:08x}"
        uuid = self.host.boot(a_domain(name, **about), is_persistent=True).UUIDString()
        self._names[uuid] = name
        return uuid

    def adopt(self, uuid: str) -> None:
        """A guest that arrived by a migration."""
        self._names[uuid] = self.domain(uuid).name()

    def domain(self, uuid: str) -> libvirt.virDomain:
        return self._operator.lookupByUUIDString(uuid)

    def end(self, uuid: str) -> None:
        self.domain(uuid).destroy()

    def soft_reboot(self, uuid: str) -> None:
        """As Nova does: shut down, then created again from the persistent XML."""
        self.domain(uuid).destroy()
        self.domain(uuid).create()

    def suspend(self, uuid: str) -> None:
        self.domain(uuid).suspend()

    def resume(self, uuid: str) -> None:
        self.domain(uuid).resume()

    def tids(self, uuid: str) -> tuple[int, ...]:
        return read_tids(self.host.pid_of_name(self._names[uuid]))

    def place_by_hand(self, uuid: str, cpus: frozenset[int]) -> None:
        for tid in self.tids(uuid):
            os.sched_setaffinity(tid, cpus)

    def affinities(self, uuid: str) -> set[frozenset[int]]:
        return {frozenset(os.sched_getaffinity(tid)) for tid in self.tids(uuid)}

    def live_xml(self, uuid: str) -> str:
        return self.domain(uuid).XMLDesc()

    def stop_host(self) -> None:
        self.host.stop_libvirtd()

    def start_host(self) -> None:
        self.host.start_libvirtd()
        self._operator = self.host.connect()


class FakeSubject:
    def __init__(self) -> None:
        self.host = FakeHost()
        self.all_cpus = self.host.topology.cpus
        self.restart_agent()

    def restart_agent(self) -> None:
        self.guests = FakeGuests(self.host)
        self.journal = FakeJournal(self.host)
        self.actuator = FakeActuator(self.host)

    def close(self) -> None:
        """Nothing is held."""

    def boot(self, cpus: frozenset[int] | None = None, vcpus: int = 2) -> str:
        return self.host.boot(allowed_cpus=cpus or self.all_cpus, vcpus=vcpus)

    def end(self, uuid: str) -> None:
        self.host.end(uuid)

    def soft_reboot(self, uuid: str) -> None:
        self.host.reboot(uuid)

    def suspend(self, uuid: str) -> None:
        self.host.change(uuid, is_running=False)

    def resume(self, uuid: str) -> None:
        self.host.change(uuid, is_running=True)

    def place_by_hand(self, uuid: str, cpus: frozenset[int]) -> None:
        self.host.change(uuid, placement=cpus)

    def affinities(self, uuid: str) -> set[frozenset[int]]:
        return {self.host.guests[uuid].guest.placement}

    def stop_host(self) -> None:
        self.host.is_up = False

    def start_host(self) -> None:
        self.host.is_up = True


def an_applied(
    uuid: str, cpus: frozenset[int], original: frozenset[int], epoch: int = 7
) -> Applied:
    """What the agent journals before it places a guest onto `cpus`."""
    return Applied(
        guest_uuid=uuid,
        cpus=cpus,
        original_cpus=original,
        controller="mitigation",
        action_id="mitigation-1",
        epoch=epoch,
    )
