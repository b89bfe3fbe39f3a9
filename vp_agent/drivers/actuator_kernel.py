# SPDX-License-Identifier: Apache-2.0
"""Actuator `kernel`: the affinity of QEMU's threads, inside the cpuset that libvirt gave them, the
CPU quota of the vCPUs' cgroups, and the CPU weight of the machine's.

Nothing of it stands in any XML, so a migration carries nothing and undoing is exact; new threads (a
soft reboot) start at what Nova gave and are placed anew by the next tick. It needs CAP_SYS_NICE
for the one, and to write libvirt's cgroup files (root, CAP_DAC_OVERRIDE) for the others; where
systemd manages the machine's cgroup, systemd is asked for its weight (root, or polkit).
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from nova_vp.core.types.knob import (
    Cpus,
    CpuWeight,
    Held,
    Knob,
    Quota,
    Value,
    all_cpus,
)
from nova_vp.cpuset import format_cpus
from vp_agent.drivers import cgroups, scope_weight, systemd_scopes, vcpu_threads
from vp_agent.drivers.actuator_common import read_placement, to_restore, together, within_bound
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.capabilities import CAP_DAC_OVERRIDE, CAP_SYS_NICE, has_capability
from vp_agent.drivers.domains import Domain, Domains
from vp_agent.drivers.vcpu_pinning import may_move_others, neutralise
from vp_agent.drivers.vcpu_quota import (
    neutralise_quota,
    one_of,
    read_back,
    read_quotas,
    within_quota,
)


@dataclass(frozen=True, slots=True)
class Calls:
    """What changes the kernel's side, here or in a privileged helper. Each raises OSError."""

    set_affinity: Callable[[int, int, list[list[int]], list[int]], None]
    """`vcpu_threads.set_affinity`"""
    set_quota: Callable[[int, int, int, int], None]
    """`cgroups.set_quota`"""
    set_weight: Callable[[int, int, int], None]
    """`cgroups.set_weight`"""
    set_scope_weight: Callable[[int, int, int], None]
    """`systemd_scopes.set_weight`"""


def create(domains: Domains) -> "KernelActuator":
    """The entry point: in this process where it may, else through the privileged helpers."""
    is_root = os.geteuid() == 0
    may_write = is_root or has_capability(CAP_DAC_OVERRIDE)
    calls = Calls(
        vcpu_threads.set_affinity if has_capability(CAP_SYS_NICE) else _affinity_by_helper,
        cgroups.set_quota if may_write else _quota_by_helper,
        cgroups.set_weight if may_write else _weight_by_helper,
        systemd_scopes.set_weight if is_root else _scope_weight_by_polkit_or_helper,
    )
    return KernelActuator(domains, calls)


def _affinity_by_helper(
    pid: int, started: int, vcpus: list[list[int]], emulator: list[int]
) -> None:
    # Imported late: most agents never need it, and it would double what they weigh.
    from vp_agent import privsep

    privsep.set_affinity(pid, started, vcpus, emulator)


def _quota_by_helper(pid: int, started: int, quota_us: int, period_us: int) -> None:
    from vp_agent import privsep

    privsep.set_quota(pid, started, quota_us, period_us)


def _weight_by_helper(pid: int, started: int, number: int) -> None:
    from vp_agent import privsep

    privsep.set_weight(pid, started, number)


def _scope_weight_by_polkit_or_helper(pid: int, started: int, number: int) -> None:
    try:
        systemd_scopes.set_weight(pid, started, number)
    except PermissionError:
        from vp_agent import privsep_root

        privsep_root.set_scope_weight(pid, started, number)


