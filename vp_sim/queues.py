# SPDX-License-Identifier: Apache-2.0
"""How long an access waits at a memory controller or a link, by its load.

Two forms, of which a machine has one (`queue_form`). Neither is the form that the decision core
predicts with, so that a policy is never judged by its own formula. Both grow without limit as the
load comes to 1, so that nothing ever moves more than it can.
"""

import enum
from bisect import bisect_right
from itertools import pairwise
from math import sqrt

POINTS = (
    (0.0, 0.0),
    (0.4, 0.015),
    (0.6, 0.04),
    (0.7, 0.065),
    (0.8, 0.11),
    (0.9, 0.24),
    (0.95, 0.5),
)
"""(load, share of the idle latency that is added): flat, then a knee near nine tenths of what can
be moved, as programs that measure latency under load (Intel's Memory Latency Checker) show it on
servers of several generations. Estimated: no such curve was published of the thesis's machine."""


class QueueForm(enum.Enum):
    """How the wait grows with the load."""

    CHANNELS = "channels"
    """Random arrivals, random service times, one server per channel (M/M/c, by Sakasegawa's
    approximation of 1977, which needs no whole number of channels)."""
    CURVE = "curve"
    """Straight lines between measured points."""


def scaled_wait_ns(
    form: QueueForm, load: float, line_ns: float, channels: float, idle_ns: float
) -> float:
    """The wait times (1 - load): finite for every load, beyond 1 too, and rising with it.

    `line_ns` is the time between two lines when all channels are busy, `idle_ns` the latency
    without any load.
    """
    if form is QueueForm.CHANNELS:
        return float(line_ns * load ** (sqrt(2 * (channels + 1)) - 1))
    return idle_ns * _added_ratio(load) * (1 - min(load, POINTS[-1][0]))


def _added_ratio(load: float) -> float:
    at = bisect_right(_LOADS, load)
    if at == len(POINTS):
        return POINTS[-1][1]
    (low, few), slope = POINTS[at - 1], _SLOPES[at - 1]
    return few + slope * (load - low)


_LOADS = tuple(load for load, _ in POINTS)
_SLOPES = tuple((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(POINTS))
