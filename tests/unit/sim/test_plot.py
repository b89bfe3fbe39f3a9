# SPDX-License-Identifier: Apache-2.0
"""What a picture of a comparison shows of applications that are faster under a policy."""

import pytest
from matplotlib import pyplot
from matplotlib.patches import Rectangle

from vp_sim.measure import OfApplication, OfOrder, OfPolicy
from vp_sim.plot import draw_comparison


def policy(**median: float) -> OfPolicy:
    applications = {
        name: OfApplication(value, value, (value, value), value, ((0,),))
        for name, value in median.items()
    }
    return OfPolicy(
        (OfOrder(max(median.values()), 1.0, {}),), 0.0, 0.0, 0.0, 100.0, 0.0, applications
    )


def test_bars_below_zero_are_seen_whole():
    figure, axes = pyplot.subplots()
    draw_comparison(axes, {"baseline": policy(db=0.015, web=0.0), "vp": policy(db=-0.118, web=0.0)})
    lowest, highest = axes.get_ylim()
    bars = [part.get_height() for part in axes.patches if isinstance(part, Rectangle)]
    pyplot.close(figure)
    assert bars == pytest.approx([1.5, 0.0, -11.8, 0.0])
    assert lowest < -12.0
    assert highest > 1.6
