# SPDX-License-Identifier: Apache-2.0
"""What only real libvirt can show: events, foreign changes, hostile metadata, what stays in XML."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import libvirt
import pytest

from nova_vp.core.model import Isolation, Unmanaged
from tests.domain_xml import PROJECT_ID, nova_metadata
from tests.host_subjects import LibvirtSubject, an_applied
from tests.libvirt_host import wait_until
from vp_agent.drivers import actuator_kernel
from vp_agent.drivers.actuator_libvirt import LibvirtActuator
from vp_agent.drivers.base import ApplyFailed, HostUnavailable
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.journal_entry import NAMESPACE, NEVER
from vp_agent.drivers.libvirt_guests import LibvirtGuests

BOTH = frozenset({0, 1})
CORNER = frozenset({1})
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
CONFIG = libvirt.VIR_DOMAIN_AFFECT_CONFIG


@pytest.fixture
def subject(libvirt_subject: LibvirtSubject) -> LibvirtSubject:
    return libvirt_subject


def the_guest(subject):
    (guest,) = subject.guests.read()
    return guest


def write_by_hand(subject, uuid, text, where=LIVE):
    element = libvirt.VIR_DOMAIN_METADATA_ELEMENT
    subject.domain(uuid).setMetadata(element, text, "vp", NAMESPACE, where)


def pin_by_hand(subject, uuid, cpus, where=LIVE):
    for vcpu in range(2):
        cpu_map = tuple(cpu in cpus for cpu in sorted(BOTH))
        subject.domain(uuid).pinVcpuFlags(vcpu, cpu_map, where)


def test_novas_metadata_comes_through_libvirt(subject):
    specs = {"vp:isolation": "strict", "hw:foo": "bar"}
    subject.boot_xml(metadata=nova_metadata("db & co", "m1.big", specs))
    guest = the_guest(subject)
    assert (guest.name, guest.flavor, guest.project_id) == ("db & co", "m1.big", PROJECT_ID)
    assert guest.isolation is Isolation.STRICT
    assert guest.memory_kib == 16 * 1024
    assert guest.cpu_time_ns > 0


def test_a_pin_by_an_operator_makes_the_guest_foreign_until_it_is_neutral_again(subject):
    uuid = subject.boot()
    assert the_guest(subject).unmanaged is None
    pin_by_hand(subject, uuid, CORNER)
    wait_until("seen", lambda: the_guest(subject).unmanaged is Unmanaged.FOREIGN_CHANGE)
    assert "virsh vcpupin" in the_guest(subject).unmanaged_detail
    pin_by_hand(subject, uuid, BOTH)
    wait_until("handed back", lambda: the_guest(subject).unmanaged is None)


@pytest.mark.parametrize("is_placed", [False, True])
def test_vcpus_that_somebody_scattered_are_left_alone(subject, is_placed):
    """Together they cover the bound, so that only a look at each tells it from floating."""
    uuid = subject.boot()
    if is_placed:
        subject.journal.write(an_applied(uuid, CORNER, BOTH))
        subject.actuator.place(uuid, CORNER)
        os.sched_setaffinity(subject.tids(uuid)[1], BOTH - CORNER)
    os.sched_setaffinity(subject.tids(uuid)[0], CORNER)
    guest = the_guest(subject)
    assert guest.unmanaged is Unmanaged.FOREIGN_CHANGE
    assert guest.placement == BOTH


def test_hostile_metadata_asks_for_novas_bound_and_can_be_dropped(subject):
    uuid = subject.boot(cpus=CORNER)
    subject.guests.read()
    write_by_hand(subject, uuid, "<placed cpus='0-9999999999' original='x'><y/></placed>")
    wait_until("seen", lambda: subject.guests.read() and subject.journal.read())
    entry = subject.journal.read()[uuid]
    assert (entry.epoch, entry.original_cpus) == (NEVER, CORNER)
    subject.actuator.restore(entry)
    subject.journal.drop(uuid)
    assert subject.journal.read() == {}
    assert NAMESPACE not in subject.live_xml(uuid)


def test_a_journal_that_cannot_be_kept_is_refused_before_anything_changes(subject):
    uuid = subject.boot()
    with pytest.raises(ApplyFailed):
        subject.journal.write(an_applied(uuid, CORNER, frozenset({0, 1, 77})))
    assert subject.affinities(uuid) == {BOTH}


def test_what_a_migration_left_in_the_persistent_xml_is_found_and_cleaned(subject):
    """libvirt gives the hook the live XML only."""
    uuid = subject.boot()
    write_by_hand(subject, uuid, "<placed cpus='1' original='0-1'/>", CONFIG)
    pin_by_hand(subject, uuid, CORNER, CONFIG)
    subject.restart_agent()
    assert the_guest(subject).unmanaged is None
    entry = subject.journal.read()[uuid]
    assert entry.epoch == NEVER
    subject.actuator.restore(entry)
    subject.journal.drop(uuid)
    subject.soft_reboot(uuid)
    assert the_guest(subject).placement == BOTH
    assert subject.journal.read() == {}
    assert NAMESPACE not in subject.live_xml(uuid)


def test_the_kernel_actuator_leaves_no_trace_in_the_xml(subject):
    uuid = subject.boot()
    before = subject.live_xml(uuid)
    entry = an_applied(uuid, CORNER, BOTH)
    subject.journal.write(entry)
    subject.actuator.place(uuid, CORNER)
    assert "vcpupin" not in subject.live_xml(uuid)
    subject.actuator.restore(entry)
    subject.journal.drop(uuid)
    assert subject.live_xml(uuid) == before


def test_the_libvirt_actuator_leaves_pins_equal_to_the_bound(subject):
    uuid = subject.boot()
    actuator = LibvirtActuator(subject.domains)
    entry = an_applied(uuid, CORNER, BOTH)
    subject.journal.write(entry)
    actuator.place(uuid, CORNER)
    assert "<vcpupin vcpu='0' cpuset='1'/>" in subject.live_xml(uuid)
    actuator.restore(entry)
    subject.journal.drop(uuid)
    assert subject.live_xml(uuid).count("cpuset='0-1'") == 3  # <vcpu> and two pins
    assert NAMESPACE not in subject.live_xml(uuid)
    assert the_guest(subject).unmanaged is None


@pytest.mark.parametrize("order", [1, -1])
def test_each_actuator_undoes_what_the_other_did(subject, order):
    uuid = subject.boot()
    actuators = [actuator_kernel.create(subject.domains), LibvirtActuator(subject.domains)]
    doer, undoer = actuators[::order]
    entry = an_applied(uuid, CORNER, BOTH)
    subject.journal.write(entry)
    doer.place(uuid, CORNER)
    undoer.restore(entry)
    subject.journal.drop(uuid)
    assert subject.affinities(uuid) == {BOTH}
    assert the_guest(subject).unmanaged is None


def test_a_host_without_libvirtd_says_what_to_do(tmp_path):
    socket = tmp_path / "none"
    guests = LibvirtGuests(Domains(Connection(f"qemu+unix:///system?socket={socket}")))
    with pytest.raises(HostUnavailable, match="check that libvirtd runs"):
        guests.read()


def test_a_libvirtd_that_hangs_holds_nobody_for_ever(subject):
    uuid = subject.boot()
    connection = Connection(subject.host.uri, open_timeout_s=0.1)
    guests = LibvirtGuests(Domains(connection, subject.host.run_directory))
    wake = functools.partial(os.kill, subject.host.libvirtd_pid(), signal.SIGCONT)
    rescue = threading.Timer(20.0, wake)
    os.kill(subject.host.libvirtd_pid(), signal.SIGSTOP)
    rescue.start()
    try:
        for _ in range(3):
            with pytest.raises(HostUnavailable, match="hangs"):
                guests.read()
    finally:
        rescue.cancel()
        wake()

    def is_read_again():
        with contextlib.suppress(HostUnavailable):
            return [guest.uuid for guest in guests.read()] == [uuid]

    wait_until("the guest is read again", is_read_again)
    connection.close()


def test_an_agent_that_cannot_see_libvirts_run_folder_says_so(subject, tmp_path):
    subject.boot()
    connection = Connection(subject.host.uri)
    guests = LibvirtGuests(Domains(connection, tmp_path / "elsewhere"))
    with pytest.raises(HostUnavailable, match="run folder"):
        guests.read()
    connection.close()


# The process of a guest that libvirt goes on to call running, however it ends.
A_QEMU = "open('/proc/self/comm', 'w').write('CPU 0/TCG'); print(flush=True); input()"


@pytest.fixture
def qemu() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", A_QEMU]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_guest_whose_process_libvirt_does_not_know_to_be_dead_is_passed_over(
    subject, tmp_path, qemu
):
    uuid = subject.boot()
    pid_file = tmp_path / f"{subject.domain(uuid).name()}.pid"
    connection = Connection(subject.host.uri)
    domains = Domains(connection, tmp_path)
    pid_file.touch()
    assert domains.refresh() == (), "QEMU has made its pid file and not yet written it"
    pid_file.write_text(str(qemu.pid))
    assert len(domains.refresh()) == 1
    qemu.kill()
    qemu.wait()
    assert domains.refresh() == ()
    connection.close()


def test_guests_are_read_again_by_age_since_not_every_change_sends_an_event(subject):
    now_s = 0.0
    connection = Connection(subject.host.uri)
    domains = Domains(connection, subject.host.run_directory, clock=lambda: now_s)
    uuid = subject.boot()
    (first,) = domains.refresh()
    domains.refresh()
    assert domains.find(uuid).read_at_s == 0.0
    now_s = 1000.0
    domains.refresh()
    assert domains.find(uuid).read_at_s == 1000.0
    assert domains.find(uuid).generation == first.domain.generation
    connection.close()
