# SPDX-License-Identifier: Apache-2.0
"""`local` (thesis 3.1): CPU and memory on one node, whatever it costs.

The next core comes from the home domain; where that has none, all vCPUs go where they fit, or one
core is taken elsewhere, and the memory always follows.
"""

from random import Random

from nova_vp.core.types.knob import Knob
from vp_sim.elastic import Elastic, Free
from vp_sim.sampling import Rates
from vp_sim.sim_drivers import SimDrivers, turn


class Local:
    def grow(self, guest: Rates, free: Free) -> frozenset[int] | None:
        cpus = guest.guest.placement
        at_home = free.cpus[free.home(cpus).id]
        if at_home:
            return cpus | {at_home[0]}
        elsewhere = free.cpus[free.roomiest().id]
        if len(elsewhere) > len(cpus):
            return frozenset(elsewhere[: len(cpus) + 1])
        return cpus | {elsewhere[0]} if elsewhere else None

    def has_grown(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        node = Free(drivers.guests.topology(), ()).home(cpus).node
        if drivers.actuator.read(guest.guest.uuid, Knob.MEMORY) != ((node, 1.0),):
            turn(drivers, guest.guest.uuid, Knob.MEMORY, ((node, 1.0),))


def create(drivers: SimDrivers, random: Random) -> Elastic:
    return Elastic(drivers, Local())
