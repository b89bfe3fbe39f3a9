# SPDX-License-Identifier: Apache-2.0
"""What `local`, `cheap` and `random` have in common (thesis 3.1): demand for physical cores.

A guest that uses more than 0.8 of its cores asks for one more; one that would do with fewer gives
one back. They differ in where the next core comes from, and in what moves with it.
"""

from collections.abc import Iterable
from typing import Protocol

from nova_vp.core.types.knob import Knob
from nova_vp.core.types.topology import LlcDomain, Topology
from vp_sim.sampling import Rates, Sampler
from vp_sim.sim_drivers import SimDrivers, turn

ASK_RATIO = 0.8
"""Use of the allocated CPU above which a guest asks for more (thesis 3.2.3)."""
SPARE_RATIO = 0.6
"""Use of what would be left, below which a core is given back."""
PATIENCE_S = 2
"""For so long in a row, so that one noisy sample decides nothing. No source gives it."""


class Ladder(Protocol):
    """Where one policy finds the next core."""

    def grow(self, guest: Rates, free: "Free") -> frozenset[int] | None:
        """All CPUs of the guest with one more; None where there is none."""

    def has_grown(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        """What else moves."""

    def has_shrunk(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        """The same, once it has given a core back."""


class Free:
    """CPUs that no guest has for itself, by LLC domain."""

    def __init__(self, topology: Topology, seen: Iterable[Rates]) -> None:
        taken = frozenset().union(*(s.guest.placement for s in seen))
        self.domains = topology.domains
        self.cpus = {d.id: sorted(d.cpus - taken) for d in topology.domains}

    def home(self, cpus: frozenset[int]) -> LlcDomain:
        """Where most of these are: the home domain (3.1)."""
        return max(self.domains, key=lambda d: (len(d.cpus & cpus), -d.id))

    def roomiest(self) -> LlcDomain:
        return max(self.domains, key=lambda d: (len(self.cpus[d.id]), -d.id))


class Elastic:
    def __init__(self, drivers: SimDrivers, ladder: Ladder) -> None:
        self._drivers = drivers
        self._look = Sampler(drivers)
        self._topology = drivers.guests.topology()
        self._ladder = ladder
        self._since: dict[str, tuple[int, int]] = {}
        """By guest: what it would like (+1, -1), and for how many ticks it has."""

    def tick(self, now_s: float) -> None:
        seen = self._look.read(now_s)
        for guest in seen:
            wish = self._patiently(guest)
            if wish > 0:
                self._grow(guest)
            elif wish < 0:
                self._shrink(guest)

    def _patiently(self, guest: Rates) -> int:
        wish = _wish(guest)
        before, ticks = self._since.get(guest.guest.uuid, (0, 0))
        ticks = ticks + 1 if wish == before else 1
        self._since[guest.guest.uuid] = (wish, ticks)
        return wish if ticks % PATIENCE_S == 0 else 0

    def _grow(self, guest: Rates) -> None:
        # Who grew before in this tick has taken a core: look at the placements of now.
        everybody = [guest._replace(guest=g) for g in self._drivers.guests.read()]
        cpus = self._ladder.grow(guest, Free(self._topology, everybody))
        if cpus and turn(self._drivers, guest.guest.uuid, Knob.PLACEMENT, (cpus,)):
            self._ladder.has_grown(self._drivers, guest, cpus)

    def _shrink(self, guest: Rates) -> None:
        """A core away from home first."""
        cpus = guest.guest.placement
        home = Free(self._topology, ()).home(cpus)
        given = max(cpus, key=lambda cpu: (cpu not in home.cpus, cpu))
        if turn(self._drivers, guest.guest.uuid, Knob.PLACEMENT, (cpus - {given},)):
            self._ladder.has_shrunk(self._drivers, guest, cpus - {given})


def _wish(seen: Rates) -> int:
    allocated = seen.allocated
    if seen.cores > ASK_RATIO * allocated and allocated < seen.guest.vcpus:
        return 1
    is_own = len(seen.guest.placement) <= seen.guest.vcpus
    if is_own and allocated > 1 and seen.cores < SPARE_RATIO * (allocated - 1):
        return -1
    return 0
