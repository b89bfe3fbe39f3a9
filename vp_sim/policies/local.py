# SPDX-License-Identifier: Apache-2.0
"""`local` (thesis 3.1): CPU and memory on one node, whatever it costs.

The next core comes from the home domain; where that has none, from another, and the memory follows
to the node of that core. Where a core is given back, the memory comes to the node of the others.
"""

from random import Random

from nova_vp.core.types.knob import Knob
from vp_sim.elastic import Elastic, Free
from vp_sim.sampling import Rates
from vp_sim.sim_drivers import SimDrivers, turn


class Local:
    def grow(self, guest: Rates, free: Free) -> frozenset[int] | None:
        cpus = guest.guest.placement
        found = free.cpus[free.home(cpus).id] or free.cpus[free.roomiest().id]
        return cpus | {found[0]} if found else None

    def has_grown(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        _bring_memory(drivers, guest, cpus - guest.guest.placement)

    def has_shrunk(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        _bring_memory(drivers, guest, cpus)


def _bring_memory(drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
    """To the node where most of these are."""
    node = Free(drivers.guests.topology(), ()).home(cpus).node
    if drivers.actuator.read(guest.guest.uuid, Knob.MEMORY) != ((node, 1.0),):
        turn(drivers, guest.guest.uuid, Knob.MEMORY, ((node, 1.0),))


def create(drivers: SimDrivers, random: Random) -> Elastic:
    return Elastic(drivers, Local())
