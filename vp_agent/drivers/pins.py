# SPDX-License-Identifier: Apache-2.0
"""`<vcpupin>` of a guest: set through libvirt, or made neutral.

libvirt has no call that takes a pin out of the XML again: a pin equal to the guest's own bound is
the nearest to none. Both actuators undo with this, since pins may have come by a migration.
"""

from typing import Any

import libvirt

from vp_agent.drivers.description import Description
from vp_agent.drivers.domains import Domains

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
CONFIG = libvirt.VIR_DOMAIN_AFFECT_CONFIG


def pin(domains: Domains, about: Description, cpus: frozenset[int], where: int = LIVE) -> None:
    """Every vCPU onto `cpus`. Raises GuestGone, ApplyFailed, HostUnavailable."""
    size = max(domains.topology().cpus) + 1
    cpu_map = tuple(cpu in cpus for cpu in range(size))

    def act(domain: Any) -> None:
        for vcpu in range(about.vcpus):
            domain.pinVcpuFlags(vcpu, cpu_map, where)

    domains.connection.change(about.uuid, act)


def neutralise(domains: Domains, uuid: str) -> None:
    """Whatever pins there are, live and left over in the persistent XML, onto Nova's bound."""
    domain = domains.find(uuid)
    if _narrows(domain.description):
        pin(domains, domain.description, domain.description.allowed_cpus)
    if domain.leftover and _narrows(domain.leftover):
        pin(domains, domain.leftover, domain.leftover.allowed_cpus, CONFIG)


def _narrows(about: Description) -> bool:
    return any(cpus != about.allowed_cpus for cpus in about.pins)
