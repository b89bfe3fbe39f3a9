# SPDX-License-Identifier: Apache-2.0
"""How a calibration by guests is judged: against what the software PMU documents."""

import pytest

from nova_vp.core.types.topology import LoadCurve, LoadPoint
from tests.bench.guest_calibration import (
    CAPACITY_LINES_PER_S,
    _latency_s,
    as_numbers,
    latency_errors,
    true_latency_ns,
)
from tests.bench.paced_guests import Measured
from vp_agent.calibration.capacity import Capacity

IDLE_NS = 200 / 60 * 1000


@pytest.mark.parametrize(("load", "factor"), [(0.0, 1.0), (0.25, 1.25), (1.0, 2.0), (3.0, 2.0)])
def test_a_controller_takes_longer_by_its_utilisation(load, factor):
    found = true_latency_ns(load * CAPACITY_LINES_PER_S / 2, load * CAPACITY_LINES_PER_S / 2)
    assert found == pytest.approx(IDLE_NS * factor)


def test_a_misses_cycles_are_those_that_instructions_and_hits_leave():
    """10 hits and 50 misses in 1000 instructions: 600 + 400 + 50 x 300 cycles."""
    chase = Measured(1.0, 1.0, mpki=50, l2_mpki=60, cpi=16.0, debt_ratio=0.0, write_mpki=0.0)
    assert _latency_s(chase) == pytest.approx(300 / 60e6)


def a_curve(off: float) -> LoadCurve:
    """Below the limit as the model has it, but for an error; at the limit anything."""
    loads = [share * CAPACITY_LINES_PER_S for share in (0.0, 0.3, 0.6, 0.97)]
    own = 1e9 / IDLE_NS
    exact = [LoadPoint(load, true_latency_ns(load, own)) for load in loads]
    points = [point._replace(latency_ns=point.latency_ns * (1 + off)) for point in exact[:3]]
    return LoadCurve(0, 0, 0.0, (*points, exact[3]._replace(latency_ns=1e6)))


def test_errors_are_those_below_the_limit():
    assert max(map(abs, latency_errors(a_curve(0.0)))) < 0.05
    assert min(latency_errors(a_curve(0.2))) > 0.15


def test_the_numbers_name_the_worst():
    capacity = Capacity(1.0, curves=(a_curve(0.0), a_curve(0.2)))
    numbers = as_numbers(capacity, worst_debt=0.01)
    assert numbers["reads_error"] == numbers["writes_error"] == pytest.approx(-0.03)
    assert numbers["bandwidth_error_worst"] == pytest.approx(0.03)
    assert numbers["latency_error_worst"] > 0.15
    assert numbers["debt_ratio"] == 0.01