class KernelActuator:
    name = "kernel"
    knobs = frozenset({Knob.PLACEMENT, Knob.CPU_CAP, Knob.CPU_WEIGHT})

    def __init__(self, domains: Domains, calls: Calls) -> None:
        self._domains = domains
        self._calls = calls

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        if knob is Knob.CPU_CAP:
            return one_of(read_quotas(self._domains, guest_uuid), None)
        if knob is Knob.CPU_WEIGHT:
            return scope_weight.read_weight(self._domains, guest_uuid)
        return read_placement(self._domains, guest_uuid)

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        domain = self._domains.find(guest_uuid)
        if knob is Knob.CPU_CAP:
            quota = cast(Quota, value)
            within_quota(domain.description, quota)
            self._cap(domain, quota)
        elif knob is Knob.CPU_WEIGHT:
            weight = cast(CpuWeight, value)
            scope_weight.within_range(self._domains, guest_uuid, weight)
            self._weigh(guest_uuid, weight)
        else:
            cpus = cast(Cpus, value)
            within_bound(domain.description, cpus)
            self._move(domain, cpus, all_cpus(cpus))

    def restore(self, guest_uuid: str, held: Held) -> None:
        """What a migration brought along in the XML goes first: libvirt would set it again."""
        if held.knob is Knob.CPU_CAP:
            original = cast(Quota, held.original)
            neutralise_quota(self._domains, guest_uuid, original)
            if set(read_quotas(self._domains, guest_uuid)) - {original}:
                self._cap(self._domains.find(guest_uuid), original)
            return
        if held.knob is Knob.CPU_WEIGHT:
            original_weight = cast(CpuWeight, held.original)
            scope_weight.restore(self._domains, guest_uuid, original_weight, self._weigh)
            return
        neutralise(self._domains, guest_uuid)
        domain = self._domains.find(guest_uuid)
        original_cpus = to_restore(domain.description, cast(Cpus, held.original))
        self._move(domain, original_cpus, domain.description.allowed_cpus)

    def _move(self, domain: Domain, cpus: Cpus, emulator: frozenset[int]) -> None:
        uuid, process = domain.description.uuid, domain.process
        others = sorted(emulator) if may_move_others(domain.description) else []
        try:
            self._calls.set_affinity(
                process.pid, process.started, [sorted(one) for one in cpus], others
            )
        except OSError as exc:
            raise self._placing_failed(domain, cpus, exc) from exc
        seen = read_placement(self._domains, uuid)
        if seen != together(cpus):
            raise ApplyFailed(
                f"the kernel put server {uuid} onto CPUs {format_cpus(all_cpus(seen))} instead of "
                f"{format_cpus(all_cpus(cpus))}: its cpuset cgroup is narrower than its XML says"
            )

    def _cap(self, domain: Domain, quota: Quota) -> None:
        uuid, process = domain.description.uuid, domain.process
        try:
            self._calls.set_quota(process.pid, process.started, quota.quota_us, quota.period_us)
        except OSError as exc:
            raise self._capping_failed(domain, exc) from exc
        read_back(self._domains, uuid, quota)

    def _weigh(self, uuid: str, weight: CpuWeight) -> None:
        domain, unit = self._domains.find(uuid), None
        try:
            group = scope_weight.scope_of(domain)
            unit = systemd_scopes.unit_of(group) if group else None
            act = self._calls.set_scope_weight if unit else self._calls.set_weight
            act(domain.process.pid, domain.process.started, weight.number)
        except OSError as exc:
            raise self._weighing_failed(domain, unit, exc) from exc
        scope_weight.read_back(self._domains, uuid, weight)

    def _placing_failed(self, domain: Domain, cpus: Cpus, exc: OSError) -> Exception:
        about = domain.description
        if exc.errno == errno.EINVAL:
            why = (
                f"none of the CPUs {format_cpus(all_cpus(cpus))} is online and in the cpuset "
                f"cgroup of server {about.uuid}: see `virsh vcpupin {about.domain_name}`"
            )
        else:
            why = (
                f"may not set the CPU affinity of server {about.uuid} ({exc}): the agent needs "
                "CAP_SYS_NICE, its own or by [vp_agent_sys_nice] helper_command"
            )
        return self._failed(domain, exc, why)

    def _capping_failed(self, domain: Domain, exc: OSError) -> Exception:
        about = domain.description
        if exc.errno == errno.EINVAL:
            why = (
                f"the kernel refuses this quota for server {about.uuid}: a cgroup above its vCPUs "
                f"has a tighter one, see `virsh schedinfo {about.domain_name}`"
            )
        else:
            why = (
                f"may not set the CPU quota of server {about.uuid} ({exc}): the agent needs "
                "CAP_DAC_OVERRIDE, its own or by [vp_agent_dac_override] helper_command; or use "
                "[agent] actuator = libvirt"
            )
        return self._failed(domain, exc, why)

    def _weighing_failed(self, domain: Domain, unit: str | None, exc: OSError) -> Exception:
        if unit and not isinstance(exc, PermissionError):
            why = f"systemd did not set the CPU weight of {unit}: {exc}"
        elif unit:
            why = (
                f"systemd did not set the CPU weight of {unit} ({exc}): the agent needs uid 0, its "
                "own or by [vp_agent_root] helper_command, or the polkit rule of "
                "etc/nova-vp/polkit; or use [agent] actuator = libvirt"
            )
        else:
            why = (
                f"may not set the CPU weight of server {domain.description.uuid} ({exc}): the "
                "agent needs CAP_DAC_OVERRIDE, its own or by [vp_agent_dac_override] "
                "helper_command; or use [agent] actuator = libvirt"
            )
        return self._failed(domain, exc, why)

    def _failed(self, domain: Domain, exc: OSError, why: str) -> Exception:
        """`why`: if the server is still there."""
        uuid = domain.description.uuid
        self._domains.forget(uuid)
        if exc.errno == errno.ESRCH or isinstance(exc, ProcessLookupError):
            return GuestGone(f"server {uuid} has just ended or been replaced")
        return ApplyFailed(why)
