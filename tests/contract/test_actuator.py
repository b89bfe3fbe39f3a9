# SPDX-License-Identifier: Apache-2.0
"""Placing and restoring, on the fake and on real libvirt with both actuators."""

import pytest

from tests.host_subjects import an_applied
from vp_agent.drivers.base import ApplyFailed, GuestGone


@pytest.fixture
def corner(subject):
    """Less than the bound."""
    return frozenset({max(subject.all_cpus)})


@pytest.fixture
def applied(subject, corner):
    return an_applied(subject.boot(vcpus=2), corner, subject.all_cpus)


def test_every_vcpu_thread_is_placed_and_read_back(subject, applied):
    assert subject.actuator.placement(applied.guest_uuid) == subject.all_cpus
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    assert subject.affinities(applied.guest_uuid) == {applied.cpus}
    assert subject.actuator.placement(applied.guest_uuid) == applied.cpus
    assert {guest.placement for guest in subject.guests.read()} == {applied.cpus}


def test_restore_gives_every_thread_what_stood_there_before(subject, applied):
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    subject.actuator.restore(applied)
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}
    assert [guest.unmanaged for guest in subject.guests.read()] == [None]


def test_restoring_twice_or_without_a_change_is_harmless(subject, applied):
    subject.actuator.restore(applied)
    subject.actuator.restore(applied)
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}


def test_a_new_agent_restores_what_the_old_one_placed(subject, applied):
    subject.journal.write(applied)
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    subject.restart_agent()
    subject.actuator.restore(subject.journal.read()[applied.guest_uuid])
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}


def test_placed_between_journal_and_drop_the_guest_stays_ours(subject, applied):
    subject.journal.write(applied)
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    assert [guest.unmanaged for guest in subject.guests.read()] == [None]


def test_beyond_novas_bound_nothing_is_placed(subject, corner):
    uuid = subject.boot(cpus=corner)
    for beyond in (subject.all_cpus, subject.all_cpus - corner, frozenset()):
        with pytest.raises(ApplyFailed):
            subject.actuator.place(uuid, beyond)
    assert subject.affinities(uuid) == {corner}


def test_a_journal_of_another_host_is_undone_to_the_bound_of_this_one(subject, corner):
    uuid = subject.boot(cpus=corner)
    subject.actuator.restore(an_applied(uuid, frozenset({4000}), frozenset({4000, 4001})))
    assert subject.affinities(uuid) == {corner}


def test_a_guest_that_is_gone_says_so(subject, applied):
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    subject.end(applied.guest_uuid)
    with pytest.raises(GuestGone):
        subject.actuator.placement(applied.guest_uuid)
    with pytest.raises(GuestGone):
        subject.actuator.place(applied.guest_uuid, applied.cpus)
    with pytest.raises(GuestGone):
        subject.actuator.restore(applied)


def test_suspend_and_resume_keep_the_placement(subject, applied):
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    subject.suspend(applied.guest_uuid)
    assert subject.actuator.placement(applied.guest_uuid) == applied.cpus
    subject.resume(applied.guest_uuid)
    assert subject.affinities(applied.guest_uuid) == {applied.cpus}


def test_a_restart_of_the_host_services_keeps_the_placement(subject, applied):
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    subject.stop_host()
    assert subject.affinities(applied.guest_uuid) == {applied.cpus}
    subject.start_host()
    assert subject.actuator.placement(applied.guest_uuid) == applied.cpus
    subject.actuator.restore(applied)
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}


def test_new_threads_of_a_soft_reboot_float_and_can_be_placed_again(subject, applied):
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    subject.soft_reboot(applied.guest_uuid)
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    assert subject.affinities(applied.guest_uuid) == {applied.cpus}


def test_a_suspended_guest_is_placed_too(subject, applied):
    subject.suspend(applied.guest_uuid)
    subject.actuator.place(applied.guest_uuid, applied.cpus)
    assert subject.affinities(applied.guest_uuid) == {applied.cpus}
