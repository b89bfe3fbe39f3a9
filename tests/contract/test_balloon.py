# SPDX-License-Identifier: Apache-2.0
"""Memory sizes on the fake and on real guests: the lab's, whose kernel has a balloon driver.

A guest without one is the firmware that waits: it has the device, and nothing that answers.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Protocol

import libvirt
import pytest

from nova_vp.core.types.knob import NO_MEMORY_SIZE, Applied, Held, Knob, MemorySize
from testbed.lab import settings
from tests.domain_xml import a_domain
from tests.host_subjects import LibvirtSubject
from tests.libvirt_host import LibvirtHost
from tests.waiting import wait_until
from vp_agent.drivers import balloon
from vp_agent.drivers.balloon import NO_STATISTICS, Balloon, used_kib
from vp_agent.drivers.base import ApplyFailed, GuestGone, MemorySizer
from vp_agent.drivers.fake import FakeHost
from vp_agent.drivers.fake_balloon import FakeBalloon
from vp_agent.loop.executor import Executor

MIB = 1024
ALL, SOME, LESS = MemorySize(128 * MIB), MemorySize(104 * MIB), MemorySize(88 * MIB)
COMMAND_LINE = "console=ttyS0 quiet panic=1 tsc=reliable mitigations=off nokaslr ipv6.disable=1"
BOOT = "<kernel>{}</kernel><initrd>{}</initrd><cmdline>{}</cmdline>"
BALLOON = '<memballoon model="virtio" autodeflate="on"><stats period="1"/></memballoon>'
NONE = '<memballoon model="none"/>'
TINY_MIB = 16


class Ballooning(Protocol):
    balloon: MemorySizer

    def boot(self) -> str:
        """A guest of 128 MiB whose driver answers."""

    def boot_silent(self) -> str:
        """One of 16 MiB that has a balloon and no driver."""

    def boot_without(self) -> str:
        """One of 16 MiB that has no balloon."""

    def end(self, uuid: str) -> None: ...

    def size(self, uuid: str) -> MemorySize:
        """By the hypervisor."""

    def seen(self, uuid: str, held: MemorySize | None = None) -> Any:
        """The guest as the tick has it."""


class RealBallooning:
    def __init__(self, subject: LibvirtSubject) -> None:
        self.subject = subject
        self.balloon = Balloon(subject.domains)
        self.executor = Executor(subject.journal, {Knob.MEMORY_SIZE: self.balloon}, 7)

    def boot(self) -> str:
        subprocess.run([settings.LAB / "guest" / "build"], check=True, capture_output=True)
        cache = settings.CACHE
        boot = BOOT.format(cache / "guest-vmlinuz", cache / "guest-initrd", COMMAND_LINE)
        uuid = self._boot(BALLOON, vcpus=1, memory_mib=128, boot=boot)
        wait_until(
            lambda: used_kib(self.subject.domain(uuid).memoryStats(), time.time()) is not None,
            "the balloon's driver reports",
        )
        return uuid

    def boot_silent(self) -> str:
        return self._boot(BALLOON)

    def boot_without(self) -> str:
        return self._boot(NONE)

    def _boot(self, device: str, **about: Any) -> str:
        name = f"instance-{len(self.subject._names) + 1:08x}"
        xml = a_domain(name, body="<features><acpi/></features>", **about).replace(NONE, device)
        uuid = self.subject.host.boot(xml, is_persistent=True).UUIDString()
        self.subject.adopt(uuid)
        return uuid

    def end(self, uuid: str) -> None:
        self.subject.end(uuid)

    def size(self, uuid: str) -> MemorySize:
        return MemorySize(self.subject.domain(uuid).memoryStats()["actual"])

    def seen(self, uuid: str, held: MemorySize | None = None) -> Any:
        guests = self.subject.guests.read()
        given = {uuid: a_held(held)} if held else {}
        [guest] = [g for g in self.balloon.survey(guests, given) if g.uuid == uuid]
        return guest


class FakeBallooning:
    def __init__(self) -> None:
        self.host = FakeHost()
        self.balloon = FakeBalloon(self.host)

    def boot(self) -> str:
        uuid = self.host.boot(memory_kib=ALL.kib)
        self.host.guests[uuid].memory_used_kib = 60 * MIB
        return uuid

    def boot_silent(self) -> str:
        uuid = self.host.boot(memory_kib=TINY_MIB * MIB)
        self.host.guests[uuid].memory_used_kib = None
        self.host.guests[uuid].keeps_its_size = True
        return uuid

    def boot_without(self) -> str:
        uuid = self.host.boot(memory_kib=TINY_MIB * MIB, balloon_obstacle="it has no balloon")
        self.host.change(uuid, memory_size=MemorySize(0))
        return uuid

    def end(self, uuid: str) -> None:
        self.host.end(uuid)

    def size(self, uuid: str) -> MemorySize:
        return self.host.guests[uuid].guest.memory_size

    def seen(self, uuid: str, held: MemorySize | None = None) -> Any:
        given = {uuid: a_held(held)} if held else {}
        [guest] = self.balloon.survey((self.host.guests[uuid].guest,), given)
        return guest


@pytest.fixture(params=["fake", "libvirt"])
def host(request: pytest.FixtureRequest) -> Iterator[Ballooning]:
    if request.param == "fake":
        yield FakeBallooning()
        return
    subject = LibvirtSubject(request.getfixturevalue("libvirt_host"))
    yield RealBallooning(subject)
    subject.close()


@pytest.fixture
def real(libvirt_host: LibvirtHost) -> Iterator[RealBallooning]:
    subject = LibvirtSubject(libvirt_host)
    yield RealBallooning(subject)
    subject.close()


def a_held(value: MemorySize, original: MemorySize = ALL) -> Held:
    return Held(Knob.MEMORY_SIZE, value, original, "overlays", "overlays-1", until_s=1000.0)


def resize(host: Ballooning, uuid: str, size: MemorySize) -> None:
    host.balloon.apply(uuid, Knob.MEMORY_SIZE, size)


def has(host: Ballooning, uuid: str, size: MemorySize) -> None:
    wait_until(lambda: host.size(uuid) == size, f"the guest has {size.kib} KiB")


def test_a_guest_gets_smaller_and_larger_and_back_to_exactly_what_it_had(host):
    uuid = host.boot()
    original = host.balloon.read(uuid, Knob.MEMORY_SIZE)
    assert original == ALL
    for size in (SOME, LESS, SOME):
        resize(host, uuid, size)
        has(host, uuid, size)
        assert host.balloon.read(uuid, Knob.MEMORY_SIZE) == size
    for _ in range(2):
        host.balloon.restore(uuid, a_held(SOME, original))
        assert host.size(uuid) == ALL


def test_what_it_uses_is_told_and_no_size_is_below_that(host):
    uuid = host.boot()
    looked = host.balloon.look(host.seen(uuid))
    assert 0 < looked.memory_used_kib < LESS.kib
    assert (looked.memory_size, looked.balloon_obstacle) == (ALL, "")
    for wrong in (looked.memory_used_kib // 2, 0, ALL.kib + 4):
        with pytest.raises(ApplyFailed):
            resize(host, uuid, MemorySize(wrong))
    assert host.size(uuid) == ALL


def test_each_tick_sees_the_size_that_is_held_and_what_is_used(host):
    uuid = host.boot()
    resize(host, uuid, LESS)
    assert host.seen(uuid, LESS).memory_size == LESS, "also while the guest gets there"
    has(host, uuid, LESS)
    wait_until(lambda: host.seen(uuid, LESS).memory_used_kib, "its use is known")
    assert host.seen(uuid, LESS).memory_used_kib < LESS.kib


def test_a_guest_without_a_driver_keeps_its_size_and_says_why(host):
    uuid = host.boot_silent()
    looked = host.balloon.look(host.seen(uuid))
    assert (looked.memory_used_kib, looked.balloon_obstacle) == (None, NO_STATISTICS)
    with pytest.raises(ApplyFailed, match=re.escape(NO_STATISTICS)):
        resize(host, uuid, MemorySize(TINY_MIB * MIB // 2))
    assert host.size(uuid) == MemorySize(TINY_MIB * MIB)


def test_a_guest_without_a_balloon_keeps_its_size_and_undoing_that_is_harmless(host):
    uuid = host.boot_without()
    guest = host.balloon.look(host.seen(uuid))
    assert guest.balloon_obstacle
    assert guest.memory_size == MemorySize(0)
    with pytest.raises(ApplyFailed, match=re.escape(guest.balloon_obstacle)):
        resize(host, uuid, MemorySize(TINY_MIB * MIB // 2))
    host.balloon.restore(uuid, a_held(SOME))


def test_an_original_that_nobody_knows_becomes_what_the_flavor_gives(host):
    uuid = host.boot()
    resize(host, uuid, LESS)
    has(host, uuid, LESS)
    host.balloon.restore(uuid, a_held(LESS, MemorySize(0)))
    assert host.size(uuid) == ALL


def test_right_after_an_undo_the_size_is_the_one_that_came_back(host):
    """What is journalled next as the original."""
    uuid = host.boot()
    resize(host, uuid, LESS)
    has(host, uuid, LESS)
    wait_until(lambda: host.seen(uuid).memory_size == LESS, "it is seen")
    host.balloon.restore(uuid, a_held(LESS))
    assert host.seen(uuid).memory_size == ALL


def test_an_agent_that_starts_right_after_anothers_undo_takes_no_old_size_for_what_nova_gave(real):
    uuid = real.boot()
    resize(real, uuid, LESS)
    has(real, uuid, LESS)
    wait_until(lambda: real.seen(uuid, LESS).memory_size == LESS, "it is seen")
    real.balloon.restore(uuid, a_held(LESS))
    real.balloon = Balloon(real.subject.domains)
    assert real.seen(uuid).memory_size in (ALL, NO_MEMORY_SIZE)
    wait_until(lambda: real.seen(uuid).memory_size == ALL, "libvirt knows it")
    assert real.seen(uuid).memory_size == ALL, "from then on"


def test_who_was_small_before_any_agent_came_stays_so(real):
    uuid = real.boot()
    real.subject.domain(uuid).setMemoryFlags(SOME.kib, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    has(real, uuid, SOME)
    real.balloon = Balloon(real.subject.domains)
    wait_until(lambda: real.seen(uuid).memory_size == SOME, "it is believed")


def test_a_guest_that_is_gone_says_so(host):
    uuid = host.boot()
    resize(host, uuid, SOME)
    host.end(uuid)
    with pytest.raises(GuestGone):
        resize(host, uuid, LESS)
    with pytest.raises(GuestGone):
        host.balloon.restore(uuid, a_held(SOME))


def test_memory_that_a_guest_does_not_take_back_is_told_and_then_not_waited_for(host, monkeypatch):
    uuid = host.boot()
    resize(host, uuid, LESS)
    has(host, uuid, LESS)
    hang(host, uuid)
    monkeypatch.setattr(balloon, "CONFIRM_WITHIN_S", 0.2)
    with pytest.raises(ApplyFailed):
        host.balloon.restore(uuid, a_held(LESS))
    monkeypatch.setattr(balloon, "CONFIRM_WITHIN_S", 3600.0)
    with pytest.raises(ApplyFailed):
        host.balloon.restore(uuid, a_held(LESS))
    assert host.size(uuid) == LESS


def test_guests_that_do_not_take_their_memory_back_are_waited_for_together(host, monkeypatch):
    """One project may have many, and the tick of the host waits."""
    uuids = [host.boot() for _ in range(2)]
    for uuid in uuids:
        resize(host, uuid, LESS)
        has(host, uuid, LESS)
        hang(host, uuid)
    monkeypatch.setattr(balloon, "CONFIRM_WITHIN_S", 0.2)
    monkeypatch.setattr(balloon, "TOGETHER_S", 3600.0)
    for uuid in uuids:
        with pytest.raises(ApplyFailed):
            host.balloon.restore(uuid, a_held(LESS))
        monkeypatch.setattr(balloon, "CONFIRM_WITHIN_S", 3600.0)
    for uuid in uuids:
        assert host.size(uuid) == LESS


def hang(host: Ballooning, uuid: str) -> None:
    """Its kernel stands still, and so does its driver."""
    if isinstance(host, FakeBallooning):
        host.host.guests[uuid].keeps_its_size = True
    else:
        host.subject.suspend(uuid)


def test_a_size_that_somebody_else_chose_is_seen(real):
    uuid = real.boot()
    resize(real, uuid, SOME)
    has(real, uuid, SOME)
    real.subject.domain(uuid).setMemoryFlags(LESS.kib, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    wait_until(lambda: real.seen(uuid, SOME).memory_size == LESS, "the other size is seen")


def test_a_qemu_that_hangs_holds_nobody_up(real, monkeypatch):
    uuid = real.boot_silent()
    guest = real.seen(uuid)
    pid = real.subject.host.pid_of_name(guest.domain_name)
    monkeypatch.setattr(balloon, "ANSWER_WITHIN_S", 0.2)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert "does not answer" in real.balloon.look(guest).balloon_obstacle
        for _ in range(3):
            assert real.seen(uuid, MemorySize(TINY_MIB * MIB)).memory_used_kib is None
        with pytest.raises(ApplyFailed, match="does not answer"):
            resize(real, uuid, MemorySize(TINY_MIB * MIB // 2))
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: real.balloon.look(guest).balloon_obstacle == NO_STATISTICS, "it answers")


def test_another_agent_gives_back_what_a_killed_one_took(real):
    uuid = real.boot()
    entry = Applied(uuid, 7, (a_held(LESS),))
    real.subject.journal.write(entry)
    resize(real, uuid, LESS)
    has(real, uuid, LESS)
    real.subject.restart_agent()
    after = RealBallooning(real.subject)
    found = after.subject.journal.read()
    assert found == {uuid: entry}
    assert after.executor.undo(found.values(), waits=True) == ()
    assert after.size(uuid) == ALL
    assert after.subject.journal.read() == {}
