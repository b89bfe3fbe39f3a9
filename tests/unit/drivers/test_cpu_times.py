# SPDX-License-Identifier: Apache-2.0
"""CPU times of vCPUs from the kernel's files: both versions of cgroups, and what is unknown."""

import os
import shutil

import pytest

from nova_vp.core.types.cpu_time import CpuTimes, HostCpuTimes
from tests.descriptors import own_fds
from tests.proc_tree import PID, ProcTree
from vp_agent.drivers.cpu_times import CpuTimesReader, HostCpuReader
from vp_agent.drivers.kernel_file import KernelFile, Room

MS = 10**6


@pytest.fixture(params=[1, 2])
def tree(request, tmp_path):
    return ProcTree(tmp_path, request.param)


@pytest.fixture
def reader(tree):
    reader = CpuTimesReader(tree.proc)
    yield reader
    reader.close()


def a_second(tree, ran_ms, delay_ms, seconds):
    """Both vCPUs, that many seconds after the start."""
    for tid in (PID + 1, PID + 2):
        tree.runs(tid, 1 + seconds * ran_ms * MS, seconds * delay_ms * MS)


def test_run_time_and_run_delay_are_summed_over_the_vcpus(tree, reader):
    threads = tree.boot(vcpus=2)
    tree.runs(PID + 1, ran_ns=500, run_delay_ns=20)
    tree.runs(PID + 2, ran_ns=100, run_delay_ns=3)
    assert reader.of(threads, is_limited=False) == CpuTimes(600, 23, 0, "700-1-abc.0")


def test_throttled_time_is_that_of_the_vcpus_own_groups(tree, reader):
    threads = tree.boot()
    reader.of(threads, is_limited=True)
    tree.throttle_vcpu(0, 70)
    tree.throttle_vcpu(1, 5)
    a_second(tree, 500, 40, 1)
    assert reader.of(threads, is_limited=True) == CpuTimes(
        2 + 1000 * MS, 80 * MS, 75 * MS, "700-1-abc.0"
    )


def test_a_quota_that_was_just_removed_still_counts_for_the_time_before(tree, reader):
    threads = tree.boot()
    reader.of(threads, is_limited=True)
    tree.throttle_vcpu(0, 3)
    a_second(tree, 999, 1, 1)
    assert reader.of(threads, is_limited=False).throttled_ns == 3 * MS


def test_a_quota_that_nobody_told_of_is_seen_by_the_waiting_it_makes(tree, reader):
    threads = tree.boot()
    reader.of(threads, is_limited=False)
    tree.throttle_vcpu(0, 200)
    a_second(tree, 800, 100, 1)
    seen = reader.of(threads, is_limited=False)
    assert (seen.throttled_ns, seen.generation) == (200 * MS, "700-1-abc.0")


def test_throttling_from_before_the_last_look_makes_the_time_since_unknown(tree, reader):
    """It was not looked at while little waited: how much of it belongs to the last interval?"""
    threads = tree.boot()
    first = reader.of(threads, is_limited=False)
    a_second(tree, 1000, 0, 1)
    reader.of(threads, is_limited=False)
    quiet = reader.of(threads, is_limited=False)
    tree.throttle_vcpu(0, 200)
    a_second(tree, 900, 100, 2)
    seen = reader.of(threads, is_limited=False)
    assert quiet.generation == first.generation != seen.generation
    tree.throttle_vcpu(0, 290)
    a_second(tree, 900, 110, 3)
    known = reader.of(threads, is_limited=False)
    assert known.generation == seen.generation
    assert known.throttled_ns > seen.throttled_ns


def test_where_nothing_waits_no_group_is_read(tree, reader):
    threads = tree.boot()
    reader.of(threads, is_limited=False)
    reader.of(threads, is_limited=False)
    for file in (tree.folder / "cgroup").rglob("cpu.stat"):
        file.write_text("not a number\nthrottled_time x\nthrottled_usec x\n")
    a_second(tree, 1000, 1, 1)
    assert reader.of(threads, is_limited=False) is not None
    a_second(tree, 1000, 100, 2)
    assert reader.of(threads, is_limited=False) is None


def test_throttling_of_a_group_that_vcpus_share_makes_the_time_unknown(tree, reader):
    threads = tree.boot()
    before = reader.of(threads, is_limited=False)
    tree.throttle(tree.scope, 100)
    a_second(tree, 500, 400, 1)
    seen = reader.of(threads, is_limited=False)
    assert seen.generation != before.generation
    a_second(tree, 500, 400, 2)
    assert reader.of(threads, is_limited=False).generation == seen.generation


