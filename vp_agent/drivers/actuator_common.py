# SPDX-License-Identifier: Apache-2.0
"""What both actuators do alike: read a guest's placement back, refuse what is beyond its bound,
and find what to restore."""

from collections.abc import Callable
from typing import TypeVar

from nova_vp.core.types.knob import Cpus
from nova_vp.cpuset import format_cpus
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.domain_xml import DomainDescription
from vp_agent.drivers.domains import Domain, Domains
from vp_agent.drivers.vcpu_threads import read_affinity

Seen = TypeVar("Seen")


def read_placement(domains: Domains, uuid: str) -> Cpus:
    """From the kernel: one set if all vCPUs have the same. Raises GuestGone, HostUnavailable."""
    return together(looked_twice(domains, uuid, lambda domain: read_affinity(domain.tids)))


def looked_twice(domains: Domains, uuid: str, look: Callable[[Domain], Seen]) -> Seen:
    """`look` raises ProcessLookupError. Raises GuestGone, HostUnavailable."""
    try:
        return look(domains.find(uuid))
    except ProcessLookupError:
        # A vCPU was unplugged, or the guest ended: the second look tells which.
        try:
            return look(domains.reread(uuid))
        except ProcessLookupError as exc:
            raise GuestGone(f"server {uuid} has just ended") from exc


def together(cpus: Cpus) -> Cpus:
    """One set if all are alike."""
    return cpus[:1] if cpus.count(cpus[0]) == len(cpus) else cpus


def within_bound(about: DomainDescription, cpus: Cpus) -> None:
    """Raises ApplyFailed if Nova does not let the guest run there, or it has not so many vCPUs."""
    for one in cpus:
        if not one or not one <= about.allowed_cpus:
            raise ApplyFailed(
                f"server {about.uuid} may only run on CPUs {format_cpus(about.allowed_cpus)} "
                f"(Nova's bound), not on {format_cpus(one) or 'none'}; nothing was changed"
            )
    if len(cpus) not in (1, about.vcpus):
        raise ApplyFailed(
            f"server {about.uuid} has {about.vcpus} vCPUs, and {len(cpus)} sets of CPUs were "
            "given; nothing was changed"
        )


def to_restore(about: DomainDescription, original: Cpus) -> Cpus:
    """What stood there before us, as far as Nova still lets the guest run there."""
    within = tuple(cpus & about.allowed_cpus for cpus in original)
    fits = all(within) and len(within) in (1, about.vcpus)
    return within if fits else (about.allowed_cpus,)
