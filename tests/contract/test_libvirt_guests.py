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
from dataclasses import replace
from pathlib import Path

import libvirt
import pytest

from nova_vp.core.types.guest import Isolation, Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, Applied, Held, Knob, Quota
from nova_vp.core.types.service_level import ServiceClass
from tests.domain_xml import PROJECT_ID, nova_metadata
from tests.host_subjects import (
    IO_THREAD,
    LibvirtSubject,
    a_weight,
    an_applied,
    cap,
    place,
    restore,
    weigh,
)
from tests.waiting import wait_until
from vp_agent.drivers import actuator_kernel
from vp_agent.drivers.actuator_libvirt import LibvirtActuator
from vp_agent.drivers.base import ApplyFailed, GuestGone, HostUnavailable
from vp_agent.drivers.cgroups import cpu_group
from vp_agent.drivers.connection import Changed, Connection, Listener
from vp_agent.drivers.domains import LIST_EVERY_S, Domains
from vp_agent.drivers.journal_entry import NAMESPACE, NEVER, Given, unreadable
from vp_agent.drivers.libvirt_guests import LibvirtGuests

BOTH = frozenset({0, 1})
CORNER = frozenset({1})
HALF = Quota(50_000, 100_000)
NOVAS = Quota(90_000, 90_000)
CAPPED = Held(Knob.CPU_CAP, HALF, NO_QUOTA, "mitigation", "mitigation-2")
LEFTOVER = (
    "<applied epoch='3'><held knob='placement' value='1' original='0-1' controller='vp'"
    " action='vp-1'/></applied>"
)
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


def test_the_hosts_name_is_libvirts_which_placement_has_too(subject):
    subject.guests.read()
    assert subject.guests.host_name() == subject.host.connect().getHostname()


def test_a_guest_whose_xml_no_parser_takes_hides_no_other(subject, caplog):
    """libvirt takes any namespace; a closing brace in one is too much for ours."""
    uuid = subject.boot_xml()
    strange = subject.boot_xml(metadata='<s:thing xmlns:s="of}some:tool"/>')
    for _ in range(2):
        assert [guest.uuid for guest in subject.guests.read()] == [uuid]
    [told] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert f"vp={strange} cannot be measured" in told
    assert "virsh dumpxml" in told


def test_novas_metadata_comes_through_libvirt(subject):
    specs = {
        "vp:isolation": "strict",
        "vp:group": "shop",
        "vp:priority": "2.5",
        "vp:cpu_floor": "80",
        "vp:memory_split": "60,40",
        "vp:class": "latency-critical",
        "vp:latency_target_ms": "2.5",
        "vp:latency_percentile": "99",
        "vp:max_load": "450000",
        "hw:foo": "bar",
    }
    subject.boot_xml(metadata=nova_metadata("db & co", "m1.big", specs))
    guest = the_guest(subject)
    assert (guest.name, guest.flavor, guest.project_id) == ("db & co", "m1.big", PROJECT_ID)
    assert guest.isolation is Isolation.STRICT
    assert (guest.group, guest.vp_id) == ("shop", f"{PROJECT_ID}/shop")
    assert (guest.priority, guest.cap_floor_ratio) == (2.5, 0.8)
    assert guest.controller_keys == (("vp:memory_split", "60,40"),)
    assert guest.service_class is ServiceClass.LATENCY_CRITICAL
    assert (guest.latency_target_ms, guest.latency_percentile) == (2.5, 99.0)
    assert guest.max_load == 450_000.0
    assert guest.memory_kib == 16 * 1024
    assert guest.cpu_time_ns > 0


def test_a_best_effort_server_may_be_suspended_if_its_flavor_says_so(subject):
    specs = {"vp:class": "best-effort", "vp:suspend": "yes"}
    subject.boot_xml(metadata=nova_metadata(extra_specs=specs))
    guest = the_guest(subject)
    assert (guest.service_class, guest.may_suspend) == (ServiceClass.BEST_EFFORT, True)


