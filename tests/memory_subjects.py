# SPDX-License-Identifier: Apache-2.0
"""Subjects of the contract suite of movers: the fake, the real one on pages in memory, and the real
one on processes of ours that write all their memory all the time.

A subject is a host on which a test boots guests with memory on a node, and a mover on it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol

from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import Held, Knob, Shares
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.waiting import wait_until
from vp_agent.drivers import guest_pages
from vp_agent.drivers.base import GuestGone, MemoryMover
from vp_agent.drivers.fake import FakeHost
from vp_agent.drivers.guest_pages import PAGE_BYTES, PAGE_KIB, Flow, Look, Moved, choose
from vp_agent.drivers.memory_fake import FakeMover
from vp_agent.drivers.memory_pages import Mover
from vp_agent.drivers.numa_nodes import SYSFS, Nodes
from vp_agent.drivers.numa_residency import Ram
from vp_agent.drivers.vcpu_threads import Process, read_process

WRITER = Path(__file__).with_name("memory_writer.py")
KIB = 32 * 1024
"""Of a subject's guest: eight chunks."""
MEMINFO = "Node {node} {name}: {kib} kB\n"


class Subject(Protocol):
    mover: MemoryMover
    nodes: tuple[int, int]
    """Two of the host's, between which memory moves."""

    def boot(self, node: int) -> str: ...
    def end(self, uuid: str) -> None: ...
    def reboot(self, uuid: str) -> None: ...
    def hinder(self, uuid: str, why: str) -> None: ...
    def guests(self) -> tuple[Guest, ...]: ...
    def lies(self, uuid: str) -> dict[int, int]:
        """KiB by node, not by the mover's word."""

    def fill(self, node: int, spare_kib: int) -> None: ...
    def restart_agent(self) -> None: ...
    def is_intact(self, uuid: str) -> bool: ...
    def close(self) -> None: ...


def over(subject: Subject, uuid: str) -> MemoryMove:
    """The move of this guest, once it is over."""
    ended: dict[str, MemoryMove] = {}

    def is_over() -> bool:
        ended.update((u, m) for u, m in subject.mover.moves().items() if m.is_over)
        return uuid in ended

    wait_until(is_over, "the end of the move", 60.0)
    return ended[uuid]


def held(original: Shares) -> Held:
    return Held(Knob.MEMORY, original, original, "mitigation", "mitigation-1")


def a_guest(uuid: str, generation: str = "1") -> Guest:
    return Guest(
        uuid=uuid,
        domain_name=uuid,
        name=uuid,
        project_id="0" * 32,
        flavor="m1.small",
        vcpus=1,
        memory_kib=KIB,
        allowed_cpus=frozenset({0}),
        placement=frozenset({0}),
        cpu_time_ns=0,
        generation=generation,
    )


