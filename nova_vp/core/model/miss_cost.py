# SPDX-License-Identifier: Apache-2.0
"""What a miss costs a VP, learned from its own samples: cycles per instruction against misses.

A line through both, over the samples in which the VP does the same work (its L2 misses hold); its
slope is what one more miss costs. Out-of-order cores and prefetchers hide much of it for one
program and nothing for another. As long as the misses hardly varied the slope is uncertain, and the
default weighs more.
"""

from math import inf

from nova_vp.core.model.same_work import l2_holds
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import MissCost, Sample

KEPT = 0.99
"""Of older samples' weight, from one to the next: about a hundred of them count."""
LEAST_MPKI = 1.0
"""Who misses less teaches nothing, and loses nothing by it."""
_LEAST_SAMPLES = 5.0
_PRIOR_DEVIATION = 0.5
"""Of the default, as a share of it: how far programs differ."""
_MOST_TIMES = 4.0
"""Of the default, and the least is so small a part of it: beyond, something else has changed."""
_LEAST_VARIATION = 0.15
"""Of the misses around their mean, as a share of it: less may be noise of the counters, which moves
both figures since both are per instruction."""
_LEAST_DEVIATION = 0.05
"""Of a slope, as a share of it: samples that follow each other share their errors."""


def learned(known: MissCost, sample: Sample, policy: Policy) -> MissCost:
    """With one more complete sample."""
    l2_mpki, mpki, cpi = sample.l2_mpki, sample.mpki, sample.cpi
    weight = KEPT * known.weight + 1
    off = l2_mpki - known.l2_mpki
    if weight == 1 or not l2_holds(known.l2_mpki, l2_mpki, policy):
        return MissCost(1.0, l2_mpki, mpki, cpi)
    dx, dy = mpki - known.mpki, cpi - known.cpi
    part = 1 / weight
    left = 1 - part
    return MissCost(
        weight,
        known.l2_mpki + part * off,
        known.mpki + part * dx,
        known.cpi + part * dy,
        KEPT * known.mpki_squares + left * dx * dx,
        KEPT * known.products + left * dx * dy,
        KEPT * known.cpi_squares + left * dy * dy,
    )


def faded(known: MissCost, share: float) -> MissCost:
    """As if only this share of its samples had been taken: it says the same, and less firmly."""
    return known._replace(
        weight=share * known.weight,
        mpki_squares=share * known.mpki_squares,
        products=share * known.products,
        cpi_squares=share * known.cpi_squares,
    )


def miss_cycles(known: MissCost, policy: Policy) -> float:
    """The default and what was learned, each by how certain it is."""
    default = policy.miss_penalty_cycles
    slope, deviation = slope_cycles(known)
    doubt = (deviation / (_PRIOR_DEVIATION * default)) ** 2 if deviation < inf else inf
    if doubt == inf:
        return default
    cycles = (slope + doubt * default) / (1 + doubt)
    return min(max(cycles, default / _MOST_TIMES), default * _MOST_TIMES)


def slope_cycles(known: MissCost) -> tuple[float, float]:
    """Cycles that one more miss costs, and their standard deviation; infinite: nobody can say."""
    noise = known.weight * (_LEAST_VARIATION * known.mpki) ** 2
    if known.weight < _LEAST_SAMPLES or known.mpki_squares <= noise:
        return 0.0, inf
    slope = known.products / known.mpki_squares
    residue = max(known.cpi_squares - slope * known.products, 0.0)
    deviation = (residue / (known.weight - 2) / known.mpki_squares) ** 0.5
    return 1000 * slope, 1000 * max(deviation, _LEAST_DEVIATION * abs(slope))
