# SPDX-License-Identifier: Apache-2.0
"""Where a rising function comes to zero: the model asks it hundreds of times in every run.

Regula falsi as the Illinois method has it, which needs half the steps of halving or fewer.
"""

from collections.abc import Callable

ROUNDS = 60


def root(
    function: Callable[[float], float], low: float, high: float, relative: float, absolute: float
) -> float:
    """Between `low`, where it is below zero or else is so farther down, and `high`, where it is
    not. Found when two steps in a row are no farther apart than this, as a share of it and as it
    is."""
    at_low, at_high = function(low), function(high)
    while at_low >= 0:
        low, high, at_high = low - (high - low), low, at_low
        at_low = function(low)
    found = low
    for _ in range(ROUNDS):
        last, found = found, high - at_high * (high - low) / (at_high - at_low)
        if abs(found - last) <= relative * found + absolute:
            break
        at_found = function(found)
        if at_found < 0:
            low, at_low = found, at_found
            at_high /= 2 if last < found else 1
        else:
            high, at_high = found, at_found
            at_low /= 2 if last > found else 1
    return found
