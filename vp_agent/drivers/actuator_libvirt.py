# SPDX-License-Identifier: Apache-2.0
"""Actuator `libvirt`: vCPUs are placed by live pins, which virsh shows and libvirt keeps.

The pins also stay in the XML and travel with a live migration, so every host needs our migrate hook
(`vp_agent/hooks`); see doc/source/architecture/actuators.md for what was seen.
"""

from nova_vp.core.model import Applied
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.cpuset import format_cpus
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.pins import neutralise, pin
from vp_agent.drivers.placement import read_placement, within_bound


class LibvirtActuator:
    name = "libvirt"

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def placement(self, guest_uuid: str) -> frozenset[int]:
        return read_placement(self._domains, guest_uuid)

    def place(self, guest_uuid: str, cpus: frozenset[int]) -> None:
        about = self._domains.find(guest_uuid).description
        within_bound(about, cpus)
        self._pin(guest_uuid, cpus)

    def restore(self, applied: Applied) -> None:
        """To Nova's bound; a guest placed by the actuator `kernel` has no pins, only affinity."""
        uuid = applied.guest_uuid
        neutralise(self._domains, uuid)
        bound = self._domains.reread(uuid).description.allowed_cpus
        if self.placement(uuid) != bound:
            self._pin(uuid, bound)

    def _pin(self, uuid: str, cpus: frozenset[int]) -> None:
        pin(self._domains, self._domains.find(uuid).description, cpus)
        self._domains.reread(uuid)
        seen = self.placement(uuid)
        if seen != cpus:
            raise ApplyFailed(
                f"guest {uuid} was pinned to CPUs {format_cpus(cpus)} but its threads run on "
                f"{format_cpus(seen)}: see libvirtd's log"
            )
