# SPDX-License-Identifier: Apache-2.0
"""What the clients of Voldemort see, second by second: its response time divided by that when it
runs alone.

The thesis measures the 95th percentile (1.2, 2.3.2), and tells how much response times vary (3.1).
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from statistics import quantiles

from vp_sim.host import SimHost
from vp_sim.mixes import Mix
from vp_sim.policies import BASELINE, find
from vp_sim.run import simulate, world_of

SERVER = "voldemort-1"
TWENTIETHS, QUARTERS = 20, 4


@lru_cache
def response_times(mix: Mix, policy: str, orders: int) -> list[list[float]]:
    """By start order; each VM of the server answers its share of all requests."""
    world, create = world_of(mix), find((policy,))[policy]
    found = []
    for seed in range(orders):
        times: list[float] = []

        def watch(host: SimHost, times: list[float] = times) -> None:
            servers = (guest for guest in host.guests.values() if guest.label == SERVER)
            times.extend(guest.job.last_slowdown_ratio for guest in servers)

        simulate(world, create, seed, watch)
        found.append(times)
    return found


def percentiles(times: Iterable[list[float]]) -> list[float]:
    """The 95th of each run."""
    return [quantiles(some, n=TWENTIETHS, method="inclusive")[-1] for some in times]


def response_losses(mix: Mix, policies: Iterable[str], orders: int) -> dict[str, list[float]]:
    """By policy and start order: the 95th percentile, against the best one under default Xen."""
    found = {name: percentiles(response_times(mix, name, orders)) for name in policies}
    best = min(found[BASELINE])
    return {name: [one / best - 1 for one in some] for name, some in found.items()}


def variability(times: Iterable[list[float]]) -> float:
    """Distance between the first and the third quartile of all response times."""
    low, _, high = quantiles(chain(*times), n=QUARTERS, method="inclusive")
    return high - low