def test_a_server_whose_flavor_contradicts_itself_is_left_alone(subject):
    specs = {"vp:class": "best-effort", "vp:latency_target_ms": "10"}
    subject.boot_xml(metadata=nova_metadata(extra_specs=specs))
    guest = the_guest(subject)
    assert guest.unmanaged is Unmanaged.INVALID_SPEC
    assert "vp:latency_target_ms='10' contradicts vp:class=best-effort" in guest.unmanaged_detail


def test_a_pin_by_an_operator_makes_the_guest_foreign_until_it_is_neutral_again(subject):
    uuid = subject.boot()
    assert the_guest(subject).unmanaged is None
    pin_by_hand(subject, uuid, CORNER)
    wait_until(lambda: the_guest(subject).unmanaged is Unmanaged.FOREIGN_CHANGE, "seen")
    assert "virsh vcpupin" in the_guest(subject).unmanaged_detail
    pin_by_hand(subject, uuid, BOTH)
    wait_until(lambda: the_guest(subject).unmanaged is None, "handed back")


@pytest.mark.parametrize("is_placed", [False, True])
def test_vcpus_that_somebody_scattered_are_left_alone(subject, is_placed):
    """Together they cover the bound, so that only a look at each tells it from floating."""
    uuid = subject.boot()
    if is_placed:
        subject.journal.write(an_applied(uuid, CORNER, BOTH))
        place(subject.actuator, uuid, CORNER)
        os.sched_setaffinity(subject.tids(uuid)[1], BOTH - CORNER)
    os.sched_setaffinity(subject.tids(uuid)[0], CORNER)
    guest = the_guest(subject)
    assert guest.unmanaged is Unmanaged.FOREIGN_CHANGE
    assert guest.placement == BOTH


def test_hostile_metadata_asks_for_novas_bound_and_can_be_dropped(subject):
    uuid = subject.boot(cpus=CORNER)
    subject.guests.read()
    write_by_hand(
        subject,
        uuid,
        "<applied epoch='3'><held knob='placement' value='0-9999999999'/><y/></applied>",
    )
    wait_until(lambda: subject.guests.read() and subject.journal.read(), "seen")
    entry = subject.journal.read()[uuid]
    assert entry == unreadable(uuid, Given(CORNER, NO_QUOTA))
    restore(subject.actuator, entry)
    subject.journal.drop(uuid)
    assert subject.journal.read() == {}
    assert NAMESPACE not in subject.live_xml(uuid)


def test_a_journal_that_cannot_be_kept_is_refused_before_anything_changes(subject):
    uuid = subject.boot()
    with pytest.raises(ApplyFailed):
        subject.journal.write(an_applied(uuid, CORNER, frozenset({0, 1, 77})))
    assert subject.affinities(uuid) == {BOTH}


def test_a_guest_is_not_read_again_for_a_journal_of_our_own(subject):
    """Its event comes all the same; only who compares the journal knows whose it was."""
    uuid = subject.boot()
    subject.guests.read()
    heard: list[tuple[str | None, Changed]] = []
    subject.domains.connection.listen(lambda *event: heard.append(event))
    read_at_s = subject.domains.find(uuid).read_at_s
    entry = an_applied(uuid, CORNER, BOTH)
    subject.journal.write(entry)
    wait_until(lambda: (uuid, Changed.JOURNAL) in heard, "the event")
    subject.guests.read()
    assert subject.journal.read() == {uuid: entry}
    assert subject.domains.find(uuid).read_at_s == read_at_s
    write_by_hand(subject, uuid, LEFTOVER)
    wait_until(lambda: subject.guests.read() and subject.journal.read() != {uuid: entry}, "seen")
    assert subject.journal.read()[uuid].epoch == 3
    write_by_hand(subject, uuid, None)
    wait_until(lambda: subject.guests.read() and not subject.journal.read(), "gone")


def test_what_a_migration_left_in_the_persistent_xml_is_found_and_cleaned(subject):
    """libvirt gives the hook the live XML only."""
    uuid = subject.boot()
    write_by_hand(subject, uuid, LEFTOVER, CONFIG)
    pin_by_hand(subject, uuid, CORNER, CONFIG)
    subject.restart_agent()
    assert the_guest(subject).unmanaged is None
    entry = subject.journal.read()[uuid]
    assert entry.epoch == NEVER
    restore(subject.actuator, entry)
    subject.journal.drop(uuid)
    subject.soft_reboot(uuid)
    assert the_guest(subject).placement == BOTH
    assert subject.journal.read() == {}
    assert NAMESPACE not in subject.live_xml(uuid)


