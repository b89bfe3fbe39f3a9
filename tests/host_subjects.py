# SPDX-License-Identifier: Apache-2.0
"""Subjects of the contract suites of guests, journal and actuators: real libvirt, and the fake.

Each is one host that a test can act on as an operator would, and an agent's drivers on it. A new
agent on the same host (`restart_agent`) shares nothing with the old one but the host.
"""

import os
from pathlib import Path
from typing import Any, Protocol

import libvirt

from nova_vp.core.types.knob import (
    NO_QUOTA,
    Applied,
    Cpus,
    CpuWeight,
    EmulatorWeight,
    Held,
    Knob,
    Quota,
    WeightUnit,
    all_cpus,
)
from tests.domain_xml import a_domain, nova_metadata
from tests.libvirt_host import LibvirtHost
from vp_agent.drivers import actuator_kernel, emulator_weight
from vp_agent.drivers.actuator_libvirt import LibvirtActuator
from vp_agent.drivers.base import Actuator, GuestsDriver, Journal
from vp_agent.drivers.cgroups import cpu_group, read_quota
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.fake import UNIT, FakeActuator, FakeGuests, FakeHost, FakeJournal
from vp_agent.drivers.fake_emulator import FakeEmulatorWeights
from vp_agent.drivers.journal import LibvirtJournal
from vp_agent.drivers.libvirt_guests import LibvirtGuests
from vp_agent.drivers.vcpu_threads import read_emulator_affinity, read_tids

IO_THREAD = "<iothreads>1</iothreads>"
"""Nova 33 and later gives every guest one."""