class FakeSubject:
    nodes = (0, 1)

    def __init__(self) -> None:
        self.host = FakeHost(
            topology=Topology(tuple(LlcDomain(n, n, frozenset({n})) for n in range(2)))
        )
        self.restart_agent()

    def restart_agent(self) -> None:
        self.mover = FakeMover(self.host)

    def boot(self, node: int) -> str:
        return self.host.boot(memory_by_node=((node, KIB),))

    def end(self, uuid: str) -> None:
        self.host.end(uuid)

    def reboot(self, uuid: str) -> None:
        self.host.reboot(uuid)

    def hinder(self, uuid: str, why: str) -> None:
        self.host.change(uuid, memory_obstacle=why)

    def guests(self) -> tuple[Guest, ...]:
        return tuple(entry.guest for entry in self.host.guests.values())

    def lies(self, uuid: str) -> dict[int, int]:
        return {n: kib for n, kib in self.host.guests[uuid].guest.memory_by_node if kib}

    def fill(self, node: int, spare_kib: int) -> None:
        self.mover.spare_kib[node] = spare_kib

    def is_intact(self, uuid: str) -> bool:
        return uuid in self.host.guests

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class RealMover:
    """What both subjects of the real mover do alike. Room is told by files of the test's own."""

    nodes: tuple[int, int]
    all_nodes: tuple[int, ...]
    known: dict[str, Ram] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = Path(mkdtemp(prefix="vp-nodes-"))
        (self.folder / "has_memory").write_text(",".join(map(str, self.all_nodes)))
        for node in self.all_nodes:
            self.fill(node, 2**40)
        self.restart_agent()

    def restart_agent(self) -> None:
        self.mover = Mover(self.find, Nodes(self.folder, reserve_ratio=0.1), self.pages())

    def pages(self):
        return guest_pages

    def find(self, uuid: str) -> Ram:
        if uuid not in self.known:
            raise GuestGone(f"guest {uuid} is not running")
        return self.known[uuid]

    def fill(self, node: int, spare_kib: int) -> None:
        """By a half in page cache that can be dropped; a tenth of the node is the reserve."""
        sizes = {
            "MemTotal": 10 * 2**20,
            "MemFree": spare_kib // 2 + 2**20,
            "Inactive(file)": spare_kib - spare_kib // 2 + 7,
            "Dirty": 4,
            "Writeback": 3,
        }
        (self.folder / f"node{node}").mkdir(exist_ok=True)
        whole = self.folder / f"node{node}/meminfo.new"
        whole.write_text(
            "".join(MEMINFO.format(node=node, name=name, kib=kib) for name, kib in sizes.items())
        )
        whole.rename(whole.with_name("meminfo"))

    def hinder(self, uuid: str, why: str) -> None:
        self.known[uuid] = replace(self.known[uuid], obstacle=why)

    def guests(self) -> tuple[Guest, ...]:
        return tuple(
            a_guest(uuid, str(self.generations[uuid]))._replace(memory_obstacle=ram.obstacle)
            for uuid, ram in self.known.items()
        )

    def close(self) -> None:
        self.mover.close()
        shutil.rmtree(self.folder)


