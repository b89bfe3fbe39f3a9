# SPDX-License-Identifier: Apache-2.0
"""Actuator `kernel`: the affinity of the vCPU threads, inside the cpuset that libvirt gave them.

It stands in no XML, so a migration carries nothing and undoing is exact; new threads (a soft
reboot) start at Nova's bound and are placed anew by the next tick. It needs CAP_SYS_NICE alone.
"""

import errno
from collections.abc import Callable
from pathlib import Path

from nova_vp.core.model import Applied
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.cpuset import format_cpus
from vp_agent.drivers.domains import Domain, Domains
from vp_agent.drivers.pins import neutralise
from vp_agent.drivers.placement import read_placement, within_bound
from vp_agent.drivers.vcpu_threads import set_affinity

SetAffinity = Callable[[int, int, list[int]], None]
"""`vcpu_threads.set_affinity`, here or in the privileged helper."""

_CAP_SYS_NICE = 23


def create(domains: Domains) -> "KernelActuator":
    """The entry point: in this process where it may, else through the privileged helper."""
    return KernelActuator(domains, set_affinity if _may_set_affinity() else _by_helper)


def _may_set_affinity() -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff"))
    return bool(int(effective.split()[1], 16) >> _CAP_SYS_NICE & 1)


def _by_helper(pid: int, started: int, cpus: list[int]) -> None:
    # Imported late: most agents never need it, and it would double what they weigh.
    from vp_agent import privsep

    privsep.set_affinity(pid, started, cpus)


class KernelActuator:
    name = "kernel"

    def __init__(self, domains: Domains, set_affinity: SetAffinity) -> None:
        self._domains = domains
        self._set_affinity = set_affinity

    def placement(self, guest_uuid: str) -> frozenset[int]:
        return read_placement(self._domains, guest_uuid)

    def place(self, guest_uuid: str, cpus: frozenset[int]) -> None:
        domain = self._domains.find(guest_uuid)
        within_bound(domain.description, cpus)
        self._move(domain, cpus)

    def restore(self, applied: Applied) -> None:
        """Pins that a migration brought along are made neutral first: they narrow the cpuset."""
        neutralise(self._domains, applied.guest_uuid)
        domain = self._domains.find(applied.guest_uuid)
        bound = domain.description.allowed_cpus
        self._move(domain, (applied.original_cpus & bound) or bound)

    def _move(self, domain: Domain, cpus: frozenset[int]) -> None:
        uuid, process = domain.description.uuid, domain.process
        try:
            self._set_affinity(process.pid, process.started, sorted(cpus))
        except OSError as exc:
            raise self._translated(domain, cpus, exc) from exc
        seen = self.placement(uuid)
        if seen != cpus:
            raise ApplyFailed(
                f"the kernel put guest {uuid} onto CPUs {format_cpus(seen)} instead of "
                f"{format_cpus(cpus)}: its cpuset cgroup is narrower than its XML says"
            )

    def _translated(self, domain: Domain, cpus: frozenset[int], exc: OSError) -> Exception:
        uuid = domain.description.uuid
        self._domains.forget(uuid)
        if exc.errno == errno.ESRCH or isinstance(exc, ProcessLookupError):
            return GuestGone(f"guest {uuid} has just ended or been replaced")
        if exc.errno == errno.EINVAL:
            return ApplyFailed(
                f"none of the CPUs {format_cpus(cpus)} is online and in the cpuset cgroup of "
                f"guest {uuid}: see `virsh vcpupin {domain.description.domain_name}`"
            )
        return ApplyFailed(
            f"may not set the CPU affinity of guest {uuid} ({exc}): the agent needs CAP_SYS_NICE, "
            "its own or by [vp_agent_sys_nice] helper_command"
        )