def test_the_kernel_actuator_leaves_no_trace_in_the_xml(subject):
    uuid = subject.boot()
    before = subject.live_xml(uuid)
    given = subject.weight(uuid)
    heavy = given._replace(number=4 * given.number)
    weighed = Held(Knob.CPU_WEIGHT, heavy, given, "vp", "vp-3")
    entry = an_applied(uuid, CORNER, BOTH).holding(CAPPED).holding(weighed)
    subject.journal.write(entry)
    place(subject.actuator, uuid, CORNER)
    cap(subject.actuator, uuid, HALF)
    weigh(subject.actuator, uuid, heavy)
    assert "<cputune>" not in subject.live_xml(uuid)
    restore(subject.actuator, entry)
    subject.journal.drop(uuid)
    assert subject.live_xml(uuid) == before


def test_the_libvirt_actuator_leaves_pins_equal_to_the_bound_and_no_limit(subject):
    uuid = subject.boot()
    actuator = LibvirtActuator(subject.domains)
    entry = an_applied(uuid, CORNER, BOTH).holding(CAPPED)
    subject.journal.write(entry)
    place(actuator, uuid, CORNER)
    cap(actuator, uuid, HALF)
    for told in (
        "<vcpupin vcpu='0' cpuset='1'/>",
        "<emulatorpin cpuset='1'/>",
        "<iothreadpin iothread='1' cpuset='1'/>",
        "<quota>50000",
    ):
        assert told in subject.live_xml(uuid)
    restore(actuator, entry)
    subject.journal.drop(uuid)
    assert subject.live_xml(uuid).count("cpuset='0-1'") == 5  # <vcpu> and four pins
    assert "<quota>-1</quota>" in subject.live_xml(uuid)
    assert NAMESPACE not in subject.live_xml(uuid)
    assert the_guest(subject).unmanaged is None


@pytest.mark.parametrize("kind", ["emulatorpin", "iothreadpin iothread='1'"])
def test_other_threads_that_somebody_pinned_elsewhere_stay_there(subject, kind):
    body = f"{IO_THREAD}<cputune><{kind} cpuset='0'/></cputune>"
    uuid = subject.boot_xml(cpuset="0-1", body=body)
    actuator, entry = LibvirtActuator(subject.domains), an_applied(uuid, CORNER, BOTH)
    subject.journal.write(entry)
    place(actuator, uuid, CORNER)
    assert f"<{kind} cpuset='0'/>" in subject.live_xml(uuid)
    restore(actuator, entry)
    assert f"<{kind} cpuset='0'/>" in subject.live_xml(uuid)


def test_the_libvirt_actuator_leaves_the_weight_that_stood_there(subject):
    """Live alone; libvirt has no call that takes `<shares>` out again."""
    uuid = subject.boot()
    actuator, given = LibvirtActuator(subject.domains), subject.weight(uuid)
    heavy = given._replace(number=4 * given.number)
    entry = a_weight(uuid, heavy, given)
    subject.journal.write(entry)
    weigh(actuator, uuid, heavy)
    assert f"<shares>{heavy.number}</shares>" in subject.live_xml(uuid)
    restore(actuator, entry)
    subject.journal.drop(uuid)
    assert f"<shares>{given.number}</shares>" in subject.live_xml(uuid)
    assert "<shares>" not in subject.domain(uuid).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)


def test_what_libvirt_was_told_of_a_weight_is_taken_back_by_either_actuator(subject):
    """It would set it again when it next starts the guest, and hand it to another host."""
    for actuator in (actuator_kernel.create(subject.domains), LibvirtActuator(subject.domains)):
        uuid = subject.boot(shares=1500)
        given = subject.weight(uuid)
        heavy = given._replace(number=4 * given.number)
        entry = a_weight(uuid, heavy, given)
        subject.journal.write(entry)
        weigh(LibvirtActuator(subject.domains), uuid, heavy)
        restore(actuator, entry)
        assert subject.weight(uuid) == given
        assert f"<shares>{given.number}</shares>" in subject.live_xml(uuid)


