# SPDX-License-Identifier: Apache-2.0
"""A guest that leaves with less memory than its flavor gives gets all of it back, whoever moved it.

The balloon goes along inside QEMU, unlike all else that the agent changes.
"""

from collections.abc import Iterator

import libvirt
import pytest

from nova_vp.core.types.knob import Applied, Knob
from tests.contract.test_balloon import ALL, LESS, RealBallooning, a_held, has, resize
from tests.host_subjects import LibvirtSubject
from tests.libvirt_host import LibvirtHost
from tests.migrating import arrived, migrate, xml_of
from tests.waiting import wait_until
from vp_agent.cli.release import Release
from vp_agent.drivers.journal_entry import NAMESPACE
from vp_agent.loop.control_socket import RunFolder

SOURCE_EPOCH, OWN_EPOCH = 7, 9


@pytest.fixture
def source(libvirt_host: LibvirtHost) -> Iterator[RealBallooning]:
    subject = LibvirtSubject(libvirt_host)
    yield RealBallooning(subject)
    subject.close()


def a_small_guest(source: RealBallooning) -> str:
    uuid = source.boot()
    source.subject.journal.write(Applied(uuid, SOURCE_EPOCH, (a_held(LESS),)))
    resize(source, uuid, LESS)
    has(source, uuid, LESS)
    return uuid


def release_when_taken(source: RealBallooning, entry: Applied) -> None:
    """A guest on a busy machine may need longer than one release waits; whoever orders a migration
    tries again."""
    wait_until(lambda: source.executor.release_guest(entry), "the guest to take its memory back")


def test_memory_is_back_and_confirmed_before_a_migration_that_was_announced(source, destination):
    uuid = a_small_guest(source)
    release_when_taken(source, source.subject.journal.read()[uuid])
    assert source.size(uuid) == ALL
    migrate(source.subject, uuid, destination)
    there = RealBallooning(arrived(destination, uuid))
    assert there.size(uuid) == ALL
    assert there.subject.journal.read() == {}
    there.subject.close()


def test_a_guest_that_does_not_take_its_memory_back_is_not_ready_to_migrate(source):
    uuid = a_small_guest(source)
    entry = source.subject.journal.read()[uuid]
    source.subject.suspend(uuid)
    assert not source.executor.release_guest(entry)
    assert source.subject.journal.read() == {uuid: entry}
    source.subject.resume(uuid)
    release_when_taken(source, entry)
    assert source.size(uuid) == ALL


def test_after_any_other_migration_memory_comes_back_there(source, destination, has_hook, tmp_path):
    uuid = a_small_guest(source)
    migrate(source.subject, uuid, destination)
    there = RealBallooning(arrived(destination, uuid))
    assert there.size(uuid) == LESS, "QEMU took the balloon along"
    subject = there.subject
    [held] = subject.journal.read()[uuid].held
    assert (held.knob, held.original) == (Knob.MEMORY_SIZE, ALL)
    folder = RunFolder(str(tmp_path))
    release = Release(folder, subject.guests, subject.journal, there.executor, (OWN_EPOCH,))
    done = release.expired()
    assert (done.restored, done.failed) == ((uuid,), ())
    assert there.size(uuid) == ALL
    for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
        assert NAMESPACE not in xml_of(destination, uuid, flags)
        wait_until(
            lambda flags=flags: (
                f"<currentMemory unit='KiB'>{ALL.kib}<" in xml_of(destination, uuid, flags)
            ),
            "libvirt knows its size",
        )
    subject.close()