def test_vcpus_without_groups_of_their_own(tree, reader):
    """libvirt's cgroup_controllers = []: what is above them may still throttle them."""
    threads = tree.boot()
    for tid in threads.tids:
        tree.move(tid, "system.slice/libvirtd.service")
    before = reader.of(threads, is_limited=False)
    a_second(tree, 500, 400, 1)
    assert reader.of(threads, is_limited=False).generation == before.generation
    tree.throttle("system.slice/libvirtd.service", 100)
    a_second(tree, 500, 400, 2)
    assert reader.of(threads, is_limited=False).generation != before.generation


def test_a_group_without_the_controller_throttles_nobody(tree, reader):
    threads = tree.boot()
    for file in (tree.folder / "cgroup").rglob("cpu.stat"):
        file.write_text("usage_usec 12\n")
    assert reader.of(threads, is_limited=True).throttled_ns == 0


@pytest.mark.parametrize("text", ["0 0 0\n", "", "5 \n", "1 x 2\n"])
def test_a_kernel_that_does_not_say(tree, reader, text, caplog):
    threads = tree.boot()
    (tree.proc / f"{PID}/task/{PID + 2}/schedstat").write_text(text)
    assert reader.of(threads, is_limited=False) is None
    assert reader.of(threads, is_limited=False) is None
    told = [record for record in caplog.records if "CONFIG_SCHEDSTATS" in record.message]
    assert len(told) == (1 if text == "0 0 0\n" else 0)


@pytest.mark.parametrize("gone", ["700/task/702/schedstat", "702/cgroup"])
def test_a_thread_that_ended(tree, reader, gone):
    threads = tree.boot()
    (tree.proc / gone).unlink()
    assert reader.of(threads, is_limited=False) is None


def test_a_later_thread_of_the_same_number_is_not_read_in_its_place(tree, reader):
    """The descriptor stays with the old one, of which the kernel says nothing any more."""
    threads = tree.boot()
    reader.of(threads, is_limited=False)
    path = tree.proc / f"{PID}/task/{PID + 1}/schedstat"
    path.unlink()
    path.write_text("999999 5 7\n")
    assert reader.of(threads, is_limited=False).ran_ns == 2
    again = threads._replace(generation="700-1-def")
    assert reader.of(again, is_limited=False) == CpuTimes(1_000_000, 5, 0, "700-1-def.0")


def test_descriptors_of_guests_that_left_are_closed(tree, reader, tmp_path):
    threads = tree.boot()
    before = own_fds(tmp_path)
    reader.of(threads, is_limited=True)
    assert own_fds(tmp_path) > before
    reader.forget_others(["another"])
    assert own_fds(tmp_path) == before


def test_files_beyond_what_may_be_kept_open_are_opened_for_each_look(tree, tmp_path):
    room, before = Room(1), own_fds(tmp_path)
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    one, other = KernelFile(tmp_path / "a", room), KernelFile(tmp_path / "b", room)
    for _ in range(2):
        assert (one.read(), other.read()) == (b"1", b"2")
        assert own_fds(tmp_path) == before + 1
    one.close()
    assert room.left == 1


def test_groups_are_kept_open_only_while_somebody_looks_at_them(tree, reader, tmp_path):
    threads = tree.boot()
    before = own_fds(tmp_path)
    for _ in range(3):
        reader.of(threads, is_limited=False)
    assert own_fds(tmp_path) == before + 2


def test_a_copy_that_was_made_for_one_look_is_opened_for_each(tree, reader):
    """As the lab's shim answers: a file of another file system, which never changes."""
    threads = tree.boot(vcpus=1)
    path = tree.proc / f"{PID}/task/{PID + 1}/schedstat"
    path.unlink()
    for ran_ns in (11, 22):
        copy = f"/dev/shm/vp-copy-{os.getpid()}-{ran_ns}"
        with open(copy, "w") as file:
            file.write(f"{ran_ns} 0 1\n")
        try:
            path.symlink_to(copy)
            assert reader.of(threads, is_limited=False).ran_ns == ran_ns
        finally:
            path.unlink()
            os.unlink(copy)


def test_steal_of_the_host(tree):
    tree.boot()
    reader = HostCpuReader(tree.proc)
    assert reader.read() == HostCpuTimes(total_ticks=1000, steal_ticks=50)
    reader.close()


@pytest.mark.parametrize(
    "text", ["", "cpu  1 2 3\n", "cpu  1 2 3 4 5 6 7 x\n", "intr 1 2 3 4 5 6 7 8"]
)
def test_a_host_that_does_not_tell_its_steal(tree, text):
    tree.boot()
    (tree.proc / "stat").write_text(text)
    assert HostCpuReader(tree.proc).read() is None
    shutil.rmtree(tree.proc)
    assert HostCpuReader(tree.proc).read() is None
