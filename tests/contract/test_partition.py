# SPDX-License-Identifier: Apache-2.0
"""Holding a guest back from the cache, and giving back: on a resctrl tree, and on the fake."""

import pytest

from nova_vp.core.types.knob import Knob, LlcShare, MembwShare
from tests.partition_subjects import (
    HALF,
    NOTHING_HELD,
    FakeSubject,
    ResctrlSubject,
    give_back,
    hold,
    seen,
)
from vp_agent.drivers.base import ApplyFailed, GuestGone


@pytest.fixture(params=["fake", "resctrl", "cdp"])
def subject(request, tmp_path):
    if request.param == "fake":
        return FakeSubject()
    if request.param == "cdp":
        return ResctrlSubject(tmp_path, resources=("L3CODE", "L3DATA"))
    return ResctrlSubject(tmp_path)


def test_it_turns_shares_of_cache_and_bandwidth_alone(subject):
    assert subject.actuator.knobs == {Knob.LLC, Knob.MEMBW}


def test_a_guest_is_free_until_it_is_held_back(subject):
    uuid = subject.boot()
    assert seen(subject, uuid) == NOTHING_HELD
    hold(subject, uuid, *HALF)
    assert seen(subject, uuid) == HALF


def test_a_share_that_hardware_must_round_reads_back_as_asked(subject):
    uuid = subject.boot()
    for ratio in (0.333, 0.07, 0.999):
        hold(subject, uuid, LlcShare(ratio), MembwShare(0.5))
        assert seen(subject, uuid) == (LlcShare(ratio), MembwShare(0.5))


def test_one_guest_is_held_back_and_no_other(subject):
    held, other = subject.boot(), subject.boot()
    hold(subject, held, *HALF)
    assert seen(subject, other) == NOTHING_HELD


def test_restore_frees_it_and_twice_is_harmless(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    give_back(subject, uuid)
    give_back(subject, uuid)
    assert seen(subject, uuid) == NOTHING_HELD
    assert subject.actuator.held() == frozenset()


def test_all_of_it_is_the_same_as_nothing_held(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    hold(subject, uuid, *NOTHING_HELD)
    assert subject.actuator.held() == frozenset()


EACH = [(LlcShare(0.5), MembwShare(0.2)), (MembwShare(0.2), LlcShare(0.5))]


@pytest.mark.parametrize(("first", "second"), EACH)
def test_one_of_the_two_is_limited_and_the_other_left_as_it_is(subject, first, second):
    uuid = subject.boot()
    hold(subject, uuid, first)
    assert set(map(type, seen(subject, uuid))) == {LlcShare, MembwShare}
    assert sum(share.ratio < 1 for share in seen(subject, uuid)) == 1
    hold(subject, uuid, second)
    assert seen(subject, uuid) == (LlcShare(0.5), MembwShare(0.2))
    hold(subject, uuid, LlcShare(0.25))
    assert seen(subject, uuid) == (LlcShare(0.25), MembwShare(0.2))


def test_one_of_the_two_is_given_back_and_the_other_stands(subject):
    uuid = subject.boot()
    for knob, left in ((Knob.LLC, (LlcShare(), HALF[1])), (Knob.MEMBW, (HALF[0], MembwShare()))):
        hold(subject, uuid, *HALF)
        give_back(subject, uuid, knob)
        assert seen(subject, uuid) == left
        assert subject.actuator.held() == {uuid}
    hold(subject, uuid, LlcShare())
    assert subject.actuator.held() == frozenset()


def test_a_new_agent_keeps_the_one_while_it_gives_back_the_other(subject):
    uuid = subject.boot()
    hold(subject, uuid, LlcShare(0.3), MembwShare(0.5))
    subject.restart_agent()
    give_back(subject, uuid, Knob.MEMBW)
    assert seen(subject, uuid) == (LlcShare(0.3), MembwShare())
    give_back(subject, uuid, Knob.LLC)
    assert subject.actuator.held() == frozenset()


def test_nothing_of_an_earlier_start_is_in_force_again(subject):
    """Its journal went with it at a hard reboot."""
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    subject.soft_reboot(uuid)
    hold(subject, uuid, LlcShare(0.25))
    assert seen(subject, uuid) == (LlcShare(0.25), MembwShare())
    subject.soft_reboot(uuid)
    give_back(subject, uuid, Knob.MEMBW)
    assert subject.actuator.held() == frozenset()


def test_a_new_agent_sees_and_restores_what_the_old_one_held(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    subject.restart_agent()
    assert seen(subject, uuid) == HALF
    give_back(subject, uuid)
    assert seen(subject, uuid) == NOTHING_HELD


def test_new_threads_of_a_soft_reboot_are_free_and_can_be_held_again(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    subject.soft_reboot(uuid)
    assert seen(subject, uuid) == NOTHING_HELD
    hold(subject, uuid, *HALF)
    assert seen(subject, uuid) == HALF


def test_what_stood_for_a_guest_that_ended_is_discarded(subject):
    ended, running = subject.boot(), subject.boot()
    hold(subject, ended, *HALF)
    hold(subject, running, *HALF)
    subject.end(ended)
    for uuid in subject.actuator.held():
        subject.actuator.discard_if_empty(uuid)
    assert subject.actuator.held() == {running}


def test_a_guest_that_is_gone_says_so_and_leaves_nothing(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    subject.end(uuid)
    with pytest.raises(GuestGone):
        seen(subject, uuid)
    with pytest.raises(GuestGone):
        hold(subject, uuid, *HALF)
    with pytest.raises(GuestGone):
        give_back(subject, uuid)
    assert subject.actuator.held() == frozenset()


@pytest.mark.parametrize("ratio", [0.0, -0.5, 1.5, float("nan")])
def test_no_share_is_refused(subject, ratio):
    uuid = subject.boot()
    with pytest.raises(ApplyFailed):
        hold(subject, uuid, LlcShare(ratio))
    with pytest.raises(ApplyFailed):
        hold(subject, uuid, MembwShare(ratio))
    assert subject.actuator.held() == frozenset()


def test_when_no_group_is_left_nothing_changes(subject):
    guests = [subject.boot() for _ in range(4)]
    for uuid in guests[:3]:
        hold(subject, uuid, *HALF)
    with pytest.raises(ApplyFailed, match="no group is left"):
        hold(subject, guests[3], *HALF)
    assert seen(subject, guests[3]) == NOTHING_HELD
    hold(subject, guests[0], LlcShare(0.25))
    give_back(subject, guests[0])
    hold(subject, guests[3], *HALF)
