# SPDX-License-Identifier: Apache-2.0
"""Holding a guest back from the cache, and giving back: on a resctrl tree, and on the fake."""

import pytest

from nova_vp.core.types.knob import Knob, Partition
from tests.partition_subjects import FakeSubject, ResctrlSubject, give_back, hold, seen
from vp_agent.drivers.base import ApplyFailed, GuestGone

FREE = Partition()
HALF = Partition(0.5, 0.5)


@pytest.fixture(params=["fake", "resctrl", "cdp"])
def subject(request, tmp_path):
    if request.param == "fake":
        return FakeSubject()
    if request.param == "cdp":
        return ResctrlSubject(tmp_path, resources=("L3CODE", "L3DATA"))
    return ResctrlSubject(tmp_path)


def test_it_turns_partitions_alone(subject):
    assert subject.actuator.knobs == {Knob.PARTITION}


def test_a_guest_is_free_until_it_is_held_back(subject):
    uuid = subject.boot()
    assert seen(subject, uuid) == FREE
    hold(subject, uuid, HALF)
    assert seen(subject, uuid) == HALF


def test_a_share_that_hardware_must_round_reads_back_as_asked(subject):
    uuid = subject.boot()
    for ratio in (0.333, 0.07, 0.999):
        hold(subject, uuid, Partition(ratio, 0.5))
        assert seen(subject, uuid) == Partition(ratio, 0.5)


def test_one_guest_is_held_back_and_no_other(subject):
    held, other = subject.boot(), subject.boot()
    hold(subject, held, HALF)
    assert seen(subject, other) == FREE


def test_restore_frees_it_and_twice_is_harmless(subject):
    uuid = subject.boot()
    hold(subject, uuid, HALF)
    give_back(subject, uuid)
    give_back(subject, uuid)
    assert seen(subject, uuid) == FREE
    assert subject.actuator.held() == frozenset()


def test_all_of_it_is_the_same_as_nothing_held(subject):
    uuid = subject.boot()
    hold(subject, uuid, HALF)
    hold(subject, uuid, FREE)
    assert subject.actuator.held() == frozenset()


def test_a_new_agent_sees_and_restores_what_the_old_one_held(subject):
    uuid = subject.boot()
    hold(subject, uuid, HALF)
    subject.restart_agent()
    assert seen(subject, uuid) == HALF
    give_back(subject, uuid)
    assert seen(subject, uuid) == FREE


def test_new_threads_of_a_soft_reboot_are_free_and_can_be_held_again(subject):
    uuid = subject.boot()
    hold(subject, uuid, HALF)
    subject.soft_reboot(uuid)
    assert seen(subject, uuid) == FREE
    hold(subject, uuid, HALF)
    assert seen(subject, uuid) == HALF


def test_what_stood_for_a_guest_that_ended_is_discarded(subject):
    ended, running = subject.boot(), subject.boot()
    hold(subject, ended, HALF)
    hold(subject, running, HALF)
    subject.end(ended)
    for uuid in subject.actuator.held():
        subject.actuator.discard_if_empty(uuid)
    assert subject.actuator.held() == {running}


def test_a_guest_that_is_gone_says_so_and_leaves_nothing(subject):
    uuid = subject.boot()
    hold(subject, uuid, HALF)
    subject.end(uuid)
    with pytest.raises(GuestGone):
        seen(subject, uuid)
    with pytest.raises(GuestGone):
        hold(subject, uuid, HALF)
    with pytest.raises(GuestGone):
        give_back(subject, uuid)
    assert subject.actuator.held() == frozenset()


@pytest.mark.parametrize("ratio", [0.0, -0.5, 1.5, float("nan")])
def test_no_share_is_refused(subject, ratio):
    uuid = subject.boot()
    with pytest.raises(ApplyFailed):
        hold(subject, uuid, Partition(ratio, 1.0))
    assert subject.actuator.held() == frozenset()


def test_when_no_group_is_left_nothing_changes(subject):
    guests = [subject.boot() for _ in range(4)]
    for uuid in guests[:3]:
        hold(subject, uuid, HALF)
    with pytest.raises(ApplyFailed, match="no group is left"):
        hold(subject, guests[3], HALF)
    assert seen(subject, guests[3]) == FREE
    hold(subject, guests[0], Partition(0.25, 0.5))
    give_back(subject, guests[0])
    hold(subject, guests[3], HALF)
