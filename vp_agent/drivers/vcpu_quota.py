# SPDX-License-Identifier: Apache-2.0
"""The CPU quota of a guest's vCPUs: read back from the kernel, kept within what Nova gave it.

What both actuators do alike. The kernel shows what holds, whoever set it; libvirt's XML shows what
libvirt was told, which a migration carries along.
"""

from collections.abc import Iterable
from typing import Any, cast

from nova_vp.core.types.knob import NO_QUOTA, Knob, Quota
from vp_agent.drivers.actuator_common import looked_twice
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.cgroups import CpuGroup, NoCpuGroup, cpu_group, read_quota, writing_order
from vp_agent.drivers.domain_xml import DomainDescription
from vp_agent.drivers.domains import Domain, Domains
from vp_agent.drivers.group_files import QuotaFiles
from vp_agent.drivers.kernel_file import Room
from vp_agent.drivers.paced_reading import PacedReading
from vp_agent.drivers.vcpu_pinning import CONFIG, LIVE

SHORTEST_US = 1000
"""Of quota and period, for the kernel and for libvirt."""
LONGEST_PERIOD_US = 1_000_000


def quota_reading() -> PacedReading[QuotaFiles, Quota]:
    """For the guests of every tick."""
    room = Room()

    def read(files: QuotaFiles, ours: Quota | None) -> Quota:
        return one_of(tuple([Quota(*each) for each in files.read()]), ours)

    return PacedReading(
        Knob.CPU_CAP, lambda domain: QuotaFiles(groups_of(domain), room), read, NO_QUOTA
    )


def groups_of(domain: Domain) -> tuple[CpuGroup, ...]:
    """None where libvirt makes none: nothing limits a vCPU there. Raises ProcessLookupError."""
    try:
        return tuple(sorted({cpu_group(tid) for tid in domain.tids}))
    except NoCpuGroup:
        return ()


def _read_all(groups: Iterable[CpuGroup]) -> tuple[Quota, ...]:
    return tuple(Quota(*read_quota(group)) for group in groups)


def one_of(quotas: tuple[Quota, ...], ours: Quota | None) -> Quota:
    """Of the whole guest: one that is not ours (a hot-plugged vCPU), else the tightest."""
    differing = [quota for quota in quotas if quota != ours]
    return min(differing or quotas, key=_limit, default=NO_QUOTA)


def _limit(quota: Quota) -> float:
    """Cores; unlike `Quota.cores` it tells no limit from one whole core."""
    return float("inf") if quota.quota_us < 0 else quota.cores


def read_quotas(domains: Domains, uuid: str) -> tuple[Quota, ...]:
    """Of each vCPU, from the kernel. Raises GuestGone, HostUnavailable."""
    return looked_twice(domains, uuid, lambda domain: _read_all(groups_of(domain)))


def read_back(domains: Domains, uuid: str, wanted: Quota) -> None:
    """Raises ApplyFailed if any vCPU has another quota."""
    seen = read_quotas(domains, uuid)
    if not seen:
        raise _without_groups(uuid)
    if set(seen) != {wanted}:
        raise ApplyFailed(
            f"server {uuid} was given {wanted.quota_us}/{wanted.period_us} us per vCPU, and its "
            f"cgroups show {', '.join(sorted(f'{q.quota_us}/{q.period_us}' for q in seen))}: "
            "something else sets them too"
        )


def _without_groups(uuid: str) -> ApplyFailed:
    return ApplyFailed(
        f"the vCPUs of server {uuid} have no cgroup of their own: libvirt needs the controller "
        "`cpu`, see cgroup_controllers in /etc/libvirt/qemu.conf"
    )


def within_quota(about: DomainDescription, quota: Quota) -> None:
    """Raises ApplyFailed for what the kernel does not know or Nova did not give."""
    if quota.quota_us < SHORTEST_US or not SHORTEST_US <= quota.period_us <= LONGEST_PERIOD_US:
        raise ApplyFailed(
            f"{quota.quota_us} of {quota.period_us} us is no CPU quota: at least {SHORTEST_US} us, "
            f"of a period of {SHORTEST_US} to {LONGEST_PERIOD_US} us; nothing was changed"
        )
    bound = min(_before_us(about), about.flavor_quota, key=_limit)
    if _limit(quota) > _limit(bound):
        raise ApplyFailed(
            f"server {about.uuid} has {bound.quota_us} of {bound.period_us} us per vCPU from Nova; "
            f"a cap of {quota.quota_us} of {quota.period_us} us would loosen that, nothing was "
            "changed"
        )


def _before_us(about: DomainDescription) -> Quota:
    held = about.applied.of(Knob.CPU_CAP) if about.applied else None
    return cast(Quota, held.original) if held else about.quota


def tell_libvirt(domains: Domains, uuid: str, quota: Quota, where: int = LIVE) -> None:
    """Every vCPU. Raises GuestGone, ApplyFailed, HostUnavailable."""
    values = {"quota": ("vcpu_quota", quota.quota_us), "period": ("vcpu_period", quota.period_us)}
    # libvirt writes the files one after the other, in the order given. What stands in the XML may
    # be another thing than what holds, so both are told.
    before = read_quotas(domains, uuid)[:1] if where == LIVE else ()
    first = writing_order(before[0], quota)[:1] if before else ()
    parameters = dict(values[name] for name in (*first, *(values.keys() - first)))

    def act(domain: Any) -> None:
        domain.setSchedulerParametersFlags(parameters, where)

    domains.connection.change(uuid, act)


def neutralise_quota(domains: Domains, uuid: str, original: Quota) -> None:
    """What libvirt was told, live and left over in the persistent XML, to what stood there."""
    domain = domains.find(uuid)
    if domain.description.quota != original:
        tell_libvirt(domains, uuid, original)
        domains.reread(uuid)
    if domain.leftover and domain.leftover.quota != domain.leftover.flavor_quota:
        tell_libvirt(domains, uuid, domain.leftover.flavor_quota, CONFIG)
