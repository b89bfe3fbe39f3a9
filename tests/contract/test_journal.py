# SPDX-License-Identifier: Apache-2.0
"""The undo journal: it outlives the agent and libvirtd, and ends with the guest."""

import pytest

from tests.host_subjects import an_applied
from vp_agent.drivers.base import GuestGone


@pytest.fixture(params=["fake", "kernel"])
def subject(request, subject):
    """The actuator does not matter here."""
    return subject


@pytest.fixture
def applied(subject):
    return an_applied(subject.boot(), frozenset({max(subject.all_cpus)}), subject.all_cpus)


def test_nothing_is_journalled_at_first(subject):
    assert subject.journal.read() == {}
    subject.boot()
    assert subject.journal.read() == {}


def test_what_was_written_is_read_back(subject, applied):
    subject.journal.write(applied)
    assert subject.journal.read() == {applied.guest_uuid: applied}


def test_a_second_entry_replaces_the_first(subject, applied):
    subject.journal.write(an_applied(applied.guest_uuid, subject.all_cpus, subject.all_cpus, 3))
    subject.journal.write(applied)
    assert subject.journal.read() == {applied.guest_uuid: applied}


def test_a_new_agent_reads_what_the_old_one_wrote(subject, applied):
    subject.journal.write(applied)
    subject.restart_agent()
    assert subject.journal.read() == {applied.guest_uuid: applied}


def test_it_survives_a_restart_of_the_host_services(subject, applied):
    subject.journal.write(applied)
    subject.stop_host()
    subject.start_host()
    subject.guests.read()
    assert subject.journal.read() == {applied.guest_uuid: applied}


def test_it_survives_suspend_and_resume(subject, applied):
    subject.journal.write(applied)
    subject.suspend(applied.guest_uuid)
    subject.resume(applied.guest_uuid)
    subject.guests.read()
    assert subject.journal.read() == {applied.guest_uuid: applied}


def test_dropped_it_is_gone_for_a_new_agent_too(subject, applied):
    subject.journal.write(applied)
    subject.journal.drop(applied.guest_uuid)
    assert subject.journal.read() == {}
    subject.restart_agent()
    assert subject.journal.read() == {}


def test_it_ends_with_the_qemu_process(subject, applied):
    subject.journal.write(applied)
    subject.soft_reboot(applied.guest_uuid)
    subject.guests.read()
    assert subject.journal.read() == {}


def test_a_guest_that_is_gone_cannot_be_journalled_and_needs_no_drop(subject, applied):
    subject.journal.write(applied)
    subject.end(applied.guest_uuid)
    with pytest.raises(GuestGone):
        subject.journal.write(applied)
    subject.journal.drop(applied.guest_uuid)
    subject.guests.read()
    assert subject.journal.read() == {}
