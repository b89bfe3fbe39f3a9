# SPDX-License-Identifier: Apache-2.0
"""The writing guest (testbed/numa/guest) under libvirt: where its memory is, and how it fares.

It checks every page that it wrote a round before, and says how long it ever stood still. Its memory
is placed as the kernel does without being asked: a page is taken where the vCPU that first touches
it runs. There is no numatune, as Nova writes none for such guests.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import libvirt

from tests.domain_xml import a_domain
from tests.libvirt_host import LibvirtHost
from tests.waiting import wait_until
from vp_agent.drivers.vcpu_threads import read_tids

PROGRAM = Path(__file__).resolve().parents[2] / ".cache/numa-writer"
MEMORY_MIB = 1024
FILL_DEADLINE_S = 180.0
ROUND_DEADLINE_S = 120.0
_PAGES_ON_NODE = re.compile(r"\bN(\d+)=(\d+)")
_PAIR = re.compile(r"(\w+)=(\d+)")


class Progress(NamedTuple):
    """One line of the guest, about a second of its life."""

    ms: int
    """By its own clock, which also runs while it stands still."""
    round: int
    """0 while it fills its memory for the first time."""
    pages: int
    """Written since the last line."""
    longest_ms: int
    """Between two pages, since the last line: the guest stood still."""
    longest_ever_ms: int
    """Since the first round ended."""
    wrong: int
    """Pages that did not hold what it had written."""


class WriterGuest:
    def __init__(self, host: LibvirtHost, name: str = "instance-00000001") -> None:
        self._host = host
        self.name = name
        self._console = host.folder / f"{name}.console"

    def boot(self, first_cpus: Collection[int], bound: Collection[int]) -> libvirt.virDomain:
        """Returns when its memory, every page of it touched from `first_cpus`, is written once.
        From then on it may run on all of `bound`, Nova's cpuset of it."""
        cpuset = ",".join(map(str, sorted(bound)))
        xml = a_domain(
            self.name,
            vcpus=1,
            cpuset=cpuset,
            memory_mib=MEMORY_MIB,
            boot=f"<kernel>{PROGRAM}</kernel>",
            devices=f'<serial type="file"><source path="{self._console}"/></serial>',
        )
        self.domain = self._host.connect().defineXML(xml)
        self.domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
        self.pid = self._host.pid_of(self.domain)
        self.place(first_cpus)
        self.domain.resume()
        wait_until(lambda: self.round() > 0, "the writer to fill its memory", FILL_DEADLINE_S)
        self.place(bound)
        return self.domain

    def place(self, cpus: Collection[int]) -> None:
        for tid in read_tids(self.pid):
            os.sched_setaffinity(tid, cpus)

    def pages_by_node(self) -> dict[int, int]:
        """Of the guest's memory, in the machine's base pages."""
        return {int(node): int(pages) for node, pages in _PAGES_ON_NODE.findall(self._memory())}

    def wake(self, address: int, data: bytes) -> None:
        """Changes its memory behind its back."""
        start = int(self._memory().split()[0], 16)
        with Path(f"/proc/{self.pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(start + address)
            memory.write(data)

    def _memory(self) -> str:
        """The line in numa_maps of the guest's memory: QEMU's largest mapping."""
        lines = Path(f"/proc/{self.pid}/numa_maps").read_text().splitlines()
        return max(lines, key=lambda line: sum(int(n) for _, n in _PAGES_ON_NODE.findall(line)))

    def progress(self) -> Progress | None:
        """What it said last, or None before its first line."""
        said = [line for line in self._lines() if line.startswith("writer: ms=")]
        if not said:
            return None
        values = {name: int(value) for name, value in _PAIR.findall(said[-1])}
        return Progress(**values)

    def round(self) -> int:
        progress = self.progress()
        return progress.round if progress else 0

    def wait_until_all_is_checked(self) -> Progress:
        """Until all that it had written when this was called has been checked."""
        wanted = self.round() + 2
        reason = f"round {wanted} of the writer"
        wait_until(lambda: self.round() >= wanted, reason, 2 * ROUND_DEADLINE_S)
        progress = self.progress()
        assert progress is not None
        return progress

    def _lines(self) -> list[str]:
        """Whole ones only."""
        if not self._console.exists():
            return []
        return self._console.read_text().rpartition("\n")[0].splitlines()
