# SPDX-License-Identifier: Apache-2.0
"""A policy that knows the best arrangement from the first second must still move everybody there.

Guests start where the start order puts them, and moves cost what they cost any policy. A ceiling is
what was there from the start; this is what is left of it for a policy with foresight.
"""

from collections.abc import Mapping
from random import Random

from vp_sim.measure import OfPolicy, judge
from vp_sim.placement import Placement, quota_of
from vp_sim.run import World, simulate
from vp_sim.sim_drivers import SimDrivers

FIRST_S = 1.0
LEAST_SHARE = 0.05
"""Smallest share of a VM's memory that is worth a move."""


class Going:
    """A policy: everybody goes to a placement in the first second, and stays there."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    def __call__(self, drivers: SimDrivers, random: Random) -> "Going":
        self._host = drivers.guests.host
        return self

    def tick(self, now_s: float) -> None:
        if now_s != FIRST_S:
            return
        left = {label: list(places) for label, places in self._placement.items()}
        for guest in self._host.guests.values():
            place = left[guest.label].pop(0)
            self._host.place(guest, (place.cpus,))
            self._host.limit(guest, quota_of(place.cap_ratio))
            here = dict(guest.shares)
            if any(share - here.get(node, 0.0) >= LEAST_SHARE for node, share in place.memory):
                self._host.send(guest, place.memory)


def going(world: World, best_s: Mapping[str, float], placement: Placement, runs: int) -> OfPolicy:
    """Over so many start orders."""
    policy = Going(placement)
    done = [simulate(world, policy, seed) for seed in range(runs)]
    return judge(done, best_s, world.machine.topology)
