# SPDX-License-Identifier: Apache-2.0
"""The guests of this host as core values, from libvirt's view of them and the kernel's.

What libvirt says comes from `Domains`; where the vCPU threads may run is read back from the kernel
in every tick, since that is what truly holds, whoever set it.
"""

from collections.abc import Mapping

from nova_vp.core.types.cpu_time import CpuTimes, HostCpuTimes
from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.knob import Cpus, Knob, Quota, all_cpus
from nova_vp.core.types.topology import Topology
from vp_agent.drivers.actuator_common import together
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.cpu_times import CpuTimesReader, HostCpuReader
from vp_agent.drivers.domain_xml import Obstacle
from vp_agent.drivers.domains import Domain, Domains, Running
from vp_agent.drivers.emulator_weight import emulator_reading
from vp_agent.drivers.nics import Nic
from vp_agent.drivers.scope_weight import weight_reading
from vp_agent.drivers.vcpu_quota import quota_reading
from vp_agent.drivers.vcpu_threads import read_affinity

_MIGRATING = Obstacle(Unmanaged.MIGRATING, "a migration or another libvirt job is under way")
_UNEVEN = Obstacle(
    Unmanaged.FOREIGN_CHANGE,
    "its vCPUs are pinned to different CPUs, and not by nova-vp; pin them alike with `virsh "
    "vcpupin`, then nova-vp manages the server again",
)


class LibvirtGuests:
    def __init__(self, domains: Domains, *, reads_cpu_times: bool = True) -> None:
        self._domains = domains
        self._reads_cpu_times = reads_cpu_times
        self._threads: tuple[VcpuThreads, ...] = ()
        self._seen: tuple[Domain, ...] = ()
        self._quotas = quota_reading()
        self._weights = weight_reading()
        self._emulator_weights = emulator_reading()
        self._cpu_times = CpuTimesReader()
        self._readings = (self._quotas, self._weights, self._emulator_weights, self._cpu_times)
        self._host_cpu = HostCpuReader()

    def topology(self) -> Topology:
        return self._domains.topology()

    def read(self) -> tuple[Guest, ...]:
        running = self._domains.refresh()
        guests = tuple(guest for seen in running if (guest := self._read_guest(seen)) is not None)
        self._seen = tuple(seen.domain for seen in running)
        for reading in self._readings:
            reading.forget_others(guest.uuid for guest in guests)
        return guests

    def stopped(self) -> frozenset[str]:
        """UUIDs of servers that live on this host but did not run at the last `read`."""
        return self._domains.stopped()

    def host_name(self) -> str:
        return self._domains.host_name()

    def threads(self) -> tuple[VcpuThreads, ...]:
        return tuple(domain.threads for domain in self._seen)

    def nics(self) -> Mapping[str, tuple[Nic, ...]]:
        """Network interfaces of the guests of the last `read`, by UUID. From any thread."""
        return {one.description.uuid: one.description.nics for one in self._seen}

    def host_cpu(self) -> HostCpuTimes | None:
        return self._host_cpu.read()

    def close(self) -> None:
        for reading in (*self._readings, self._host_cpu):
            reading.close()
        self._domains.connection.close()

    def _read_guest(self, seen: Running) -> Guest | None:
        """None if it ended while we looked."""
        domain = seen.domain
        about = domain.description
        try:
            affinities = read_affinity(domain.tids)
            unwritten = self._domains.unwritten.get(about.uuid, ())
            quota = self._quotas.of(domain, unwritten)
            cpu_weight = self._weights.of(domain, unwritten)
            emulator_weight = self._emulator_weights.of(domain, unwritten)
        except ProcessLookupError:
            self._domains.forget(about.uuid)
            return None
        cpus = together(affinities)
        obstacle = about.obstacle
        if obstacle is None and seen.is_migrating:
            obstacle = _MIGRATING
        # Whatever we do is done between two reads.
        if obstacle is None and len(cpus) > 1 and not _is_ours(domain, cpus):
            obstacle = _UNEVEN
        return domain.guest._replace(
            placement=all_cpus(cpus),
            vcpu_placement=cpus if len(cpus) > 1 else (),
            quota=quota,
            cpu_weight=cpu_weight,
            emulator_weight=emulator_weight,
            cpu_time_ns=seen.cpu_time_ns,
            cpu_times=self._times_of(domain, quota),
            is_running=seen.is_running,
            unmanaged=obstacle.reason if obstacle else None,
            unmanaged_detail=obstacle.detail if obstacle else "",
        )

    def _times_of(self, domain: Domain, quota: Quota) -> CpuTimes | None:
        if not self._reads_cpu_times:
            return None
        return self._cpu_times.of(domain.threads, is_limited=quota.quota_us >= 0)


def _is_ours(domain: Domain, cpus: Cpus) -> bool:
    held = domain.applied.of(Knob.PLACEMENT) if domain.applied else None
    return held is not None and cpus in (held.value, held.original)
