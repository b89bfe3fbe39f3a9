# SPDX-License-Identifier: Apache-2.0
"""What a host's memory bears: the calibration procedure on memory whose truth is known."""

import os
from dataclasses import replace
from itertools import chain, product

import pytest

from nova_vp.core.model.latency import SERVICE_RATIO, queueing_ratio
from nova_vp.core.types.topology import Limits, LlcDomain, LoadCurve, LoadPoint, Topology
from tests.modelled_memory import GB, ModelledMemory
from tests.vpmu_file import make_controller
from vp_agent.calibration.capacity import (
    ESTIMATED,
    KNEE_RATIO,
    CannotCalibrate,
    KnowsCapacity,
    Measured,
    capacity_of,
    modelled,
)
from vp_agent.calibration.curves import latency_ns_at
from vp_agent.calibration.load import MIXED
from vp_agent.calibration.procedure import BUDGET_S, SHARES, measured
from vp_agent.drivers.counters import CounterSettings
from vp_agent.drivers.counters_none import NoCounters
from vp_agent.drivers.counters_vpmu import VpmuCounters
from vp_agent.format import limits_line


def nodes(count: int, cpus: int = 9, distances=()) -> Topology:
    return Topology(
        tuple(LlcDomain(n, n, frozenset(range(n * cpus, (n + 1) * cpus))) for n in range(count)),
        distances,
    )


def found(topology, host):
    return measured(host, topology, host.clock, lambda _: None)


def curves_of(capacity):
    """By node of the CPUs and of the memory, and with write-backs or without."""
    return {(c.cpu_node, c.memory_node, c.writeback_ratio > 0): c for c in capacity.curves}


def test_the_weakest_node_and_link_count_and_a_share_of_them_is_the_limit():
    topology = nodes(2)
    capacity = found(topology, ModelledMemory(topology, {0: 51.2 * GB, 1: 38.4 * GB}))
    assert capacity.node_lines_per_s == pytest.approx(0.6e9)
    limits = replace(capacity.limits, curves=())
    assert limits == Limits(
        node_misses_per_s=pytest.approx(0.6e9 * KNEE_RATIO),
        link_misses_per_s=pytest.approx(20 * GB / 64 * KNEE_RATIO),
        remote_penalty_ratio=pytest.approx(1.6),
    )


def test_the_core_takes_the_limit_for_what_was_calibrated():
    """Half of what the memory moves flat out is half a load: the wait is one service time."""
    topology = nodes(2)
    capacity = found(topology, ModelledMemory(topology, {0: 51.2 * GB, 1: 51.2 * GB}))
    limit = capacity.limits.node_misses_per_s
    ratio = queueing_ratio(capacity.node_lines_per_s / 2, limit)
    assert ratio == pytest.approx(1 + SERVICE_RATIO)


def test_every_controller_and_every_link_has_a_curve_with_reads_and_one_with_writes():
    topology = nodes(3)
    capacity = found(topology, ModelledMemory(topology, dict.fromkeys(range(3), 40 * GB)))
    assert set(curves_of(capacity)) == set(product(range(3), range(3), (False, True)))
    mixed = curves_of(capacity)[0, 0, True]
    assert mixed.writeback_ratio == pytest.approx(MIXED)


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("there", [0, 1])
def test_a_curve_is_the_latency_that_the_memory_has_under_each_load(there, writes):
    topology = nodes(2)
    host = ModelledMemory(topology, {0: 40 * GB, 1: 40 * GB})
    curve = curves_of(found(topology, host))[0, there, writes]
    most = host.most_bytes_per_s(0, there) / 64
    assert [point.lines_per_s / most for point in curve.points] == pytest.approx([0, *SHARES, 1])
    for point in curve.points:
        load = min(point.lines_per_s / most, 0.95)
        assert point.latency_ns == pytest.approx(1e9 * host.latency_s(0, there, load))


def test_between_points_a_curve_is_a_line_and_beyond_its_end_it_is_flat():
    curve = LoadCurve(0, 0, 0.0, (LoadPoint(0, 100), LoadPoint(10, 120), LoadPoint(20, 200)))
    assert [latency_ns_at(curve, lines) for lines in (0, 5, 10, 15, 20, 30)] == [
        100, 110, 120, 160, 200, 200,
    ]  # fmt: skip


def test_it_says_whether_the_cpus_could_fill_the_controller():
    topology = nodes(2)
    notes = found(topology, ModelledMemory(topology, {0: 35 * GB, 1: 500 * GB})).notes
    assert notes == (
        "node 0: 4 of 8 CPUs saturate its memory controller",
        "node 1: its CPUs cannot saturate its memory controller; the real limit is higher",
    )


def test_one_node_has_no_link_and_keeps_the_usual_penalty():
    topology = nodes(1)
    limits = found(topology, ModelledMemory(topology, {0: 40 * GB})).limits
    assert limits.link_misses_per_s is None
    assert limits.remote_penalty_ratio == Limits().remote_penalty_ratio


def test_a_penalty_below_one_is_noise():
    topology = nodes(2)
    host = ModelledMemory(topology, {0: 40 * GB, 1: 40 * GB}, remote=0.9)
    assert found(topology, host).limits.remote_penalty_ratio == 1.0


