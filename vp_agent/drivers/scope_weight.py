# SPDX-License-Identifier: Apache-2.0
"""The CPU weight of a guest: its whole group's beside those of other guests, read back from the
kernel.

What both actuators do alike. As with the quota the kernel shows what holds, and libvirt's XML
(`<shares>`) what libvirt was told, which a migration carries along. A weight that comes from a host
of the other cgroup version says nothing here: what Nova gives takes its place.
"""

import time
from collections.abc import Callable
from typing import Any

from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    SETTABLE_CPU_WEIGHTS,
    WEIGHT_RANGES,
    CpuWeight,
    Knob,
    WeightUnit,
)
from vp_agent.drivers import cgroups
from vp_agent.drivers.actuator_common import looked_twice
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.cgroups import CpuGroup, NoCpuGroup
from vp_agent.drivers.domain_xml import DomainDescription
from vp_agent.drivers.domains import Domain, Domains
from vp_agent.drivers.group_files import WeightFile
from vp_agent.drivers.kernel_file import Room
from vp_agent.drivers.paced_reading import PacedReading
from vp_agent.drivers.vcpu_pinning import CONFIG, LIVE

WRITTEN_WITHIN_S = 1.0
"""By systemd, after it has answered."""
_POLL_S = 0.002


def weight_reading() -> PacedReading[WeightFile, CpuWeight]:
    """For the guests of every tick."""
    room = Room()

    def find(domain: Domain) -> WeightFile | None:
        group = scope_of(domain)
        return WeightFile(group, room) if group else None

    def read(file: WeightFile, ours: CpuWeight | None) -> CpuWeight:
        return _weight(file.read(), is_unified=file.is_unified)

    return PacedReading(Knob.CPU_WEIGHT, find, read, NO_CPU_WEIGHT)


def scope_of(domain: Domain) -> CpuGroup | None:
    """None where libvirt makes no groups. Raises ProcessLookupError."""
    try:
        return cgroups.machine_group(cgroups.cpu_group(domain.tids[0]))
    except NoCpuGroup:
        return None


def _read(group: CpuGroup | None) -> CpuWeight:
    if group is None:
        return NO_CPU_WEIGHT
    return _weight(cgroups.read_weight(group), is_unified=group.is_unified)


def _weight(number: int, *, is_unified: bool) -> CpuWeight:
    if not number:
        return NO_CPU_WEIGHT
    return CpuWeight(number, WeightUnit.WEIGHT if is_unified else WeightUnit.SHARES)


def read_weight(domains: Domains, uuid: str) -> CpuWeight:
    """From the kernel. Raises GuestGone, HostUnavailable."""
    return looked_twice(domains, uuid, lambda domain: _read(scope_of(domain)))


def read_back(domains: Domains, uuid: str, wanted: CpuWeight) -> None:
    """Raises ApplyFailed if it has another weight."""
    until_s = time.monotonic() + WRITTEN_WITHIN_S
    while (seen := read_weight(domains, uuid)) != wanted:
        if time.monotonic() > until_s:
            raise ApplyFailed(
                f"server {uuid} was given the CPU weight {wanted.number}, and its cgroup shows "
                f"{seen.number}: something else sets it too"
            )
        time.sleep(_POLL_S)


def within_range(domains: Domains, uuid: str, weight: CpuWeight) -> None:
    """Raises ApplyFailed for what this host or libvirt does not know, and for a guest that has no
    weight, or none that could be put back."""
    now = read_weight(domains, uuid)
    if now == NO_CPU_WEIGHT:
        raise ApplyFailed(
            f"server {uuid} has no CPU weight: libvirt needs the controller `cpu` (see "
            "cgroup_controllers in /etc/libvirt/qemu.conf), and its cgroup must not be idle "
            "(cpu.idle); nothing was changed"
        )
    bounds = SETTABLE_CPU_WEIGHTS[now.unit]
    if weight.unit is not now.unit or not bounds.takes(weight.number):
        raise ApplyFailed(
            f"{weight.number} {weight.unit.value} is no CPU weight of this host: it takes "
            f"{bounds.least} to {bounds.most} {now.unit.value}; nothing was changed"
        )
    # With either actuator `restore` may have to tell libvirt what stood there.
    if now.number < bounds.least:
        raise ApplyFailed(
            f"server {uuid} has the CPU weight {now.number}, which libvirt could not put back: "
            f"give it {bounds.least} or more; nothing was changed"
        )


def restore(
    domains: Domains, uuid: str, original: CpuWeight, weigh: Callable[[str, CpuWeight], None]
) -> None:
    """What libvirt was told goes back first; `weigh` sets what is left. Raises as the actuator."""
    now = read_weight(domains, uuid)
    if now == NO_CPU_WEIGHT:
        return  # Nothing of ours can stand there.
    weight = _to_restore(domains.find(uuid).description, original, now.unit)
    if now == weight and now.number < SETTABLE_CPU_WEIGHTS[now.unit].least:
        return  # Nothing was set, and libvirt would refuse to be told of it.
    _neutralise(domains, uuid, weight)
    if read_weight(domains, uuid) != weight:
        weigh(uuid, weight)


def _to_restore(about: DomainDescription, original: CpuWeight, unit: WeightUnit) -> CpuWeight:
    """What stood there before us, if it was on a host of this kind; else what Nova gives."""
    is_known = original != NO_CPU_WEIGHT and original.unit is unit
    return original if is_known else CpuWeight(_given(about, unit), unit)


def _given(about: DomainDescription, unit: WeightUnit) -> int:
    bounds = WEIGHT_RANGES[unit]
    number = about.flavor_shares or 0
    return number if bounds.takes(number) else bounds.default


def tell_libvirt(domains: Domains, uuid: str, number: int, where: int = LIVE) -> None:
    """In the host's unit, whichever that is. Raises GuestGone, ApplyFailed, HostUnavailable."""

    def act(domain: Any) -> None:
        domain.setSchedulerParametersFlags({"cpu_shares": number}, where)

    domains.connection.change(uuid, act)
    domains.reread(uuid)


def _neutralise(domains: Domains, uuid: str, original: CpuWeight) -> None:
    """What libvirt was told, live and left over in the persistent XML, to what stood there."""
    domain = domains.find(uuid)
    if domain.description.shares not in (None, original.number):
        tell_libvirt(domains, uuid, original.number)
    if domain.leftover:
        given = _given(domain.leftover, original.unit)
        if domain.leftover.shares not in (None, given):
            tell_libvirt(domains, uuid, given, CONFIG)