class PagesSubject(RealMover):
    """The real mover; the kernel and the processes are in memory."""

    def __init__(self) -> None:
        self.table = FakePages()
        super().__init__((0, 1), (0, 1))

    def pages(self) -> "FakePages":
        return self.table

    def boot(self, node: int) -> str:
        pid = 1000 + len(self.table.lie)
        uuid = f"guest-{pid}"
        self.generations[uuid] = self.table.started[pid] = 1
        self.table.lie[pid] = [node] * (KIB // PAGE_KIB)
        self.known[uuid] = Ram(Process(pid, 1), KIB)
        return uuid

    def end(self, uuid: str) -> None:
        del self.table.started[self.known.pop(uuid).process.pid]

    def reboot(self, uuid: str) -> None:
        pid = self.known[uuid].process.pid
        self.table.started[pid] += 1
        self.known[uuid] = replace(self.known[uuid], process=Process(pid, self.table.started[pid]))
        self.generations[uuid] += 1

    def lies(self, uuid: str) -> dict[int, int]:
        pages = self.table.lie[self.known[uuid].process.pid]
        return {node: pages.count(node) * PAGE_KIB for node in set(pages) if node >= 0}

    def is_intact(self, uuid: str) -> bool:
        return uuid in self.known


class ProcessSubject(RealMover):
    """The real mover on the real kernel; guests are processes that check all that they write."""

    def __init__(self) -> None:
        nodes = Nodes(SYSFS).ids
        self.writers: dict[str, Writer] = {}
        super().__init__((nodes[0], nodes[-1]), nodes)

    def boot(self, node: int) -> str:
        writer = Writer(KIB // 1024)
        uuid = f"guest-{writer.process.pid}"
        self.writers[uuid] = writer
        self.generations[uuid] = 1
        self.known[uuid] = Ram(writer.process, KIB)
        if self.nodes[0] != self.nodes[1]:
            self.mover.restore(uuid, held(((node, 1.0),)))
            self.mover.moves()
        return uuid

    def end(self, uuid: str) -> None:
        del self.known[uuid]
        self.writers.pop(uuid).close()

    def reboot(self, uuid: str) -> None:
        self.writers[uuid].close()
        writer = self.writers[uuid] = Writer(KIB // 1024)
        self.known[uuid] = replace(self.known[uuid], process=writer.process)
        self.generations[uuid] += 1

    def lies(self, uuid: str) -> dict[int, int]:
        return numa_maps(self.known[uuid].process.pid)

    def is_intact(self, uuid: str) -> bool:
        return self.writers[uuid].ask().bad_pages == 0

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()
        super().close()


def numa_maps(pid: int) -> dict[int, int]:
    """KiB by node of a process's largest mapping, as the kernel lists it."""
    largest: dict[int, int] = {}
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        lies = {
            int(name[1:]): int(value) * int(words["kernelpagesize_kB"])
            for name, value in words.items()
            if name[0] == "N" and name[1:].isdigit()
        }
        if sum(lies.values()) > sum(largest.values()):
            largest = lies
    return largest


@dataclass(frozen=True)
class Writing:
    rounds: int
    bad_pages: int
    longest_pause_us: int
    """Since it was asked before."""


class Writer:
    """A process that writes all its memory all the time, and checks what it wrote."""

    def __init__(self, mib: int, *arguments: str, user: int | None = None) -> None:
        self._running = subprocess.Popen(
            # As text: another user may not see this folder.
            [os.path.realpath(sys.executable), "-c", WRITER.read_text()] + [str(mib), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        assert self._line() == "ready"
        self.process = read_process(self._running.pid)

    def ask(self) -> Writing:
        assert self._running.stdin is not None
        print(file=self._running.stdin, flush=True)
        return Writing(*map(int, self._line().split()))

    def close(self) -> None:
        self._running.kill()
        self._running.communicate()

    def _line(self) -> str:
        assert self._running.stdout is not None
        return self._running.stdout.readline().strip()


@contextmanager
def a_writer(mib: int, *arguments: str, user: int | None = None) -> Iterator[Writer]:
    writer = Writer(mib, *arguments, user=user)
    try:
        yield writer
    finally:
        writer.close()


@dataclass(slots=True)
class FakePages:
    """The pages of processes in memory, and the kernel's part of moving them."""

    lie: dict[int, list[int]] = field(default_factory=dict)
    """By pid, the node of each page, or a negative errno."""
    started: dict[int, int] = field(default_factory=dict)
    busy: dict[int, int] = field(default_factory=dict)
    """By number of the page, how many tries will find it in use."""
    together: int = 1
    """Pages that move together, as those of a transparent huge page do."""
    locked_kib: int = 0
    is_refusing: bool = False

    def look(self, pid: int, started: int, memory_kib: int) -> Look:
        pages = self._pages(pid, started)
        counts = tuple((n, pages.count(n)) for n in sorted(set(pages)) if n >= 0)
        spans = ((pid * 2**40, len(pages) * PAGE_BYTES),)
        return Look(spans, counts, len(pages), self.locked_kib, 0)

    def move_chunk(
        self, pid: int, started: int, address: int, count: int, flows: tuple[Flow, ...]
    ) -> Moved:
        pages = self._pages(pid, started)
        first = (address - pid * 2**40) // PAGE_BYTES
        before = pages[first : first + count]
        moved: dict[tuple[int, int], int] = {}
        busy = 0
        for index, target in choose(before, flows):
            if self.busy.get(first + index, 0):
                self.busy[first + index] -= 1
                busy += 1
                continue
            group = (first + index) // self.together * self.together
            for page in range(group, group + self.together):
                pair = pages[page], target
                moved[pair] = moved.get(pair, 0) + (pages[page] != target)
                pages[page] = target
        was = tuple((n, before.count(n)) for n in sorted(set(before)) if n >= 0)
        return Moved(was, tuple((s, t, n) for (s, t), n in moved.items()), busy)

    def _pages(self, pid: int, started: int) -> list[int]:
        if self.is_refusing:
            raise PermissionError(1, "Operation not permitted")
        if self.started.get(pid) != started:
            raise ProcessLookupError(3, f"no process {pid}")
        return self.lie[pid]
