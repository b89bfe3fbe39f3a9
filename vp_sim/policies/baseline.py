# SPDX-License-Identifier: Apache-2.0
"""No management: guests stay where they were started."""

from random import Random

from vp_sim.sim_drivers import SimDrivers


class Baseline:
    def tick(self, now_s: float) -> None:
        """Nothing is done."""


def create(drivers: SimDrivers, random: Random) -> Baseline:
    return Baseline()
