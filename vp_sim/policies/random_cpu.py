# SPDX-License-Identifier: Apache-2.0
"""`random` (thesis 3.1): the next core is any free one, as a load balancer would take it."""

from random import Random

from vp_sim.elastic import Elastic, Free
from vp_sim.sampling import Rates
from vp_sim.sim_drivers import SimDrivers


class RandomCpu:
    def __init__(self, random: Random) -> None:
        self._random = random

    def grow(self, guest: Rates, free: Free) -> frozenset[int] | None:
        found = sorted(cpu for cpus in free.cpus.values() for cpu in cpus)
        return guest.guest.placement | {self._random.choice(found)} if found else None

    def has_grown(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        """Nothing else moves."""

    def has_shrunk(self, drivers: SimDrivers, guest: Rates, cpus: frozenset[int]) -> None:
        """Nothing else moves."""


def create(drivers: SimDrivers, random: Random) -> Elastic:
    return Elastic(drivers, RandomCpu(random))
