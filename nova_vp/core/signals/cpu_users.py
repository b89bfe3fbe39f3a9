# SPDX-License-Identifier: Apache-2.0
"""Who uses which CPUs: guests, and whatever else runs on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nova_vp.core.model.host import Host
from nova_vp.core.types.cpu_time import NOT_MEASURED, HostCpuUse


@dataclass(frozen=True, slots=True)
class CpuUsers:
    """Asked for by many victims of one tick."""

    host: Host
    host_cpu: HostCpuUse = NOT_MEASURED
    _by_placement: dict[frozenset[int], dict[str, float]] = field(default_factory=dict)

    def of(self, cpus: frozenset[int]) -> dict[str, float]:
        """Cores that each guest uses of these CPUs, spread over its placement."""
        if cpus not in self._by_placement:
            self._by_placement[cpus] = {
                uuid: self.host.used_cores(uuid) * shared / len(guest.placement)
                for uuid, guest in self.host.guests.items()
                if (shared := len(cpus & guest.placement))
            }
        return self._by_placement[cpus]

    def host_cores(self, cpus: frozenset[int]) -> float:
        """Cores of these CPUs that are taken, and not by guests; 0 where nobody can say.

        Guests need not spread as evenly as is assumed: it is never more than what they leave of
        all that is taken on this host.
        """
        taken = self._taken_cores()
        if taken.keys() != self.host.topology.cpus:
            return 0.0  # Of other CPUs than those of this host.
        guests = self.host.guests
        ran = {uuid: self._ran_cores(uuid) for uuid in guests}
        here = sum(
            ran[uuid] * len(cpus & guest.placement) / len(guest.placement)
            for uuid, guest in guests.items()
        )
        left = min(sum(taken[cpu] for cpu in cpus) - here, sum(taken.values()) - sum(ran.values()))
        return max(left, 0.0)

    def _taken_cores(self) -> Mapping[int, float]:
        """By CPU, over the last seconds."""
        recent = self.host_cpu.recent
        if len(recent) < 2 or not recent[-1].taken_ticks:
            return {}
        first, last = recent[0], recent[-1]
        span_ticks = (last.total_ticks - first.total_ticks) / len(last.taken_ticks)
        return {
            cpu: (ticks - first.taken_ticks.get(cpu, ticks)) / span_ticks
            for cpu, ticks in last.taken_ticks.items()
        }

    def _ran_cores(self, uuid: str) -> float:
        """By the kernel's scheduler, which knows it of guests without counters too; or by its whole
        process, whose I/O threads and the like are its own."""
        vp = self.host.vps[uuid]
        use = vp.recent_cpu_use or vp.cpu_use
        return max(use.ran_cores if use else 0.0, self.host.used_cores(uuid))
