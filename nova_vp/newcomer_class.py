# SPDX-License-Identifier: Apache-2.0
"""Which newcomer class several servers or projects stand for: schedulers place by it, and vp-api
shows it.
"""

from collections import Counter
from collections.abc import Mapping
from statistics import median_high

from nova_vp.core.model.predict import FALLBACK_CLOCK_HZ, newcomers
from nova_vp.core.types.policy import Policy

_PRESSURES = [one.pressure_per_s for one in newcomers(FALLBACK_CLOCK_HZ, Policy())]
BY_PRESSURE = tuple(sorted(range(9), key=_PRESSURES.__getitem__))
"""The nine classes by how many cache lines a typical server of each brings in, fewest first."""
RANKS = {number: rank for rank, number in enumerate(BY_PRESSURE)}


def most_common(counts: Mapping[int, int]) -> int:
    """Of classes that are met equally often, the one that demands most."""
    return max(counts, key=lambda number: (counts[number], number))


def median_class(votes: Mapping[int, int]) -> int:
    """By cache pressure; of two middle ones the more pressing. `votes`: how many for each class.

    Fewer than half of the votes cannot move it beyond what the others say. Raises
    statistics.StatisticsError without votes.
    """
    return BY_PRESSURE[median_high(RANKS[number] for number in Counter(votes).elements())]
