# SPDX-License-Identifier: Apache-2.0
"""Processes and threads as the kernel shows them, on processes of the test's own."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from vp_agent.drivers import vcpu_threads
from vp_agent.drivers.vcpu_threads import (
    Process,
    StrangeThreads,
    generation_of,
    move_others,
    read_affinity,
    read_cpu_time_ns,
    read_emulator_affinity,
    read_emulator_tids,
    read_process,
    read_tids,
    set_affinity,
)

# Threads named as QEMU names them, the second one first; prctl(PR_SET_NAME) is 15.
LIKE_QEMU = """
import ctypes, sys, threading
named = threading.Barrier(5)
def run(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
    named.wait()
    threading.Event().wait()
for name in ("CPU 1/TCG", "CPU 0/TCG", "CPU 10/KVM", "IO mon_iothread"):
    threading.Thread(target=run, args=(name,), daemon=True).start()
named.wait()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def qemu() -> Iterator[int]:
    command = [sys.executable, "-c", LIKE_QEMU]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.stdin.close()


def names(tids):
    return [Path(f"/proc/{tid}/comm").read_text().strip() for tid in tids]


def test_vcpu_threads_come_in_the_order_of_the_vcpus(qemu):
    assert names(read_tids(qemu)) == ["CPU 0/TCG", "CPU 1/TCG", "CPU 10/KVM"]


def test_who_has_threads_of_more_vcpus_than_its_domain_may_have_is_refused(qemu):
    assert len(read_tids(qemu, most_vcpus=11)) == 3
    with pytest.raises(StrangeThreads, match="3 threads that are called vCPUs, and its domain at"):
        read_tids(qemu, most_vcpus=10)


def test_two_threads_of_one_vcpu_are_refused():
    named_alike = LIKE_QEMU.replace("CPU 1/TCG", "CPU 0/TCG")
    with subprocess.Popen(
        [sys.executable, "-c", named_alike], stdin=PIPE, stdout=PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(StrangeThreads):
                read_tids(process.pid)
        finally:
            process.stdin.close()


def test_who_has_more_threads_than_any_qemu_is_refused(qemu, monkeypatch):
    monkeypatch.setattr(vcpu_threads, "MOST_THREADS", 4)
    with pytest.raises(StrangeThreads, match="has 5 threads, over 4"):
        read_tids(qemu)


def test_without_cpus_for_the_others_only_vcpu_threads_are_moved(qemu):
    process, cpu = read_process(qemu), max(os.sched_getaffinity(0))
    before = os.sched_getaffinity(qemu)
    set_affinity(qemu, process.started, [[cpu]], [])
    assert set(read_affinity(read_tids(qemu))) == {frozenset({cpu})}
    assert read_emulator_affinity(qemu) == before


def test_each_vcpu_goes_to_its_own_cpus_and_all_other_threads_to_theirs(qemu):
    process, cpus = read_process(qemu), sorted(os.sched_getaffinity(0))
    first, last = cpus[0], cpus[-1]
    set_affinity(qemu, process.started, [[first], [last], cpus], [last])
    expected = (frozenset({first}), frozenset({last}), frozenset(cpus))
    assert read_affinity(read_tids(qemu)) == expected
    assert names(read_emulator_tids(qemu)) == ["python", "IO mon_iothread"]
    assert read_emulator_affinity(qemu) == {last}


def test_as_many_lists_of_cpus_as_vcpus(qemu):
    """One was plugged or unplugged meanwhile: none is moved."""
    before = read_affinity(read_tids(qemu))
    with pytest.raises(ProcessLookupError):
        set_affinity(qemu, read_process(qemu).started, [[0], [0]], [0])
    assert read_affinity(read_tids(qemu)) == before


def test_a_reused_pid_is_never_touched(qemu):
    """The guest ended and its pid is another process's by now."""
    before = read_affinity(read_tids(qemu))
    with pytest.raises(ProcessLookupError):
        set_affinity(qemu, read_process(qemu).started - 1, [[0]], [0])
    assert read_affinity(read_tids(qemu)) == before


def test_cpus_that_are_not_there_are_refused(qemu):
    before = read_affinity(read_tids(qemu))
    with pytest.raises(OSError, match="Invalid argument"):
        set_affinity(qemu, read_process(qemu).started, [[8191]], [])
    assert read_affinity(read_tids(qemu)) == before


def test_a_command_with_spaces_and_parentheses_has_a_start_time():
    """Field 22 of /proc/PID/stat stands after the command, which may hold anything."""
    code = "import ctypes,sys; ctypes.CDLL(None).prctl(15, b') R 1 (', 0, 0, 0)\n"
    code += "print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE) as process:
        process.stdout.readline()
        started = read_process(process.pid).started
        process.stdin.close()
    assert abs(started / os.sysconf("SC_CLK_TCK") - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


def test_cpu_time_is_the_process_own():
    """Of all its threads, of those too that have ended."""
    mine = Process(os.getpid(), 0)
    busy = threading.Thread(target=lambda: sum(range(300_000)))
    busy.start()
    busy.join()
    before_ns = time.process_time_ns()
    assert before_ns <= read_cpu_time_ns(mine) <= time.process_time_ns()


def test_what_has_ended_is_a_lookup_error(qemu):
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for look in (read_process, read_tids, lambda pid: read_cpu_time_ns(Process(pid, 0))):
        with pytest.raises(ProcessLookupError):
            look(ended.pid)


def test_the_generation_is_that_of_process_and_threads():
    first = generation_of(Process(10, 500), (11, 12))
    assert first == generation_of(Process(10, 500), (11, 12))
    assert len({first, generation_of(Process(10, 501), (11, 12))}) == 2
    assert len({first, generation_of(Process(10, 500), (11, 13))}) == 2


class TestThreadsThatNobodyMayMove:
    """As the kernel answers for io-wq's threads: EINVAL, whatever the CPUs."""

    FIXED = f"12 (iou-wrk-7) S 1 1 1 0 -1 {0x04000000 | 0x40:d} 0 0"
    PLAIN = f"12 (worker) x) S 1 1 1 0 -1 {0x40:d} 0 0"

    def moved(self, refused: dict[int, int], stats: dict[int, str]) -> list[int]:
        done = []

        def move(tid: int, cpus) -> None:
            if code := refused.get(tid):
                raise OSError(code, os.strerror(code))
            done.append(tid)

        def read_stat(tid: int) -> str:
            if tid not in stats:
                raise FileNotFoundError(tid)
            return stats[tid]

        move_others((11, 12, 13), {0}, move, read_stat)
        return done

    def test_the_others_are_moved_all_the_same(self):
        assert self.moved({12: errno.EINVAL}, {12: self.FIXED}) == [11, 13]

    def test_one_that_ended_meanwhile_is_none(self):
        assert self.moved({12: errno.EINVAL}, {}) == [11, 13]
        assert self.moved({12: errno.ESRCH}, {}) == [11, 13]

    @pytest.mark.parametrize(
        ("code", "stat"),
        [(errno.EINVAL, PLAIN), (errno.EPERM, PLAIN), (errno.EPERM, FIXED)],
    )
    def test_any_other_refusal_is_a_failure(self, code, stat):
        with pytest.raises(OSError, match=os.strerror(code)):
            self.moved({12: code}, {12: stat})

    def test_of_one_that_may_be_moved_the_kernel_says_so(self):
        stat = Path("/proc/self/stat").read_text()
        with pytest.raises(OSError, match="Invalid argument"):
            move_others((os.getpid(),), {4095})
        assert not int(stat.rpartition(")")[2].split()[6]) & 0x04000000
