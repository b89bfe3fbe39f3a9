# SPDX-License-Identifier: Apache-2.0
"""A guest goes cold (migration, resize, shelve, evacuation) while a placement and a cap are
applied: neither outlives its QEMU, here or where Nova defines it anew.

Nova writes that XML from its own database each time; nothing of the old domain is in it.
"""

from collections.abc import Iterator

import pytest

from nova_vp.core.types.knob import NO_QUOTA, Knob, Quota
from tests.domain_xml import a_domain
from tests.host_subjects import LibvirtSubject, a_cap, an_applied, cap, place
from tests.libvirt_host import LibvirtHost
from vp_agent.loop.executor import Executor

BOTH = frozenset({0, 1})
CORNER = frozenset({1})
HALF = Quota(50_000, 90_000)
EPOCH = 7


@pytest.fixture(params=["kernel", "libvirt"])
def subject(request, libvirt_host: LibvirtHost) -> Iterator[LibvirtSubject]:
    subject = LibvirtSubject(libvirt_host, request.param)
    yield subject
    subject.close()


def a_limited_guest(subject: LibvirtSubject) -> str:
    uuid = subject.boot()
    capped = a_cap(uuid, HALF).of(Knob.CPU_CAP)
    subject.journal.write(an_applied(uuid, CORNER, BOTH, EPOCH).holding(capped))
    place(subject.actuator, uuid, CORNER)
    cap(subject.actuator, uuid, HALF)
    assert subject.quotas(uuid) == {HALF}
    return uuid


def go_cold(subject: LibvirtSubject, uuid: str) -> str:
    """What Nova leaves on the source: nothing. The name that the domain had."""
    domain = subject.domain(uuid)
    name = domain.name()
    domain.destroy()
    if domain.isPersistent():
        domain.undefine()
    return name


def come_back(subject: LibvirtSubject, uuid: str, name: str) -> None:
    """A reverted resize, an unshelve or an evacuation to here: Nova's XML of the same server."""
    subject.host.boot(a_domain(name, uuid=uuid), is_persistent=True)
    subject.adopt(uuid)


def test_the_source_has_nothing_left_to_undo(subject):
    uuid = a_limited_guest(subject)
    go_cold(subject, uuid)
    assert subject.guests.read() == ()
    assert uuid not in subject.journal.read()
    assert uuid not in subject.guests.stopped()


def test_one_that_comes_back_is_as_nova_defined_it(subject):
    uuid = a_limited_guest(subject)
    come_back(subject, uuid, go_cold(subject, uuid))
    (guest,) = subject.guests.read()
    assert (guest.placement, guest.quota, guest.unmanaged) == (BOTH, NO_QUOTA, None)
    assert subject.quotas(uuid) == {NO_QUOTA}
    assert dict(subject.journal.read()) == {}
    for text in (subject.live_xml(uuid), subject.domain(uuid).XMLDesc(2)):
        assert "vcpupin" not in text
        assert "urn:nova-vp" not in text


def test_an_undo_that_comes_late_finds_it_gone_or_does_no_harm(subject):
    uuid = a_limited_guest(subject)
    entry = subject.journal.read()[uuid]
    executor = Executor(
        subject.journal, {k: subject.actuator for k in subject.actuator.knobs}, EPOCH
    )
    name = go_cold(subject, uuid)
    assert executor.undo([entry], waits=True) == ()
    come_back(subject, uuid, name)
    assert executor.undo([entry], waits=True) == ()
    (guest,) = subject.guests.read()
    assert (guest.placement, guest.quota) == (BOTH, NO_QUOTA)
    assert dict(subject.journal.read()) == {}
