# SPDX-License-Identifier: Apache-2.0
"""CPU times of vCPUs against this kernel: threads that share a CPU wait, throttled ones do not.

Other work on this machine makes threads wait too. It can only add to what is asked for here.
"""

import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nova_vp.core.types.cpu_time import CpuTimes, HostCpuTimes
from tests.waiting import wait_until
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.cgroups import mount
from vp_agent.drivers.cpu_times import CpuTimesReader, HostCpuReader

NS = 10**9
PERIOD_US, QUOTA_US = 100_000, 2_000
"""A small quota: whatever else runs here, a thread has it long before the period ends."""


SPIN = """\
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("spins", flush=True)
while True:
    pass
"""


@contextmanager
def busy(guests: int):
    """So many guests of one busy vCPU thread each, all on one CPU."""
    command = [sys.executable, "-c", SPIN, str(min(os.sched_getaffinity(0)))]
    with ExitStack() as stack:
        found = []
        for number in range(guests):
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout.readline() == b"spins\n"
            pid = process.pid
            found.append(VcpuThreads(f"u{number}", f"i{number}", pid, (pid,), "1"))
        yield found


@contextmanager
def a_vcpu_group(quota_us: int | None, *tids: int):
    """The threads in a cgroup as libvirt makes them. Skips where this machine does not allow it."""
    where = mount()
    name = "cgroup.procs"
    folder = Path(where.target) / f"nova-vp-test-{os.getpid()}" / "vcpu0"
    try:
        folder.mkdir(parents=True)
        if where.is_unified:
            for above in (folder.parent.parent, folder.parent):
                (above / "cgroup.subtree_control").write_text("+cpu")
        if quota_us is not None:
            if where.is_unified:
                (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            else:
                (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        for tid in tids:
            (folder / name).write_text(str(tid))
    except OSError as exc:
        _remove(folder)
        pytest.skip(f"no cgroup with a CPU quota can be made here: {exc}")
    try:
        yield
    finally:
        for tid in tids:
            (Path(where.target) / name).write_text(str(tid))
        _remove(folder)


def _remove(folder: Path) -> None:
    for path in (folder, folder.parent):
        if path.exists():
            path.rmdir()


def over(reader: CpuTimesReader, threads: VcpuThreads, span_s: float, *, is_limited: bool):
    """What was counted while that much time passed, and how much did, in seconds."""
    end_s = time.monotonic() + span_s
    first, began_s = reader.of(threads, is_limited=is_limited), time.monotonic()
    seen = []

    def has_passed() -> bool:
        seen.append(reader.of(threads, is_limited=is_limited))
        return time.monotonic() >= end_s

    wait_until(has_passed, "a span of time", span_s + 30)
    last, passed_s = seen[-1], time.monotonic() - began_s
    assert isinstance(first, CpuTimes)
    assert first.generation == last.generation
    return [(b - a) / NS for a, b in zip(first[:3], last[:3], strict=True)], passed_s


@pytest.fixture
def reader():
    reader = CpuTimesReader()
    yield reader
    reader.close()


def test_two_busy_threads_on_one_cpu_wait_half_of_the_time(reader):
    with busy(2) as (one, _):
        (ran_s, delay_s, throttled_s), passed_s = over(reader, one, 2.0, is_limited=False)
    assert throttled_s == 0
    assert delay_s >= 0.4 * passed_s
    assert ran_s + delay_s == pytest.approx(passed_s, rel=0.15)


def test_a_throttled_thread_waits_for_its_quota_not_for_a_cpu(reader):
    with busy(1) as [one], a_vcpu_group(QUOTA_US, one.tids[0]):
        (ran_s, delay_s, throttled_s), passed_s = over(reader, one, 3.0, is_limited=True)
    assert ran_s <= 0.1 * passed_s
    assert throttled_s >= 0.5 * passed_s
    assert delay_s >= throttled_s * 0.9
    assert delay_s - throttled_s <= 0.4 * passed_s


def test_a_group_without_a_quota_throttles_nobody(reader):
    """Both threads are in it: beside those of another group one may hardly wait."""
    with busy(2) as (one, other), a_vcpu_group(None, one.tids[0], other.tids[0]):
        first = reader.of(one, is_limited=True)

        def after_waiting():
            """A tenth of a second: an emulated CPU may let one thread run for long."""
            seen = reader.of(one, is_limited=True)
            return seen if seen.run_delay_ns - first.run_delay_ns > NS / 10 else None

        last = wait_until(after_waiting, "the thread to wait")
    assert last.throttled_ns == first.throttled_ns


def test_a_thread_that_ends_is_unknown(reader):
    with busy(1) as [one]:
        assert reader.of(one, is_limited=False) is not None
    assert reader.of(one, is_limited=False) is None


def test_the_hosts_own_cpus():
    reader = HostCpuReader()
    try:
        first = reader.read()
        wait_until(lambda: reader.read().total_ticks > first.total_ticks, "a clock tick")
        assert 0 <= first.steal_ticks <= first.total_ticks
    finally:
        reader.close()


def test_what_runs_on_each_cpu_of_the_host():
    reader = HostCpuReader()
    try:
        with busy(1):
            cpu = min(os.sched_getaffinity(0))
            first = reader.read()
            assert len(first.taken_ticks) == os.sysconf("SC_NPROCESSORS_ONLN")
            wait_until(lambda: taken(first, reader.read(), cpu) > 20, "its ticks")
    finally:
        reader.close()


def taken(first, now, cpu):
    assert sum(now.taken_ticks.values()) <= now.total_ticks
    return now.taken_ticks[cpu] - first.taken_ticks[cpu]


TOGETHER = "cpu  10 1 20 400 5 2 3 4 8 0"
EACH = "cpu0 1 2 3 4 5 6 7 8 9 0\ncpu12 1 0 0 9 9 0 0 0 0 0"


@pytest.mark.parametrize(
    ("text", "taken_ticks"),
    [
        (
            f"{TOGETHER}\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu12 1 0 0 9 9 0 0 0 0 0\nintr 5 5",
            {0: 27, 12: 1},
        ),
        (f"{TOGETHER}\nintr 5 5", {}),
        (f"{TOGETHER}\ncpu0 1 2", None),
        (f"{TOGETHER}\ncpux 1 2 3 4 5 6 7 8 9 0\n", None),
        ("", None),
        ("soup", None),
    ],
)
def test_what_the_kernel_says_of_cpus(tmp_path, text, taken_ticks):
    (tmp_path / "stat").write_text(text)
    reader = HostCpuReader(tmp_path)
    try:
        now = reader.read()
        assert now == (None if taken_ticks is None else HostCpuTimes(445, 4, taken_ticks))
    finally:
        reader.close()


def test_a_thread_of_nobody_is_unknown(reader):
    assert reader.of(VcpuThreads("u", "i", 2**22, (2**22,), "1"), is_limited=False) is None
