# SPDX-License-Identifier: Apache-2.0
"""A live migration started by somebody else while a placement is applied: no orphan arrives.

Two private hosts on one machine. Nova hands the source's migratable live XML to both the live and
the persistent side of the destination, and so does `migrate` here.
"""

import threading
from collections.abc import Iterator

import libvirt
import pytest

from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, WEIGHT_RANGES, Knob, Quota
from tests.host_subjects import LibvirtSubject, a_cap, a_weight, an_applied, cap, place, weigh
from tests.libvirt_host import LibvirtHost
from tests.migrating import arrived, migrate, xml_of
from tests.waiting import wait_until
from vp_agent.cli.release import Release
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.journal_entry import NAMESPACE
from vp_agent.loop.control_socket import RunFolder
from vp_agent.loop.executor import Executor

BOTH = frozenset({0, 1})
CORNER = frozenset({1})
HALF = Quota(50_000, 90_000)
HEAVY = 5000
"""A weight that both cgroup versions take, and neither has by itself."""
SOURCE_EPOCH = 7
OWN_EPOCH = 9


@pytest.fixture(params=["kernel", "libvirt"])
def source(request, libvirt_host: LibvirtHost) -> Iterator[LibvirtSubject]:
    subject = LibvirtSubject(libvirt_host, request.param)
    yield subject
    subject.close()


def a_placed_guest(source: LibvirtSubject) -> str:
    uuid = source.boot()
    given = source.weight(uuid)
    heavy = given._replace(number=HEAVY)
    capped = a_cap(uuid, HALF).of(Knob.CPU_CAP)
    weighed = a_weight(uuid, heavy, given).of(Knob.CPU_WEIGHT)
    entry = an_applied(uuid, CORNER, BOTH, SOURCE_EPOCH).holding(capped).holding(weighed)
    source.journal.write(entry)
    place(source.actuator, uuid, CORNER)
    cap(source.actuator, uuid, HALF)
    weigh(source.actuator, uuid, heavy)
    return uuid


def is_free(there: LibvirtSubject, uuid: str) -> bool:
    """It runs as on a host that never heard of us."""
    weight = there.weight(uuid)
    assert weight.number == WEIGHT_RANGES[weight.unit].default
    return (there.affinities(uuid), there.quotas(uuid)) == ({BOTH}, {NO_QUOTA})


def test_with_an_agent_there_nothing_is_left(source, destination, has_hook):
    uuid = a_placed_guest(source)
    migrate(source, uuid, destination)
    there = arrived(destination, uuid, source.actuator.name)
    assert [guest.unmanaged for guest in there.guests.read()] == [None]
    entry = there.journal.read()[uuid]
    assert entry.epoch != SOURCE_EPOCH or not has_hook
    executor = Executor(
        there.journal, dict.fromkeys(there.actuator.knobs, there.actuator), OWN_EPOCH
    )
    assert executor.undo([entry], waits=True) == ()
    assert is_free(there, uuid)
    assert there.emulator_affinity(uuid) == BOTH
    assert there.journal.read() == {}
    for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
        assert NAMESPACE not in xml_of(destination, uuid, flags)
        for ours in ("cpuset='1'", f"<quota>{HALF.quota_us}", f"<shares>{HEAVY}"):
            assert ours not in xml_of(destination, uuid, flags)
    there.soft_reboot(uuid)
    assert is_free(there, uuid)
    there.close()


def test_the_kernels_placement_and_cap_need_nobody_on_the_other_side(libvirt_host, destination):
    source = LibvirtSubject(libvirt_host, "kernel")
    uuid = a_placed_guest(source)
    migrate(source, uuid, destination)
    there = arrived(destination, uuid)
    assert is_free(there, uuid)
    assert "<cputune>" not in xml_of(destination, uuid)
    there.soft_reboot(uuid)
    assert there.affinities(uuid) == {BOTH}
    there.close()
    source.close()


def test_who_was_let_go_of_first_needs_nobody_on_the_other_side(source, destination):
    uuid = a_placed_guest(source)
    executor = Executor(
        source.journal, dict.fromkeys(source.actuator.knobs, source.actuator), OWN_EPOCH
    )
    assert executor.release_guest(source.journal.read()[uuid])
    assert dict(source.journal.read()) == {}
    assert (source.affinities(uuid), source.quotas(uuid)) == ({BOTH}, {NO_QUOTA})
    migrate(source, uuid, destination)
    there = arrived(destination, uuid)
    there.soft_reboot(uuid)
    assert is_free(there, uuid)
    assert NAMESPACE not in xml_of(destination, uuid, libvirt.VIR_DOMAIN_XML_INACTIVE)
    there.close()


def test_where_no_agent_lives_the_timer_clears_the_persistent_xml(
    libvirt_host, destination, has_hook, tmp_path
):
    """The hook does not see that one: Nova hands it over beside the live one."""
    source = LibvirtSubject(libvirt_host, "libvirt")
    uuid = a_placed_guest(source)
    migrate(source, uuid, destination)
    there = arrived(destination, uuid, "libvirt")
    executor = Executor(
        there.journal, dict.fromkeys(there.actuator.knobs, there.actuator), OWN_EPOCH
    )
    folder = RunFolder(str(tmp_path))
    done = Release(folder, there.guests, there.journal, executor, (OWN_EPOCH,)).expired()
    assert (done.restored, done.failed) == ((uuid,), ())
    assert NAMESPACE not in xml_of(destination, uuid, libvirt.VIR_DOMAIN_XML_INACTIVE)
    there.soft_reboot(uuid)
    assert is_free(there, uuid)
    there.close()
    source.close()


def test_the_hook_alone_frees_the_arriving_threads(source, destination, has_hook):
    uuid = a_placed_guest(source)
    migrate(source, uuid, destination)
    there = arrived(destination, uuid)
    is_orphan = source.actuator.name == "libvirt" and not has_hook
    assert there.affinities(uuid) == {CORNER if is_orphan else BOTH}
    assert there.emulator_affinity(uuid) == (CORNER if is_orphan else BOTH)
    assert there.quotas(uuid) == {HALF if is_orphan else NO_QUOTA}
    assert (there.weight(uuid).number == HEAVY) is is_orphan
    there.close()


def test_a_guest_under_migration_is_watched_and_not_touched(libvirt_host, destination):
    source, there = LibvirtSubject(libvirt_host), LibvirtSubject(destination)
    uuid = source.boot_xml(memory_mib=1024)
    source.guests.read()
    # Two MiB of zero pages' headers at one MiB per second: long enough to be seen.
    source.domain(uuid).migrateSetMaxSpeed(1)
    thread = threading.Thread(target=migrate, args=(source, uuid, destination))
    thread.start()
    try:
        for side in (there, source):
            wait_until(lambda side=side: is_migrating(side), "the migration is seen")
            with pytest.raises(ApplyFailed, match="libvirt job"):
                side.journal.write(an_applied(uuid, CORNER, BOTH))
    finally:
        thread.join()
    assert source.guests.read() == ()
    wait_until(lambda: not is_migrating(there), "it has arrived")
    assert [guest.unmanaged for guest in there.guests.read()] == [None]
    source.close()
    there.close()


def is_migrating(subject: LibvirtSubject) -> bool:
    return [guest.unmanaged for guest in subject.guests.read()] == [Unmanaged.MIGRATING]
