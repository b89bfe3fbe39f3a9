# SPDX-License-Identifier: Apache-2.0
"""The guests of this host as core values, from libvirt's view of them and the kernel's.

What libvirt says comes from `Domains`; where the vCPU threads may run is read back from the kernel
in every tick, since that is what truly holds, whoever set it.
"""

from nova_vp.core.model import Guest, Topology, Unmanaged
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.description import Obstacle
from vp_agent.drivers.domains import Domain, Domains, Running
from vp_agent.drivers.vcpu_threads import read_affinity

_MIGRATING = Obstacle(Unmanaged.MIGRATING, "a migration or another libvirt job is under way")
_UNEVEN = Obstacle(
    Unmanaged.FOREIGN_CHANGE,
    "its vCPU threads are on different CPUs and we did not do that; `virsh vcpupin` them alike to "
    "hand it back",
)


class LibvirtGuests:
    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._threads: tuple[VcpuThreads, ...] = ()
        self._seen: tuple[Domain, ...] = ()

    def topology(self) -> Topology:
        return self._domains.topology()

    def read(self) -> tuple[Guest, ...]:
        running = self._domains.refresh()
        guests = tuple(guest for seen in running if (guest := self._read_guest(seen)) is not None)
        self._seen = tuple(seen.domain for seen in running)
        return guests

    def stopped(self) -> frozenset[str]:
        """UUIDs of servers that live on this host but did not run at the last `read`."""
        return self._domains.stopped()

    def threads(self) -> tuple[VcpuThreads, ...]:
        return tuple(
            VcpuThreads(
                guest_uuid=domain.description.uuid,
                domain_name=domain.description.domain_name,
                pid=domain.process.pid,
                tids=domain.tids,
                generation=domain.generation,
            )
            for domain in self._seen
        )

    def close(self) -> None:
        self._domains.connection.close()

    def _read_guest(self, seen: Running) -> Guest | None:
        """None if it ended while we looked."""
        domain = seen.domain
        about = domain.description
        try:
            affinities = read_affinity(domain.tids)
        except ProcessLookupError:
            self._domains.forget(about.uuid)
            return None
        is_even = affinities.count(affinities[0]) == len(affinities)
        obstacle = about.obstacle
        if obstacle is None and seen.is_migrating:
            obstacle = _MIGRATING
        # Ours are placed alike, and all between two reads.
        if obstacle is None and not is_even:
            obstacle = _UNEVEN
        return Guest(
            uuid=about.uuid,
            domain_name=about.domain_name,
            name=about.name,
            project_id=about.project_id,
            flavor=about.flavor,
            vcpus=about.vcpus,
            memory_kib=about.memory_kib,
            allowed_cpus=about.allowed_cpus,
            placement=affinities[0] if is_even else affinities[0].union(*affinities),
            cpu_time_ns=seen.cpu_time_ns,
            generation=domain.generation,
            is_running=seen.is_running,
            isolation=about.isolation,
            unmanaged=obstacle.reason if obstacle else None,
            unmanaged_detail=obstacle.detail if obstacle else "",
        )
