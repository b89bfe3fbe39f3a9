# SPDX-License-Identifier: Apache-2.0
"""What both actuators do alike: read a guest's placement back, refuse what is beyond its bound."""

from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.cpuset import format_cpus
from vp_agent.drivers.description import Description
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.vcpu_threads import read_affinity


def read_placement(domains: Domains, uuid: str) -> frozenset[int]:
    """CPUs of all vCPU threads together, from the kernel. Raises GuestGone, HostUnavailable."""
    try:
        affinities = read_affinity(domains.find(uuid).tids)
    except ProcessLookupError:
        # A vCPU was unplugged, or the guest ended: the second look tells which.
        try:
            affinities = read_affinity(domains.reread(uuid).tids)
        except ProcessLookupError as exc:
            raise GuestGone(f"guest {uuid} has just ended") from exc
    return affinities[0].union(*affinities[1:])


def within_bound(about: Description, cpus: frozenset[int]) -> None:
    """Raises ApplyFailed if Nova does not let the guest run there."""
    if not cpus or not cpus <= about.allowed_cpus:
        raise ApplyFailed(
            f"guest {about.uuid} may only run on CPUs {format_cpus(about.allowed_cpus)} "
            f"(Nova's bound), not on {format_cpus(cpus) or 'none'}; nothing was changed"
        )