@pytest.mark.parametrize("order", [1, -1])
def test_each_actuator_undoes_what_the_other_did(subject, order):
    uuid = subject.boot(quota=NOVAS)
    actuators = [actuator_kernel.create(subject.domains), LibvirtActuator(subject.domains)]
    doer, undoer = actuators[::order]
    entry = an_applied(uuid, CORNER, BOTH).holding(replace(CAPPED, original=NOVAS))
    subject.journal.write(entry)
    place(doer, uuid, CORNER)
    cap(doer, uuid, HALF)
    restore(undoer, entry)
    subject.journal.drop(uuid)
    assert (subject.affinities(uuid), subject.quotas(uuid)) == ({BOTH}, {NOVAS})
    assert subject.emulator_affinity(uuid) == BOTH
    assert subject.domains.find(uuid).description.quota == NOVAS
    assert the_guest(subject).unmanaged is None


def test_emulator_threads_that_somebody_pinned_are_left_alone(subject):
    """Nova's vCPUs may be placed; these threads are the operator's."""
    uuid = subject.boot_xml(cpuset="0-1")
    subject.domain(uuid).pinEmulator((True, False), LIVE)
    entry = an_applied(uuid, CORNER, BOTH)
    for actuator in (actuator_kernel.create(subject.domains), LibvirtActuator(subject.domains)):
        subject.journal.write(entry)
        place(actuator, uuid, CORNER)
        assert subject.emulator_affinity(uuid) == BOTH - CORNER
        restore(actuator, entry)
        assert subject.emulator_affinity(uuid) == BOTH - CORNER
        assert subject.affinities(uuid) == {BOTH}


@pytest.mark.parametrize("name", ["kernel", "libvirt"])
def test_a_tighter_cgroup_above_the_vcpus_does_not_hinder_a_cap(libvirt_host, name):
    """The whole guest may have less than its vCPUs together: what is written is what is read."""
    subject = LibvirtSubject(libvirt_host, name)
    uuid = subject.boot()
    subject.domain(uuid).setSchedulerParametersFlags({"global_quota": 40_000}, LIVE)
    cap(subject.actuator, uuid, Quota(30_000, 100_000))
    assert subject.quotas(uuid) == {Quota(30_000, 100_000)}
    with contextlib.suppress(ApplyFailed):  # version 1 refuses it, version 2 lets the tighter win
        cap(subject.actuator, uuid, Quota(90_000, 100_000))
        assert subject.quotas(uuid) == {Quota(90_000, 100_000)}
    restore(subject.actuator, Applied(uuid, 7, (CAPPED,)))
    assert subject.quotas(uuid) == {NO_QUOTA}
    subject.close()


def test_a_vcpu_plugged_in_later_shows_that_the_cap_is_not_whole(subject):
    uuid = subject.boot_xml(maximum=3)
    subject.journal.write(Applied(uuid, 7, (CAPPED,)))
    cap(subject.actuator, uuid, HALF)
    assert the_guest(subject).quota == HALF
    subject.domain(uuid).setVcpus(3)
    subject.domains.forget(uuid)
    wait_until(lambda: the_guest(subject).vcpus == 3, "it is seen")
    assert the_guest(subject).quota == NO_QUOTA
    cap(subject.actuator, uuid, HALF)
    assert the_guest(subject).quota == HALF


def test_a_guest_first_seen_before_libvirt_had_made_its_vcpus_cgroups(subject):
    """As an agent sees one that is just arriving; its quota counts once it has one."""
    uuid = subject.boot()
    groups = {tid: Path(cpu_group(tid).path) for tid in subject.tids(uuid)}
    for tid, group in groups.items():
        (group.parent / "emulator" / "tasks").write_text(str(tid))
    assert the_guest(subject).quota == NO_QUOTA
    for tid, group in groups.items():
        (group / "tasks").write_text(str(tid))
    subject.journal.write(Applied(uuid, 7, (CAPPED,)))
    cap(subject.actuator, uuid, HALF)
    assert the_guest(subject).quota == HALF


class DeafConnection(Connection):
    def listen(self, listener: Listener) -> None:
        """No event is handed on."""


