# SPDX-License-Identifier: Apache-2.0
"""What the tick relies on from a guests driver, on the fake and on real libvirt."""

import pytest

from tests.host_subjects import Subject
from tests.waiting import wait_until
from vp_agent.drivers.base import HostUnavailable


@pytest.fixture(params=["fake", "kernel"])
def subject(request, subject):
    """The actuator does not matter here."""
    return subject


def the_guest(subject: Subject, uuid: str):
    return next(guest for guest in subject.guests.read() if guest.uuid == uuid)


def test_an_empty_host_has_a_topology_and_no_guests(subject):
    assert subject.guests.read() == ()
    assert subject.guests.topology().cpus == subject.all_cpus


def test_a_booted_guest_is_read_with_its_bound_and_floats_over_it(subject):
    uuid = subject.boot(vcpus=2)
    guest = the_guest(subject, uuid)
    assert guest.vcpus == 2
    assert guest.allowed_cpus == guest.placement == subject.all_cpus
    assert guest.is_running
    assert guest.unmanaged is None


def test_a_narrower_bound_is_the_guests_own(subject):
    bound = frozenset({min(subject.all_cpus)})
    uuid = subject.boot(cpus=bound)
    assert the_guest(subject, uuid).allowed_cpus == bound
    assert the_guest(subject, uuid).placement == bound


def test_threads_are_those_of_the_guests_last_read(subject):
    subject.boot(vcpus=1)
    subject.boot(vcpus=2)
    guests = {guest.uuid: guest for guest in subject.guests.read()}
    threads = {thread.guest_uuid: thread for thread in subject.guests.threads()}
    assert {u: len(t.tids) for u, t in threads.items()} == {u: g.vcpus for u, g in guests.items()}
    assert {t.generation for t in threads.values()} == {g.generation for g in guests.values()}


def test_the_host_has_the_hypervisors_name(subject):
    subject.guests.read()
    assert subject.guests.host_name()


def test_a_guest_that_ended_is_read_no_more_and_counted_as_stopped(subject):
    uuid = subject.boot()
    subject.guests.read()
    subject.end(uuid)
    assert subject.guests.read() == ()
    assert subject.guests.stopped() == {uuid}


def test_a_soft_reboot_is_a_new_generation_at_the_bound(subject):
    uuid = subject.boot()
    before = the_guest(subject, uuid)
    subject.place_by_hand(uuid, frozenset({max(subject.all_cpus)}))
    subject.soft_reboot(uuid)
    after = the_guest(subject, uuid)
    assert after.generation != before.generation
    assert after.placement == after.allowed_cpus
    assert subject.guests.threads()[0].generation == after.generation


def test_a_suspended_guest_is_still_there_and_keeps_placement_and_generation(subject):
    uuid, corner = subject.boot(), frozenset({max(subject.all_cpus)})
    subject.place_by_hand(uuid, corner)
    before = the_guest(subject, uuid)
    subject.suspend(uuid)
    wait_until(lambda: not the_guest(subject, uuid).is_running, "suspended")
    subject.resume(uuid)
    wait_until(lambda: the_guest(subject, uuid).is_running, "resumed")
    assert the_guest(subject, uuid).placement == corner
    assert the_guest(subject, uuid).generation == before.generation


def test_a_host_that_is_away_says_so_and_is_read_again_once_back(subject):
    uuid = subject.boot()
    before = the_guest(subject, uuid)
    subject.stop_host()
    for _ in range(2):
        with pytest.raises(HostUnavailable):
            subject.guests.read()
    subject.start_host()
    assert the_guest(subject, uuid).generation == before.generation
    assert the_guest(subject, uuid).placement == before.placement


def test_a_new_agent_reads_the_same_generation(subject):
    uuid = subject.boot()
    before = the_guest(subject, uuid)
    subject.restart_agent()
    assert the_guest(subject, uuid).generation == before.generation
