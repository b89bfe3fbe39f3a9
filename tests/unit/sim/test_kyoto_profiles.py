# SPDX-License-Identifier: Apache-2.0
"""The applications of the Kyoto paper miss alone in the orders that it prints (4.2)."""

import pytest

from vp_sim.app_profiles import ROWS
from vp_sim.apps import app_of
from vp_sim.contention import Contention
from vp_sim.kyoto_profiles import KYOTO_HARDWARE, KYOTO_SHAPE, of_one_vcpu
from vp_sim.loads import Load
from vp_sim.machine import machine_of

BY_MISSES = "milc lbm soplex mcf blockie gcc omnetpp xalan astar bzip"
BY_EQUATION_1 = "lbm blockie milc mcf soplex gcc omnetpp xalan astar bzip"


def alone(name):
    contention = Contention(machine_of(KYOTO_SHAPE, KYOTO_HARDWARE))
    app = app_of(of_one_vcpu(ROWS[name]))
    [speed] = contention.speeds([Load(app, 1.0, ((0, app.busy_ratio),), ((0, 1.0),))])
    return speed


@pytest.mark.parametrize(
    ("order", "measure"),
    [
        (BY_MISSES, lambda speed: speed.mpki),
        (BY_EQUATION_1, lambda speed: speed.misses_per_s / speed.cycles_per_s),
    ],
)
def test_alone_they_miss_in_the_order_that_the_paper_prints(order, measure):
    names = order.split()
    assert sorted(names, key=lambda name: -measure(alone(name))) == names
