# SPDX-License-Identifier: Apache-2.0
"""Latency of a loaded memory controller: by the host's curve, by its limit, by the thesis's sum."""

import pytest

from nova_vp.core.model.latency import Flow, MemoryLatency, queueing_ratio
from nova_vp.core.types.topology import Limits, LoadCurve, LoadPoint
from tests.policies import a_policy

POLICY = a_policy()
HERE = (0, 0)
CURVE = LoadCurve(0, 0, 0.0, (LoadPoint(0.0, 100.0), LoadPoint(6e6, 110.0), LoadPoint(9e6, 180.0)))
MEASURED = MemoryLatency(Limits(node_misses_per_s=7e6, curves=(CURVE,)), POLICY)


def test_a_miss_keeps_a_controller_busy_for_a_small_part_of_its_latency():
    """Nine tenths of what it serves: measured curves rise by a half to twice, not fivefold."""
    assert 1.2 < queueing_ratio(9e6, 7e6) < 2.0


@pytest.mark.parametrize(
    ("misses_per_s", "ratio"), [(0.0, 1.0), (3e6, 1.05), (6e6, 1.1), (7.5e6, 1.45), (9e6, 1.8)]
)
def test_the_curve_of_the_calibration_decides(misses_per_s, ratio):
    assert MEASURED.open_ratio(HERE, misses_per_s) == pytest.approx(ratio)


def test_below_its_first_point_a_miss_takes_as_long_as_there():
    """A calibration file need not begin without load."""
    measured = LoadCurve(0, 0, 0.0, (LoadPoint(1e6, 100.0), LoadPoint(9e6, 180.0)))
    latency = MemoryLatency(Limits(node_misses_per_s=7e6, curves=(measured,)), POLICY)
    assert latency.open_ratio(HERE, 5e5) == 1.0


def test_beyond_its_last_point_the_wait_goes_on_rising():
    ratios = [MEASURED.open_ratio(HERE, load) for load in (9e6, 9.5e6, 9.9e6, 2e7)]
    assert ratios == sorted(ratios)
    assert ratios[1] == pytest.approx(1.8 + 0.8)
    assert ratios[-1] > 10


def test_a_curve_measured_up_to_all_that_a_controller_serves_rises_there():
    """Whoever asks for more is slowed until it fits, however slowly the curve rose before."""
    points = (LoadPoint(0.0, 100.0), LoadPoint(5e6, 150.0), LoadPoint(1e7, 200.0))
    full = Limits(node_misses_per_s=7e6, curves=(LoadCurve(0, 0, 0.0, points),))
    latency = MemoryLatency(full, POLICY)
    three = [Flow(8e6, 0.8)] * 3
    ratio = latency.ratio(HERE, three)
    assert sum(one.demand / (1 + one.stall_share * (ratio - 1)) for one in three) <= 1.02e7


def test_noise_makes_no_controller_faster_under_load():
    falling = LoadCurve(0, 0, 0.0, (LoadPoint(0.0, 100.0), LoadPoint(1e6, 90.0)))
    latency = MemoryLatency(Limits(node_misses_per_s=7e6, curves=(falling,)), POLICY)
    assert latency.open_ratio(HERE, 5e5) == 1.0


def test_lines_that_were_written_back_while_it_was_measured_are_no_misses():
    mixed = LoadCurve(0, 0, 0.5, (LoadPoint(0.0, 100.0), LoadPoint(9e6, 160.0)))
    latency = MemoryLatency(Limits(node_misses_per_s=7e6, curves=(mixed,)), POLICY)
    assert latency.open_ratio(HERE, 6e6) == pytest.approx(1.6)


def test_of_two_curves_of_one_controller_the_first_one_decides():
    """That of reads alone: nobody knows what a VP writes back."""
    mixed = LoadCurve(0, 0, 0.5, (LoadPoint(0.0, 100.0), LoadPoint(9e6, 160.0)))
    latency = MemoryLatency(Limits(node_misses_per_s=7e6, curves=(CURVE, mixed)), POLICY)
    assert latency.open_ratio(HERE, 7.5e6) == pytest.approx(1.45)


def test_another_nodes_curve_and_one_without_a_time_say_nothing():
    silent = LoadCurve(0, 0, 0.0, (LoadPoint(0.0, 0.0), LoadPoint(1e6, 90.0)))
    latency = MemoryLatency(Limits(node_misses_per_s=7e6, curves=(silent,)), POLICY)
    assert latency.open_ratio(HERE, 5e6) == queueing_ratio(5e6, 7e6)
    assert MEASURED.open_ratio((1, 1), 5e6) == queueing_ratio(5e6, 7e6)


def test_where_nobody_calibrated_the_sum_of_the_thesis_is_the_load():
    latency = MemoryLatency(Limits(), POLICY)
    at_threshold = latency.open_ratio(HERE, POLICY.hot_node_mpki)
    assert at_threshold == queueing_ratio(1.0, 1.0)
    assert latency.open_ratio((0, 1), 1e9) == 1.0


def test_who_is_slowed_by_a_controller_fills_it_less():
    """Twice of what it serves: they are slowed until it serves what they ask for."""
    latency = MemoryLatency(Limits(node_misses_per_s=7e6), POLICY)
    ratio = latency.ratio(HERE, [Flow(1e7, 0.8), Flow(1e7, 0.8)])
    assert 2e7 / (1 + 0.8 * (ratio - 1)) == pytest.approx(1e7, rel=0.05)
    assert latency.ratio(HERE, [Flow(1e7, 0.0)]) > 10
    assert latency.ratio((0, 1), [Flow(1e7, 0.8)]) == 1.0