class Subject(Protocol):
    guests: GuestsDriver
    journal: Journal
    actuator: Actuator
    emulator: Actuator
    """Of the threads besides the vCPUs."""
    all_cpus: frozenset[int]

    def boot(
        self,
        cpus: frozenset[int] | None = None,
        vcpus: int = 2,
        quota: Quota = NO_QUOTA,
        shares: int | None = None,
    ) -> str: ...
    def end(self, uuid: str) -> None: ...
    def soft_reboot(self, uuid: str) -> None: ...
    def suspend(self, uuid: str) -> None: ...
    def resume(self, uuid: str) -> None: ...
    def place_by_hand(self, uuid: str, cpus: frozenset[int]) -> None: ...
    def affinities(self, uuid: str) -> set[frozenset[int]]: ...
    def vcpu_affinities(self, uuid: str) -> Cpus: ...
    def emulator_affinity(self, uuid: str) -> frozenset[int]: ...
    def quotas(self, uuid: str) -> set[Quota]: ...
    def cap_by_hand(self, uuid: str, quota: Quota) -> None: ...
    def weight(self, uuid: str) -> CpuWeight: ...
    def weigh_by_hand(self, uuid: str, number: int) -> None: ...
    def emulator_weights(self, uuid: str) -> set[EmulatorWeight]: ...
    def weigh_emulator_by_hand(self, uuid: str, number: int) -> None: ...
    def reload_host(self) -> None: ...
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
        self.emulator: Actuator = emulator_weight.create(self.domains)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def boot(
        self,
        cpus: frozenset[int] | None = None,
        vcpus: int = 2,
        quota: Quota = NO_QUOTA,
        shares: int | None = None,
    ) -> str:
        """A quota and shares stand in the flavor and, by Nova, in the XML."""
        cpuset = ",".join(map(str, sorted(cpus or self.all_cpus)))
        named = {"shares": shares} if shares else {}
        if quota != NO_QUOTA:
            named |= {"quota": quota.quota_us, "period": quota.period_us}
        specs = {f"quota:cpu_{name}": str(value) for name, value in named.items()}
        elements = "".join(f"<{name}>{value}</{name}>" for name, value in named.items())
        body = IO_THREAD + (f"<cputune>{elements}</cputune>" if named else "")
        metadata = nova_metadata(extra_specs=specs)
        return self.boot_xml(vcpus=vcpus, cpuset=cpuset, metadata=metadata, body=body)

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
        return set(self.vcpu_affinities(uuid))

    def vcpu_affinities(self, uuid: str) -> Cpus:
        return tuple(frozenset(os.sched_getaffinity(tid)) for tid in self.tids(uuid))

    def emulator_affinity(self, uuid: str) -> frozenset[int]:
        return read_emulator_affinity(self.host.pid_of_name(self._names[uuid]))

    def quotas(self, uuid: str) -> set[Quota]:
        """As the guest's vCPU threads are limited, by the kernel's own files."""
        return {Quota(*read_quota(cpu_group(tid))) for tid in self.tids(uuid)}

    def cap_by_hand(self, uuid: str, quota: Quota) -> None:
        parameters = {"vcpu_quota": quota.quota_us, "vcpu_period": quota.period_us}
        self.domain(uuid).setSchedulerParametersFlags(parameters, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def weight(self, uuid: str) -> CpuWeight:
        """By the kernel's own file, of the group above those of the vCPUs; under systemd the scope,
        above libvirt's own."""
        path, unit = self._whole_weight_file(uuid)
        return CpuWeight(int(path.read_text()), unit)

    def _whole_weight_file(self, uuid: str) -> tuple[Path, WeightUnit]:
        above = self._above_vcpus(uuid)
        return _weight_file(above.parent if above.name == "libvirt" else above)

    def _above_vcpus(self, uuid: str) -> Path:
        return Path(cpu_group(self.tids(uuid)[0]).path).parent

    def emulator_weights(self, uuid: str) -> set[EmulatorWeight]:
        """By the kernel's own files, of the groups of QEMU's other threads and of its I/O thread,
        if it has one."""
        above = self._above_vcpus(uuid)
        files = [_weight_file(group) for group in (above / "emulator", *above.glob("iothread*"))]
        return {EmulatorWeight(int(path.read_text()), unit) for path, unit in files}

    def weigh_emulator_by_hand(self, uuid: str, number: int) -> None:
        path, _ = _weight_file(self._above_vcpus(uuid) / "emulator")
        path.write_text(str(number))

    def weigh_by_hand(self, uuid: str, number: int) -> None:
        path, _ = self._whole_weight_file(uuid)
        path.write_text(str(number))

    def reload_host(self) -> None:
        self.host.reload()

    def live_xml(self, uuid: str) -> str:
        return self.domain(uuid).XMLDesc()

    def stop_host(self) -> None:
        self.host.stop_libvirtd()

    def start_host(self) -> None:
        self.host.start_libvirtd()
        self._operator = self.host.connect()


def _weight_file(group: Path) -> tuple[Path, WeightUnit]:
    for unit, name in ((WeightUnit.WEIGHT, "cpu.weight"), (WeightUnit.SHARES, "cpu.shares")):
        if (group / name).exists():
            return group / name, unit
    raise AssertionError(f"{group} has no weight")


class FakeSubject:
    def __init__(self) -> None:
        self.host = FakeHost()
        self.all_cpus = self.host.topology.cpus
        self.restart_agent()

    def restart_agent(self) -> None:
        self.guests = FakeGuests(self.host)
        self.journal = FakeJournal(self.host)
        self.actuator = FakeActuator(self.host)
        self.emulator = FakeEmulatorWeights(self.host)

    def close(self) -> None:
        """Nothing is held."""

    def boot(
        self,
        cpus: frozenset[int] | None = None,
        vcpus: int = 2,
        quota: Quota = NO_QUOTA,
        shares: int | None = None,
    ) -> str:
        about = {"cpu_weight": CpuWeight(shares, UNIT)} if shares else {}
        return self.host.boot(allowed_cpus=cpus or self.all_cpus, vcpus=vcpus, quota=quota, **about)

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
        return set(self.vcpu_affinities(uuid))

    def vcpu_affinities(self, uuid: str) -> Cpus:
        guest = self.host.guests[uuid].guest
        return guest.vcpu_placement or guest.cpus * guest.vcpus

    def emulator_affinity(self, uuid: str) -> frozenset[int]:
        return self.host.guests[uuid].emulator

    def quotas(self, uuid: str) -> set[Quota]:
        return {self.host.guests[uuid].guest.quota}

    def cap_by_hand(self, uuid: str, quota: Quota) -> None:
        self.host.change(uuid, quota=quota)

    def weight(self, uuid: str) -> CpuWeight:
        return self.host.guests[uuid].guest.cpu_weight

    def weigh_by_hand(self, uuid: str, number: int) -> None:
        self.host.change(uuid, cpu_weight=CpuWeight(number, UNIT))

    def emulator_weights(self, uuid: str) -> set[EmulatorWeight]:
        return {self.host.guests[uuid].guest.emulator_weight}

    def weigh_emulator_by_hand(self, uuid: str, number: int) -> None:
        self.host.change(uuid, emulator_weight=EmulatorWeight(number, UNIT))

    def reload_host(self) -> None:
        """Nothing here keeps a record of weights."""

    def stop_host(self) -> None:
        self.host.is_up = False

    def start_host(self) -> None:
        self.host.is_up = True


def an_applied(
    uuid: str, cpus: frozenset[int], original: frozenset[int], epoch: int = 7
) -> Applied:
    """What the agent journals before it places a guest onto `cpus`."""
    held = Held(Knob.PLACEMENT, (cpus,), (original,), "mitigation", "mitigation-1")
    return Applied(uuid, epoch, (held,))


def a_cap(uuid: str, quota: Quota, original: Quota = NO_QUOTA, epoch: int = 7) -> Applied:
    """What the agent journals before it caps a guest."""
    held = Held(Knob.CPU_CAP, quota, original, "mitigation", "mitigation-2", until_s=1000.0)
    return Applied(uuid, epoch, (held,))


def a_weight(uuid: str, weight: CpuWeight, original: CpuWeight, epoch: int = 7) -> Applied:
    """What the agent journals before it weighs a guest."""
    held = Held(Knob.CPU_WEIGHT, weight, original, "vp", "vp-3")
    return Applied(uuid, epoch, (held,))


def weigh(actuator: Actuator, uuid: str, weight: CpuWeight) -> None:
    actuator.apply(uuid, Knob.CPU_WEIGHT, weight)


def cap(actuator: Actuator, uuid: str, quota: Quota) -> None:
    actuator.apply(uuid, Knob.CPU_CAP, quota)


def place(actuator: Actuator, uuid: str, cpus: frozenset[int]) -> None:
    actuator.apply(uuid, Knob.PLACEMENT, (cpus,))


def placement(actuator: Actuator, uuid: str) -> frozenset[int]:
    return all_cpus(actuator.read(uuid, Knob.PLACEMENT))


def restore(actuator: Actuator, applied: Applied) -> None:
    for held in applied.held:
        if held.knob in actuator.knobs:
            actuator.restore(applied.guest_uuid, held)