def test_starts_and_ends_are_seen_without_an_event_and_states_after_a_while(subject):
    clock_s = [0.0]
    domains = Domains(
        DeafConnection(subject.host.uri), subject.host.run_directory, lambda: clock_s[0]
    )

    def seen() -> dict[str, tuple[str, bool]]:
        found = domains.refresh()
        return {one.domain.guest.uuid: (one.domain.generation, one.is_running) for one in found}

    first, second = subject.boot(), subject.boot()
    before = seen()
    assert before.keys() == {first, second}
    third = subject.boot()
    assert seen().keys() == {first, second, third}
    subject.end(third)
    assert seen() == before
    subject.soft_reboot(first)
    assert seen()[first] != before[first]
    assert seen()[second] == before[second]
    subject.suspend(second)
    assert seen()[second][1]
    clock_s[0] += LIST_EVERY_S
    assert not seen()[second][1]
    domains.connection.close()


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

    wait_until(is_read_again, "the guest is read again")
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


def test_a_guest_with_threads_that_it_cannot_have_is_passed_over_and_named(
    subject, tmp_path, caplog
):
    """Whoever broke out of it may name threads, but has no libvirtd at hand."""
    named = "import ctypes, threading; ctypes.CDLL(None).prctl(15, b'CPU 9/KVM', 0, 0, 0);"
    uuid = subject.boot()
    other = subject.boot()
    connection = Connection(subject.host.uri)
    domains = Domains(connection, tmp_path)
    script = f"{named} print('ready', flush=True); threading.Event().wait()"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        for one, pid in ((uuid, process.pid), (other, subject.host.pid_of(subject.domain(other)))):
            (tmp_path / f"{subject.domain(one).name()}.pid").write_text(str(pid))
        seen = [running.domain.description.uuid for running in domains.refresh()]
        assert seen == [other]
        assert f"vp={uuid} cannot be measured" in caplog.text
        with pytest.raises(GuestGone):
            domains.find(uuid)
    finally:
        process.kill()
        process.communicate()
        connection.close()


def test_cpus_that_nova_powers_off_or_on_are_read_again(subject, tmp_path):
    online = tmp_path / "devices/system/cpu/online"
    online.parent.mkdir(parents=True)
    online.write_text("0-1\n")
    connection = Connection(subject.host.uri)
    domains = Domains(connection, subject.host.run_directory, sysfs=tmp_path)
    uuid = subject.boot()
    domains.refresh()
    topology, domain = domains.topology(), domains.find(uuid)
    domains.refresh()
    assert (domains.topology(), domains.find(uuid)) == (topology, domain)
    assert domains.topology() is topology
    online.write_text("0\n")
    domains.refresh()
    assert domains.topology() is not topology
    assert domains.find(uuid) is not domain
    connection.close()


def test_cpu_times_are_unknown_where_they_are_not_to_be_read(subject):
    subject.boot()
    connection = Connection(subject.host.uri)
    guests = LibvirtGuests(Domains(connection, subject.host.run_directory), reads_cpu_times=False)
    assert [guest.cpu_times for guest in guests.read()] == [None]
    connection.close()


def test_cpu_times_go_on_and_begin_anew_with_each_start(subject):
    uuid = subject.boot()
    first, host = the_guest(subject).cpu_times, subject.guests.host_cpu()
    assert first.ran_ns > 0
    assert host.total_ticks > 0

    def has_run():
        now = the_guest(subject).cpu_times
        return now if now.ran_ns > first.ran_ns else None

    assert wait_until(has_run, "its vCPUs to run").generation == first.generation
    subject.soft_reboot(uuid)
    assert the_guest(subject).cpu_times.generation != first.generation


def test_the_groups_that_are_looked_at_are_those_of_libvirt(subject):
    uuid = subject.boot()
    # Also of a guest that is all but idle once it has booted.
    subject.cap_by_hand(uuid, Quota(1000, 1_000_000))
    throttled_ns = [0]

    def is_throttled():
        throttled_ns.append(the_guest(subject).cpu_times.throttled_ns)
        return throttled_ns[-1] > 0

    wait_until(is_throttled, "a vCPU with a quota of 1 ms in a second to be throttled")
