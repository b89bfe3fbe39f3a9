# SPDX-License-Identifier: Apache-2.0
"""What a host's memory bears: measured on a modelled host, kept, and overridden by options."""

import json
import os

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.core.model.predict import queueing_ratio
from nova_vp.core.types.topology import Limits, LlcDomain, Topology
from tests.vpmu_file import make_controller
from vp_agent import wiring
from vp_agent.calibration import bench
from vp_agent.calibration.capacity import (
    BUDGET_S,
    KNEE_RATIO,
    CannotCalibrate,
    KnowsCapacity,
    measured,
    modelled,
)
from vp_agent.cli import calibrate
from vp_agent.drivers.counters import CounterSettings
from vp_agent.drivers.counters_none import NoCounters
from vp_agent.drivers.counters_vpmu import VpmuCounters
from vp_agent.drivers.fake import FakeGuests, FakeHost
from vp_agent.format import limits_line
from vp_agent.loop.state import Calibration, StateFolder

GB = 1e9


def nodes(count: int, cpus: int = 8, distances=()) -> Topology:
    return Topology(
        tuple(LlcDomain(n, n, frozenset(range(n * cpus, (n + 1) * cpus))) for n in range(count)),
        distances,
    )


class ModelledHost:
    """A CPU reads 10 GB/s until the controller, or the link, is full."""

    def __init__(self, topology, controllers, link=20 * GB, remote=1.6, step_s=1.0) -> None:
        self._node_of = {cpu: d.node for d in topology.domains for cpu in d.cpus}
        self._controllers, self._link, self._remote = controllers, link, remote
        self._step_s = step_s
        self.now_s = 0.0
        self.read = []

    def clock(self) -> float:
        return self.now_s

    def read_bytes_per_s(self, cpus, node, span_s):
        self.now_s += self._step_s
        [here] = {self._node_of[cpu] for cpu in cpus}
        self.read.append((here, node, len(cpus)))
        most = self._controllers[node] if here == node else min(self._link, self._controllers[node])
        return min(10 * GB * len(cpus), most)

    def latency_s(self, cpu, node, span_s):
        self.now_s += self._step_s
        return 1e-7 if self._node_of[cpu] == node else 1e-7 * self._remote


def found(topology, host):
    return measured(host, topology, host.clock, lambda _: None)


def test_the_weakest_node_and_link_count_and_a_share_of_them_is_the_limit():
    topology = nodes(2)
    capacity = found(topology, ModelledHost(topology, {0: 51.2 * GB, 1: 38.4 * GB}))
    assert capacity.node_lines_per_s == pytest.approx(0.6e9)
    assert capacity.limits == Limits(
        node_misses_per_s=pytest.approx(0.6e9 * KNEE_RATIO),
        link_misses_per_s=pytest.approx(20 * GB / 64 * KNEE_RATIO),
        remote_penalty_ratio=pytest.approx(1.6),
    )


def test_the_core_takes_the_limit_for_what_was_calibrated():
    """Half of what the memory moves flat out is half a load: by M/D/1 half as long again."""
    topology = nodes(2)
    capacity = found(topology, ModelledHost(topology, {0: 51.2 * GB, 1: 51.2 * GB}))
    limit = capacity.limits.node_misses_per_s
    assert queueing_ratio(capacity.node_lines_per_s / 2, limit) == pytest.approx(1.5)


def test_it_says_whether_the_cpus_could_fill_the_controller():
    topology = nodes(2)
    notes = found(topology, ModelledHost(topology, {0: 35 * GB, 1: 500 * GB})).notes
    assert notes == (
        "node 0: 4 of 8 CPUs saturate its memory controller",
        "node 1: its CPUs cannot saturate its memory controller; the real limit is higher",
    )


def test_one_node_has_no_link_and_keeps_the_usual_penalty():
    topology = nodes(1)
    limits = found(topology, ModelledHost(topology, {0: 40 * GB})).limits
    assert limits.link_misses_per_s is None
    assert limits.remote_penalty_ratio == Limits().remote_penalty_ratio


def test_a_penalty_below_one_is_noise():
    topology = nodes(2)
    host = ModelledHost(topology, {0: 40 * GB, 1: 40 * GB}, remote=0.9)
    assert found(topology, host).limits.remote_penalty_ratio == 1.0


def test_the_next_and_the_farthest_node_are_tried():
    near, far = 16, 32
    distances = tuple(
        (a, b, 10 if a == b else (far if abs(a - b) == 2 else near))
        for a in range(4)
        for b in range(4)
    )
    topology = nodes(4, distances=distances)
    host = ModelledHost(topology, dict.fromkeys(range(4), 40 * GB), step_s=0.1)
    found(topology, host)
    remote = {(a, b) for a, b, _ in host.read if a != b}
    assert remote == {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 0), (3, 0), (3, 1)}


def test_when_time_is_up_what_tells_most_was_measured():
    topology = nodes(8)
    host = ModelledHost(topology, dict.fromkeys(range(8), 40 * GB), step_s=2.0)
    told = []
    capacity = measured(host, topology, host.clock, told.append)
    assert host.now_s <= BUDGET_S + 4
    assert {(a, b) for a, b, _ in host.read if a == b} == {(n, n) for n in range(8)}
    assert capacity.node_lines_per_s == pytest.approx(40 * GB / 64)
    assert capacity.link_lines_per_s == pytest.approx(20 * GB / 64)
    assert capacity.remote_penalty_ratio == pytest.approx(1.6)
    assert told[-1].startswith("time limit reached: ")


