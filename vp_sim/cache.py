# SPDX-License-Identifier: Apache-2.0
"""How several applications share one LRU cache: the composition of footprints.

Over any stretch of time an application brings in as many new lines as it misses with what it has.
The shares are those reached together at the moment when they fill the cache (Xiang et al., "HOTL",
2013, and the characteristic time of Che). More pressure of a neighbour never gives anybody more.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import exp, log
from typing import NamedTuple

from vp_sim.apps import MIB, App
from vp_sim.machine import LINE_BYTES
from vp_sim.solver import root

LINES_PER_MIB = MIB // LINE_BYTES
GRID_STEPS = 192
PRECISION = 1e-4
"""Of the time it takes to fill a cache, as a share of it."""
LEAST_RATIO = 1e-9
"""Of misses: who misses less brings nothing in."""
SHORTEST_S, LONGEST_S = 1e-6, 10.0
"""Between which the time lies that it takes to fill a cache; a tiny one may take less."""

Filling = tuple[tuple[float, ...], tuple[float, ...]]


class Sharer(NamedTuple):
    app: App
    accesses_per_s: float


@lru_cache(maxsize=4096)
def _filling(app: App, cache_mib: float) -> Filling:
    """Accesses needed until so many MiB are its own, on a grid over the cache's size."""
    most = min(app.footprint_mib, cache_mib)
    sizes = tuple(most * (i / GRID_STEPS) ** 2 for i in range(GRID_STEPS + 1))
    accesses = [0.0]
    for low, high in pairwise(sizes):
        ratio = max(app.miss_ratio((low + high) / 2), LEAST_RATIO)
        accesses.append(accesses[-1] + (high - low) * LINES_PER_MIB / ratio)
    return sizes, tuple(accesses)


def _filled(filling: Filling, accesses: float) -> float:
    sizes, needed = filling
    at = bisect_right(needed, accesses)
    if at > GRID_STEPS:
        return sizes[-1]
    part = (accesses - needed[at - 1]) / (needed[at] - needed[at - 1])
    return sizes[at - 1] + part * (sizes[at] - sizes[at - 1])


def shares_mib(
    sharers: Sequence[Sharer], cache_mib: float, intensity_weight: float = 1.0
) -> tuple[float, ...]:
    """How much of the cache each of them holds, in the order given. `intensity_weight` is the
    exponent of an application's accesses: 1 is LRU, below it the intense hold less than that."""
    if len(sharers) == 1:
        return (min(sharers[0].app.footprint_mib, cache_mib),)

    mean = sum(s.accesses_per_s for s in sharers) / len(sharers) or 1.0
    fillings = [
        (_filling(s.app, cache_mib), mean * (s.accesses_per_s / mean) ** intensity_weight)
        for s in sharers
    ]

    def held(span_s: float) -> list[float]:
        return [_filled(filling, rate * span_s) for filling, rate in fillings]

    longest = held(LONGEST_S)
    if sum(longest) <= cache_mib:
        return tuple(longest)

    def excess(log_s: float) -> float:
        return sum(held(exp(log_s))) - cache_mib

    return tuple(held(exp(root(excess, log(SHORTEST_S), log(LONGEST_S), 0.0, PRECISION))))
