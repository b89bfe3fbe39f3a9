# SPDX-License-Identifier: Apache-2.0
"""What the counter contract is run against: each source beside the world it reads.

A subject lets guests come, work, reboot and go in its world; the suite looks at the driver alone.
What a source cannot see by its nature is a class attribute, so that the suite says it out loud.
"""

import itertools
import uuid as uuids
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Protocol

import libvirt

from nova_vp.core.types.sample import Reading
from tests.counters_worker import CountersProcess
from tests.descriptors import own_fds
from tests.domain_xml import a_domain
from tests.libvirt_host import LibvirtHost
from tests.perf_shim import PerfShim
from tests.vpmu_file import VpmuFile
from tests.waiting import wait_until
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.counters import CounterSettings
from vp_agent.drivers.counters_fake import FakeCounters, VcpuCounts
from vp_agent.drivers.counters_vpmu import VpmuCounters

_numbers = itertools.count(1)
# Above /proc/sys/kernel/pid_max of any machine: no such thread exists outside the shim's table.
_tids = itertools.count(2**30)


class Source(Protocol):
    """A driver, here or in a process of its own."""

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]: ...
    def problems(self) -> Mapping[str, str]: ...
    def close(self) -> None: ...


class Subject(Protocol):
    sees_remote: ClassVar[bool]
    sees_multiplexing: ClassVar[bool]
    """False: the source never multiplexes, or, with libvirt, does not tell."""
    vcpus_left_of_two: ClassVar[int]
    """vcpus_read once a guest of two vCPUs lacks one; libvirt loses all vCPUs at once."""
    tells_vcpus_apart: ClassVar[bool]
    driver: Source

    def add_guest(self, vcpus: int = 2) -> VcpuThreads: ...
    def work(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None: ...
    def work_half_seen(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        """The source ran for half of the time; it must make up for the rest."""

    def add_guest_lacking_a_vcpu(self) -> VcpuThreads: ...
    def reboot(self, guest: VcpuThreads) -> VcpuThreads: ...
    def remove(self, guest: VcpuThreads) -> None: ...
    def fds(self) -> int: ...
    def stop(self) -> None: ...


def new_threads(vcpus: int, was: VcpuThreads | None = None, pid: int = 0) -> VcpuThreads:
    number = next(_numbers)
    return VcpuThreads(
        guest_uuid=was.guest_uuid if was else str(uuids.uuid4()),
        domain_name=was.domain_name if was else f"instance-{number:08x}",
        pid=pid or next(_tids),
        tids=tuple(next(_tids) for _ in range(vcpus)),
        generation=str(number),
    )


class FakeSubject:
    sees_remote = True
    sees_multiplexing = True
    vcpus_left_of_two = 1
    tells_vcpus_apart = True

    def __init__(self) -> None:
        self.driver = FakeCounters()

    def add_guest(self, vcpus: int = 2) -> VcpuThreads:
        guest = new_threads(vcpus)
        self.driver.start(guest.guest_uuid, vcpus, guest.generation)
        return guest

    def work(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        self.driver.add(guest.guest_uuid, counts, vcpu)

    def work_half_seen(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        self.work(guest, vcpu, counts)
        self.driver.degrade(guest.guest_uuid, len(guest.tids), 0.5, "fake: multiplexed")

    def add_guest_lacking_a_vcpu(self) -> VcpuThreads:
        guest = self.add_guest(2)
        self.driver.degrade(guest.guest_uuid, 1, 1.0, "fake: counts 1 of 2 vCPUs")
        return guest

    def reboot(self, guest: VcpuThreads) -> VcpuThreads:
        again = new_threads(len(guest.tids), guest)
        self.driver.start(again.guest_uuid, len(again.tids), again.generation)
        return again

    def remove(self, guest: VcpuThreads) -> None:
        self.driver.remove(guest.guest_uuid)

    def fds(self) -> int:
        return 0

    def stop(self) -> None: ...


class VpmuSubject:
    sees_remote = True
    sees_multiplexing = False
    vcpus_left_of_two = 1
    tells_vcpus_apart = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, VpmuFile] = {}
        settings = CounterSettings(connect=lambda: None, vpmu_directory=folder)
        self.driver = VpmuCounters(settings)

    def add_guest(self, vcpus: int = 2) -> VcpuThreads:
        return self._start(new_threads(vcpus), vcpus)

    def work(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        self._files[guest.guest_uuid].add(vcpu, counts)

    def work_half_seen(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        self.work(guest, vcpu, counts)

    def add_guest_lacking_a_vcpu(self) -> VcpuThreads:
        return self._start(new_threads(2), 1)

    def reboot(self, guest: VcpuThreads) -> VcpuThreads:
        return self._start(new_threads(len(guest.tids), guest), len(guest.tids))

    def remove(self, guest: VcpuThreads) -> None:
        self._files.pop(guest.guest_uuid).die()

    def fds(self) -> int:
        return own_fds(self._folder)

    def stop(self) -> None:
        self.driver.close()
        for file in self._files.values():
            file.die()

    def _start(self, guest: VcpuThreads, vcpus: int) -> VcpuThreads:
        path = self._folder / f"vm.{guest.domain_name}"
        was = self._files.get(guest.guest_uuid)
        if was is not None:
            was.die()
        self._files[guest.guest_uuid] = VpmuFile(path, vcpus, started_ns=next(_numbers))
        return guest


class PerfSubject:
    sees_remote = True
    sees_multiplexing = True
    vcpus_left_of_two = 1
    tells_vcpus_apart = True

    def __init__(self, shim: PerfShim) -> None:
        self.shim = shim
        shim.clear()
        self._process = CountersProcess(shim.env)
        self._process.open("perf")
        self.driver = self._process

    def add_guest(self, vcpus: int = 2) -> VcpuThreads:
        return self._start(new_threads(vcpus))

    def work(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        self.shim.count(guest.tids[vcpu], counts)

    def work_half_seen(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        self.shim.count(guest.tids[vcpu], counts, enabled_ns=1000, running_ns=500)

    def add_guest_lacking_a_vcpu(self) -> VcpuThreads:
        guest = new_threads(2)
        self.shim.add_thread(guest.tids[0])
        return guest

    def reboot(self, guest: VcpuThreads) -> VcpuThreads:
        return self._start(new_threads(len(guest.tids), guest))

    def remove(self, guest: VcpuThreads) -> None:
        for tid in guest.tids:
            self.shim.remove_thread(tid)

    def fds(self) -> int:
        return self._process.fds()

    def limit_fds(self, count: int) -> None:
        self._process.limit_fds(count)

    def stop(self) -> None:
        self._process.stop()

    def _start(self, guest: VcpuThreads) -> VcpuThreads:
        for tid in guest.tids:
            self.shim.add_thread(tid)
        return guest


class LibvirtSubject:
    """Real domains of a libvirtd with the PMU preloaded; libvirt counts QEMU's whole process."""

    sees_remote = False
    sees_multiplexing = False
    vcpus_left_of_two = 0
    tells_vcpus_apart = False

    def __init__(self, shim: PerfShim, host: LibvirtHost) -> None:
        self.shim, self.host = shim, host
        shim.clear()
        self._process = CountersProcess(shim.env)
        self._process.open("libvirt", host.uri)
        self.driver = self._process

    def add_guest(self, vcpus: int = 2) -> VcpuThreads:
        return self.start(new_threads(vcpus))

    def work(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        self.shim.count(guest.pid, counts)

    def work_half_seen(self, guest: VcpuThreads, vcpu: int, counts: VcpuCounts) -> None:
        self.work(guest, vcpu, counts)

    def add_guest_lacking_a_vcpu(self) -> VcpuThreads:
        """libvirtd opens the events of a running guest anew, on QEMU's main thread: the real kernel
        then keeps its task_clock, our driver's witness, without the vCPU threads."""
        guest = self.add_guest(2)
        self.restart_libvirtd()
        wait_until(lambda: self._perf_stats(guest), "libvirtd counts again")
        return guest

    def restart_libvirtd(self) -> None:
        self.host.stop_libvirtd()
        self.host.start_libvirtd()

    def wait_until_known(self, guest: VcpuThreads) -> None:
        """A restarted libvirtd answers before it has found its guests again."""
        wait_until(lambda: self._perf_stats(guest) is not None, "libvirtd knows the guest")

    def _perf_stats(self, guest: VcpuThreads) -> Mapping[str, int] | None:
        connection = self.host.connect()
        answer = connection.getAllDomainStats(
            libvirt.VIR_DOMAIN_STATS_PERF, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
        )
        found = {domain.UUIDString(): stats for domain, stats in answer}
        connection.close()
        return found.get(guest.guest_uuid)

    def reboot(self, guest: VcpuThreads) -> VcpuThreads:
        self.remove(guest)
        return self.start(new_threads(len(guest.tids), guest))

    def remove(self, guest: VcpuThreads) -> None:
        connection = self.host.connect()
        connection.lookupByUUIDString(guest.guest_uuid).destroy()
        connection.close()

    def fds(self) -> int:
        return self._process.fds()

    def stop(self) -> None:
        self._process.stop()
        self.shim.clear()
        self.host.destroy_all()

    def start(self, guest: VcpuThreads, events: Iterable[str] = ()) -> VcpuThreads:
        body = "".join(f"<event name='{event}' enabled='yes'/>" for event in events or ALL_EVENTS)
        xml = a_domain(
            guest.domain_name,
            uuid=guest.guest_uuid,
            vcpus=len(guest.tids),
            body=f"<perf>{body}</perf>",
        )
        pid = self.host.pid_of(self.host.boot(xml))
        self.shim.add_thread(pid)
        return VcpuThreads(
            guest.guest_uuid, guest.domain_name, pid, guest.tids, f"{pid}-{guest.generation}"
        )


ALL_EVENTS = ("cpu_cycles", "instructions", "cache_references", "cache_misses", "task_clock")
