# SPDX-License-Identifier: Apache-2.0
"""Reading a load curve between its points."""

from itertools import pairwise

from nova_vp.core.types.topology import LoadCurve


def highest_lines_per_s(curve: LoadCurve) -> float:
    return curve.points[-1].lines_per_s


def latency_ns_at(curve: LoadCurve, lines_per_s: float) -> float:
    """On a line between the points around it; beyond the last one, that one's."""
    for below, above in pairwise(curve.points):
        if lines_per_s <= above.lines_per_s:
            span = above.lines_per_s - below.lines_per_s
            way = (lines_per_s - below.lines_per_s) / span if span else 1.0
            return below.latency_ns + way * (above.latency_ns - below.latency_ns)
    return curve.points[-1].latency_ns
