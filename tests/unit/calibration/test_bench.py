# SPDX-License-Identifier: Apache-2.0
"""Loading this machine's memory for real, as far as any machine can show it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until
from vp_agent.calibration import bench, bench_worker
from vp_agent.calibration.load import MIXED, READS, BenchFailed, Load

CPU = min(os.sched_getaffinity(0))
TIMER = max(os.sched_getaffinity(0))
SPAN_S = 0.05
CACHES = dict.fromkeys((CPU, TIMER), CPU)


def host_with(folder, llc_kib, sharers_by_cpu, free_kib, counter=None):
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
    return bench.HostBench(binds=True, sysfs=folder, counter=counter)


def fill(folder, free_kib, clean_kib=0):
    kib = {"MemTotal": 0, "MemFree": free_kib, "Inactive(file)": clean_kib + 3}
    kib |= {"Dirty": 2, "Writeback": 1}
    lines = [f"Node 0 {name}: {value} kB" for name, value in kib.items()]
    (folder / "node/node0/meminfo").write_text("\n".join(lines) + "\n")


@pytest.fixture
def real(tmp_path):
    """The caches are made up: those of a large machine ask for more memory than a small guest has.
    One node is enough for binding too."""
    return host_with(tmp_path, 2048, CACHES, free_kib=1 << 20)


def test_memory_is_measured_for_real(real):
    with real.route((CPU,), TIMER, 0) as route:
        idle = route.measure(Load((), READS), SPAN_S)
        reads = route.measure(Load((CPU,), READS), SPAN_S)
        mixed = route.measure(Load((CPU,), MIXED), SPAN_S)
    assert idle.lines_per_s == 0
    assert idle.latency_s > 0
    assert reads.read_lines_per_s > 0
    assert reads.written_lines_per_s == 0
    assert mixed.written_lines_per_s == pytest.approx(MIXED * mixed.read_lines_per_s, rel=0.05)
    assert mixed.counted_by == ""


def test_a_load_is_held_to_its_rate(real):
    """Slow enough for a machine that has other things to do: it may fall behind, never ahead."""
    lines_per_s = 5e5
    with real.route((CPU,), TIMER, 0) as route:
        found = route.measure(Load((CPU,), MIXED, lines_per_s), 4 * SPAN_S)
    chunk = 2 * bench_worker._CHUNK_BYTES / bench_worker.LINE_BYTES
    assert 0 < found.lines_per_s <= lines_per_s + chunk / (4 * SPAN_S)


def test_what_cannot_be_measured_says_why(real):
    with (
        pytest.raises(BenchFailed, match="memory of node 1000"),
        real.route((), TIMER, 0),
        bench._Worker(bench_worker.LOAD, CPU, 1000, 1 << 20) as worker,
    ):
        worker.wait_until_ready()
    with (
        pytest.raises(BenchFailed, match=r"measured on this host: .*CPU 8191: .*AllowedCPUs="),
        real.route((), 8191, 0),
    ):
        pass


class Counter:
    """Counts so many lines a reading."""

    def __init__(self, name, counts_reads, each):
        self.name, self.counts_reads, self._each = name, counts_reads, each
        self._lines = 0.0

    def lines(self, node):
        self._lines += self._each
        return self._lines

    def close(self):
        """Nothing is held."""


def test_lines_written_back_are_counted_where_a_counter_sees_them(tmp_path):
    counter = Counter("uncore", False, 1e9)
    host = host_with(tmp_path, 2048, CACHES, free_kib=1 << 20, counter=counter)
    with host.route((CPU,), TIMER, 0) as route:
        found = route.measure(Load((CPU,), MIXED), SPAN_S)
    assert found.written_lines_per_s == 1e9 / SPAN_S
    assert found.counted_by == "uncore"


@pytest.mark.parametrize("counts_reads", [False, True])
def test_a_counter_that_misses_write_backs_is_not_believed(tmp_path, counts_reads):
    counter = Counter("resctrl", counts_reads, 1)
    host = host_with(tmp_path, 2048, CACHES, free_kib=1 << 20, counter=counter)
    with host.route((CPU,), TIMER, 0) as route:
        found = route.measure(Load((CPU,), MIXED), SPAN_S)
    assert found.written_lines_per_s == pytest.approx(MIXED * found.read_lines_per_s, rel=0.05)
    assert found.counted_by == ""


MEASURES_FOR_EVER = """
import sys
from pathlib import Path
from vp_agent.calibration.bench import HostBench
from vp_agent.calibration.load import Load
host = HostBench(binds=False, sysfs=Path(sys.argv[1]))
cpu, timer = map(int, sys.argv[2:])
with host.route((cpu,), timer, 0) as route:
    print("loads", flush=True)
    while True:
        route.measure(Load((cpu,), 0.0), 60.0)
"""


def test_what_loads_memory_ends_with_who_was_killed(real, tmp_path):
    words = [str(tmp_path), str(CPU), str(TIMER)]
    killed = subprocess.Popen(
        [sys.executable, "-c", MEASURES_FOR_EVER, *words], stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout.readline() == "loads\n"
    children = [Path("/proc") / pid for pid in children_of(killed.pid)]
    assert len(children) == 2
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    wait_until(lambda: not any(map(runs, children)), "the loading processes to end")


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def runs(process):
    """A zombie that nobody has buried yet loads nothing."""
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_buffers_are_far_larger_than_the_cache_and_within_free_memory(tmp_path):
    sharers = {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}
    host = host_with(tmp_path, 32768, sharers, free_kib=4 << 20)
    mib = 1 << 20
    assert host._buffer_bytes((0,), 0) == {0: 128 * mib}
    assert host._buffer_bytes((0, 2, 1), 0) == {0: 64 * mib, 1: 64 * mib, 2: 128 * mib}
    fill(tmp_path, 200000)
    with pytest.raises(BenchFailed, match="free memory"):
        host._buffer_bytes((0,), 0)


def test_clean_page_cache_counts_as_free(tmp_path):
    host = host_with(tmp_path, 32768, {0: "0"}, free_kib=200000)
    fill(tmp_path, 200000, clean_kib=200000)
    assert host._buffer_bytes((0,), 0) == {0: 128 << 20}


def test_siblings_are_those_that_sysfs_names(tmp_path):
    host = host_with(tmp_path, 2048, {0: "0"}, free_kib=1 << 20)
    assert host.siblings(0) == {0}
    (tmp_path / "cpu/cpu0/topology").mkdir()
    (tmp_path / "cpu/cpu0/topology/thread_siblings_list").write_text("0,4\n")
    assert host.siblings(0) == {0, 4}
