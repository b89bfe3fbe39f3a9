# SPDX-License-Identifier: Apache-2.0
"""`cheap` (thesis 3.1): the next core in the order of what it costs, whomever it hurts.

A core of the home domain, else one of another; memory stays where it is.
"""

from random import Random

from vp_sim.elastic import Elastic, Free
from vp_sim.sampling import Rates
from vp_sim.sim_drivers import SimDrivers


class Cheap:
    def grow(self, guest: Rates, free: Free) -> frozenset[int] | None:
        cpus = guest.guest.placement
        found = free.cpus[free.home(cpus).id] or free.cpus[free.roomiest().id]
        return cpus | {found[0]} if found else None

    def has_grown(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        """Nothing else moves."""

    def has_shrunk(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        """Nothing else moves."""


def create(drivers: SimDrivers, random: Random) -> Elastic:
    return Elastic(drivers, Cheap())
