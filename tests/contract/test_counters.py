# SPDX-License-Identifier: Apache-2.0
"""What every counter source promises the tick: one suite for all of them.

perf and libvirt run over an interposed perf_event_open (tests/shim), libvirt with real domains of a
private libvirtd.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from nova_vp.core.types.sample import Reading
from tests.counter_subjects import FakeSubject, LibvirtSubject, PerfSubject, Subject, VpmuSubject
from tests.libvirt_host import LibvirtHost
from tests.perf_shim import PerfShim
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.counters_fake import VcpuCounts

FIRST = VcpuCounts(
    instructions=10_000, cycles=25_000, llc_references=700, llc_misses_local=80, llc_misses_remote=9
)
SECOND = VcpuCounts(
    instructions=3_000, cycles=4_000, llc_references=50, llc_misses_local=6, llc_misses_remote=1
)


@pytest.fixture(params=["fake", "vpmu", "perf", "libvirt"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    made: Subject
    match request.param:
        case "fake":
            made = FakeSubject()
        case "vpmu":
            made = VpmuSubject(tmp_path)
        case "perf":
            made = PerfSubject(request.getfixturevalue("perf_shim"))
        case _:
            shim: PerfShim = request.getfixturevalue("perf_shim")
            host: LibvirtHost = request.getfixturevalue("counting_libvirt_host")
            made = LibvirtSubject(shim, host)
    yield made
    made.stop()


def read(subject: Subject, *guests: VcpuThreads) -> dict[str, Reading]:
    return dict(subject.driver.read(guests))


def read_one(subject: Subject, guest: VcpuThreads) -> Reading:
    return read(subject, guest)[guest.guest_uuid]


def since(now: Reading, before: Reading) -> VcpuCounts:
    remote = now.llc_misses_remote - before.llc_misses_remote
    return VcpuCounts(
        instructions=now.instructions - before.instructions,
        cycles=now.cycles - before.cycles,
        llc_references=now.llc_references - before.llc_references,
        llc_misses_local=now.llc_misses - before.llc_misses - remote,
        llc_misses_remote=remote,
    )


def seen_by(subject: Subject, *counts: VcpuCounts) -> VcpuCounts:
    """The sum, as this source can see it."""
    remote = sum(each.llc_misses_remote for each in counts) if subject.sees_remote else 0
    return VcpuCounts(
        instructions=sum(each.instructions for each in counts),
        cycles=sum(each.cycles for each in counts),
        llc_references=sum(each.llc_references for each in counts),
        llc_misses_local=sum(each.llc_misses for each in counts) - remote,
        llc_misses_remote=remote,
    )


def test_each_count_is_its_own_summed_over_the_vcpus(subject: Subject) -> None:
    guest = subject.add_guest(vcpus=2)
    before = read_one(subject, guest)
    subject.work(guest, 0, FIRST)
    subject.work(guest, 1, SECOND)
    now = read_one(subject, guest)
    assert since(now, before) == seen_by(subject, FIRST, SECOND)
    assert (now.vcpus_read, now.running_ratio) == (2, 1.0)
    assert subject.driver.problems() == {}


def test_cycles_are_told_by_vcpu_where_the_source_can(subject: Subject) -> None:
    guest = subject.add_guest(vcpus=2)
    before = read_one(subject, guest)
    subject.work(guest, 1, FIRST)
    now = read_one(subject, guest)
    assert now.cycles - before.cycles == FIRST.cycles
    if subject.tells_vcpus_apart:
        each = zip(now.vcpu_cycles, before.vcpu_cycles, strict=True)
        assert [after - was for after, was in each] == [0, FIRST.cycles]
        assert sum(now.vcpu_cycles) == now.cycles
    else:
        assert now.vcpu_cycles == ()


def test_counts_are_cumulative_within_one_generation(subject: Subject) -> None:
    guest = subject.add_guest()
    readings = [read_one(subject, guest)]
    for _ in range(3):
        subject.work(guest, 1, SECOND)
        readings.append(read_one(subject, guest))
    grew = [since(now, before) for before, now in itertools.pairwise(readings)]
    assert grew == [seen_by(subject, SECOND)] * 3
    assert len({reading.generation for reading in readings}) == 1


def test_an_idle_guest_counts_nothing_and_is_no_problem(subject: Subject) -> None:
    guest = subject.add_guest()
    before = read_one(subject, guest)
    assert since(read_one(subject, guest), before) == VcpuCounts()
    assert subject.driver.problems() == {}


def test_guests_are_told_apart(subject: Subject) -> None:
    one, other = subject.add_guest(), subject.add_guest()
    before = read(subject, one, other)
    subject.work(one, 0, FIRST)
    subject.work(other, 0, SECOND)
    now = read(subject, one, other)
    for guest, counts in ((one, FIRST), (other, SECOND)):
        uuid = guest.guest_uuid
        assert since(now[uuid], before[uuid]) == seen_by(subject, counts)


def test_multiplexing_is_reported_and_made_up_for(subject: Subject) -> None:
    guest = subject.add_guest(vcpus=1)
    before = read_one(subject, guest)
    subject.work_half_seen(guest, 0, FIRST)
    now = read_one(subject, guest)
    assert now.running_ratio == (0.5 if subject.sees_multiplexing else 1.0)
    assert (guest.guest_uuid in subject.driver.problems()) == subject.sees_multiplexing
    assert abs(now.instructions - before.instructions - FIRST.instructions) <= 1
    assert abs(now.cycles - before.cycles - FIRST.cycles) <= 1


def test_a_missing_vcpu_shows_and_is_told(subject: Subject) -> None:
    guest = subject.add_guest_lacking_a_vcpu()
    assert read_one(subject, guest).vcpus_read == subject.vcpus_left_of_two
    assert guest.guest_uuid in subject.driver.problems()


def test_a_reboot_is_a_new_generation_that_starts_at_zero(subject: Subject) -> None:
    guest = subject.add_guest()
    before = read_one(subject, guest)
    subject.work(guest, 0, FIRST)
    read_one(subject, guest)
    again = subject.reboot(guest)
    start = read_one(subject, again)
    subject.work(again, 0, SECOND)
    now = read_one(subject, again)
    assert start.generation != before.generation
    assert now.generation == start.generation
    assert start.instructions <= SECOND.instructions
    assert since(now, start) == seen_by(subject, SECOND)


def test_a_guest_that_is_gone_is_absent_and_does_not_hide_others(subject: Subject) -> None:
    gone, stays = subject.add_guest(), subject.add_guest()
    subject.remove(gone)
    assert set(read(subject, gone, stays)) == {stays.guest_uuid}
    assert set(read(subject, stays)) == {stays.guest_uuid}
    assert subject.driver.problems() == {}


def test_a_guest_that_leaves_and_comes_back_is_read_again(subject: Subject) -> None:
    guest = subject.add_guest()
    read_one(subject, guest)
    assert read(subject) == {}
    before = read_one(subject, guest)
    subject.work(guest, 0, FIRST)
    assert since(read_one(subject, guest), before) == seen_by(subject, FIRST)


def test_descriptors_are_released_with_the_guest_and_on_close(subject: Subject) -> None:
    guests = [subject.add_guest() for _ in range(3)]
    read(subject)
    at_rest = subject.fds()
    read(subject, *guests)
    one_gone = subject.reboot(guests[0])
    read(subject, one_gone, guests[1])
    read(subject)
    assert subject.fds() == at_rest
    read(subject, guests[1])
    subject.driver.close()
    assert subject.fds() == at_rest
