# SPDX-License-Identifier: Apache-2.0
"""`local` (thesis 3.1): CPU and memory on one node, whatever it costs.

The next core comes from the home domain; where that has none, all vCPUs go where they fit, or one
core is taken elsewhere, and the memory always follows.
"""

from random import Random

from nova_vp.core.types.knob import Knob
from vp_sim.elastic import Elastic, Free
from vp_sim.sampling import Seen
from vp_sim.sim_drivers import Seams, turn


class Local:
    def grow(self, guest: Seen, free: Free) -> frozenset[int] | None:
        cpus = guest.guest.placement
        at_home = free.cpus[free.home(cpus).id]
        if at_home:
            return cpus | {at_home[0]}
        elsewhere = free.cpus[free.roomiest().id]
        if len(elsewhere) > len(cpus):
            return frozenset(elsewhere[: len(cpus) + 1])
        return cpus | {elsewhere[0]} if elsewhere else None

    def has_grown(self, seams: Seams, guest: Seen, cpus: frozenset[int]) -> None:
        node = Free(seams.guests.topology(), ()).home(cpus).node
        if seams.actuator.read(guest.guest.uuid, Knob.MEMORY) != ((node, 1.0),):
            turn(seams, guest.guest.uuid, Knob.MEMORY, ((node, 1.0),))


def create(seams: Seams, random: Random) -> Elastic:
    return Elastic(seams, Local())