def test_caches_of_one_node_are_used_in_turn():
    """Two CPUs are of two LLCs, so that both ways into the controller are used."""
    topology = Topology(
        (LlcDomain(0, 0, frozenset({0, 1})), LlcDomain(1, 0, frozenset({2, 3}))),
    )
    seen = []

    class Host(ModelledHost):
        def read_bytes_per_s(self, cpus, node, span_s):
            seen.append(tuple(cpus))
            return super().read_bytes_per_s(cpus, node, span_s)

    found(topology, Host(topology, {0: 40 * GB}))
    assert seen == [(0, 2, 1, 3), (0,), (0, 2)]


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


def test_the_command_takes_the_model_although_servers_run(tmp_path):
    make_controller(tmp_path, 0, 4_800_000)
    host = FakeHost()
    host.boot()
    done = calibrate.run(vpmu(tmp_path), FakeGuests(host), print, is_forced=False)
    assert done.record.how == "vpmu"
    assert done.lines[0].startswith("limits: 3.4 M misses/s per NUMA node")


def test_it_does_not_measure_beside_running_servers():
    host = FakeHost()
    for _ in range(7):
        host.boot()
    with pytest.raises(
        CannotCalibrate, match=r"7 servers run on this host \(server-1, .*\.\.\.\).*--force"
    ):
        calibrate.run(NoCounters(""), FakeGuests(host), print, is_forced=False)


def host_with(folder, llc_kib, sharers_by_cpu, free_kib):
    """A host as sysfs shows it: two caches a CPU, and one node."""
    for cpu, sharers in sharers_by_cpu.items():
        for index, (level, kib) in enumerate([(1, 32), (3, llc_kib)]):
            cache = folder / f"cpu/cpu{cpu}/cache/index{index}"
            cache.mkdir(parents=True)
            (cache / "level").write_text(f"{level}\n")
            (cache / "size").write_text(f"{kib}K\n")
            (cache / "shared_cpu_list").write_text(f"{sharers}\n")
    (folder / "node/node0").mkdir(parents=True)
    (folder / "node/has_memory").write_text("0\n")
    fill(folder, free_kib)
    return bench.HostBench(binds=True, sysfs=folder)


def fill(folder, free_kib, clean_kib=0):
    kib = {"MemTotal": 0, "MemFree": free_kib, "Inactive(file)": clean_kib + 3}
    kib |= {"Dirty": 2, "Writeback": 1}
    lines = [f"Node 0 {name}: {value} kB" for name, value in kib.items()]
    (folder / "node/node0/meminfo").write_text("\n".join(lines) + "\n")


def test_memory_is_measured_for_real(tmp_path):
    """Whatever it bears, it is something; its one node is enough for binding too.

    The caches are made up: those of a large machine ask for more memory than a small guest has.
    """
    cpu = min(os.sched_getaffinity(0))
    real = host_with(tmp_path, 2048, {cpu: cpu}, free_kib=1 << 20)
    assert real.read_bytes_per_s((cpu,), 0, 0.05) > 0
    with pytest.raises(bench.BenchFailed, match="memory of node 1000"):
        real.read_bytes_per_s((cpu,), 1000, 0.05)
    with pytest.raises(bench.BenchFailed, match="cannot be measured on this host"):
        real.latency_s(8191, 0, 0.05)


def test_buffers_are_far_larger_than_the_cache_and_within_free_memory(tmp_path):
    sharers = {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}
    host = host_with(tmp_path, 32768, sharers, free_kib=4 << 20)
    mib = 1 << 20
    assert host._buffer_bytes((0,), 0) == {0: 128 * mib}
    assert host._buffer_bytes((0, 2, 1), 0) == {0: 64 * mib, 1: 64 * mib, 2: 128 * mib}
    fill(tmp_path, 400000)
    with pytest.raises(bench.BenchFailed, match="free memory"):
        host._buffer_bytes((0,), 0)


def test_clean_page_cache_counts_as_free(tmp_path):
    host = host_with(tmp_path, 32768, {0: "0"}, free_kib=400000)
    fill(tmp_path, 400000, clean_kib=400000)
    assert host._buffer_bytes((0,), 0) == {0: 128 << 20}


@pytest.fixture
def conf():
    fresh = cfg.ConfigOpts()
    options.register_all(fresh)
    fresh([], default_config_files=[])
    return fresh


def test_what_was_found_is_read_at_the_next_start_and_options_win(tmp_path, conf):
    state = StateFolder(str(tmp_path))
    assert wiring.limits(conf, state) == Limits()
    state.set_calibration(Calibration(Limits(3.5e6, None, 1.7), 1e9, "measured"))
    assert wiring.limits(conf, StateFolder(str(tmp_path))) == Limits(3.5e6, None, 1.7)
    conf.set_override("node_limit_misses_per_s", 1e6, group="agent")
    conf.set_override("link_limit_misses_per_s", 2e6, group="agent")
    conf.set_override("remote_penalty_ratio", 2.0, group="agent")
    assert wiring.limits(conf, state) == Limits(1e6, 2e6, 2.0)
    conf.set_override("remote_penalty_ratio", 0.5, group="agent")
    with pytest.raises(cfg.Error, match="give 1 or more"):
        wiring.limits(conf, state)


GOOD = {
    "node_misses_per_s": 1e6,
    "link_misses_per_s": None,
    "remote_penalty_ratio": 1.4,
    "at": 1.0,
    "how": "measured",
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "soup",
        "[" * 100_000,
        *(json.dumps(GOOD | {name: value}) for name in list(GOOD)[:3] for value in (0, -1, "soup")),
        json.dumps(GOOD | {"node_misses_per_s": float("inf")}),
        json.dumps({}),
    ],
)
def test_an_odd_file_is_no_calibration(tmp_path, text):
    (tmp_path / "limits.json").write_text(text)
    assert StateFolder(str(tmp_path)).calibration() is None


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