def test_the_next_and_the_farthest_node_are_tried_first():
    near, far = 16, 32
    distances = tuple(
        (a, b, 10 if a == b else (far if abs(a - b) == 2 else near))
        for a in range(4)
        for b in range(4)
    )
    topology = nodes(4, distances=distances)
    host = ModelledMemory(topology, dict.fromkeys(range(4), 40 * GB), step_s=0.1)
    found(topology, host)
    remote = list(dict.fromkeys((a, b) for a, b, _ in host.loads if a != b))
    assert set(remote[:8]) == {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 0), (3, 0), (3, 1)}
    assert set(remote[8:]) == {(0, 3), (1, 0), (2, 1), (3, 2)}


def test_when_time_is_up_what_tells_most_was_measured():
    topology = nodes(8)
    host = ModelledMemory(topology, dict.fromkeys(range(8), 40 * GB), step_s=1.2)
    told = []
    capacity = measured(host, topology, host.clock, told.append)
    assert host.now_s <= BUDGET_S + 20
    assert {(a, b) for a, b, _ in host.loads if a == b} == {(n, n) for n in range(8)}
    assert capacity.node_lines_per_s == pytest.approx(40 * GB / 64)
    assert capacity.link_lines_per_s == pytest.approx(20 * GB / 64)
    assert capacity.remote_penalty_ratio == pytest.approx(1.6)
    assert told[-1].startswith("time limit reached: ")
    assert capacity.notes[-1].startswith("no time was left for the nodes of CPUs and memory ")


def test_caches_of_one_node_are_used_in_turn():
    """Two CPUs are of two LLCs, so that both ways into the controller are used."""
    topology = Topology(
        (LlcDomain(0, 0, frozenset({0, 1, 4})), LlcDomain(1, 0, frozenset({2, 3}))),
    )
    host = ModelledMemory(topology, {0: 40 * GB})
    found(topology, host)
    flat_out = {load.cpus for _, _, load in host.loads if load.lines_per_s is None}
    assert flat_out == {(), (0, 2, 1, 3), (0,), (0, 2)}
    assert host.timers == [4]


def test_who_shares_a_core_with_the_timer_loads_nothing():
    topology = nodes(1, cpus=4)
    pairs = {0: frozenset({0, 2}), 1: frozenset({1, 3}), 3: frozenset({1, 3})}
    host = ModelledMemory(topology, {0: 40 * GB}, siblings=pairs)
    found(topology, host)
    assert set(chain.from_iterable(load.cpus for _, _, load in host.loads)) == {0, 2}


def test_on_one_core_of_two_threads_the_other_thread_loads():
    topology = nodes(1, cpus=2)
    host = ModelledMemory(topology, {0: 40 * GB}, siblings=dict.fromkeys((0, 1), frozenset({0, 1})))
    found(topology, host)
    assert set(chain.from_iterable(load.cpus for _, _, load in host.loads)) == {0}


def test_a_node_of_one_cpu_is_told_so_before_anything_is_measured():
    topology = nodes(2, cpus=1)
    host = ModelledMemory(topology, {0: 40 * GB, 1: 40 * GB})
    with pytest.raises(CannotCalibrate, match=r"node 0 has one CPU.*node_limit_misses_per_s"):
        found(topology, host)
    assert host.loads == []


@pytest.mark.parametrize(("counted_by", "told"), [("uncore", "uncore"), ("", ESTIMATED)])
def test_it_says_whether_write_backs_were_counted(counted_by, told):
    topology = nodes(1)
    host = ModelledMemory(topology, {0: 40 * GB}, counted_by=counted_by)
    assert found(topology, host).writebacks == told


def test_write_backs_that_were_counted_for_one_route_alone_are_estimates():
    def one(node, counted_by):
        points = (LoadPoint(0, 100), LoadPoint(1e6, 200))
        return Measured((LoadCurve(node, node, 0.0, points),), {1: 1e6}, counted_by)

    assert capacity_of([one(0, "uncore"), one(1, "uncore")]).writebacks == "uncore"
    assert capacity_of([one(0, "uncore"), one(1, "")]).writebacks == ESTIMATED


def vpmu(folder):
    return VpmuCounters(CounterSettings(connect=lambda: None, vpmu_directory=folder))


def test_a_modelled_host_is_asked_for_its_model(tmp_path):
    source = vpmu(tmp_path)
    assert isinstance(source, KnowsCapacity)
    assert not isinstance(NoCounters(""), KnowsCapacity)
    with pytest.raises(CannotCalibrate, match="Start one server"):
        modelled(source)
    make_controller(tmp_path, 0, 4_800_000)
    make_controller(tmp_path, 1, 2_400_000)
    # Whatever else lies there is no controller.
    make_controller(tmp_path, 2, 7, magic=1)
    make_controller(tmp_path, 3, 7, version=9)
    (tmp_path / "mc.4").write_bytes(b"short")
    os.mkfifo(tmp_path / "mc.5")
    limits = modelled(source).limits
    assert limits.node_misses_per_s == pytest.approx(2_400_000 * KNEE_RATIO)
    assert limits.link_misses_per_s is None


def test_status_tells_the_limits():
    line = limits_line(
        {"node_misses_per_s": None, "remote_penalty_ratio": 1.4, "link_misses_per_s": 0}
    )
    assert "not calibrated" in line
    line = limits_line(
        {"node_misses_per_s": 3.36e6, "link_misses_per_s": 1.2e6, "remote_penalty_ratio": 1.6}
    )
    assert line == (
        "limits: 3.4 M misses/s per NUMA node, 1.2 M misses/s per link; remote latency 1.60 x local"
    )
