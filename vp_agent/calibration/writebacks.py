# SPDX-License-Identifier: Apache-2.0
"""Counters of lines that go back to memory, where this host has one that this user may read.

No counter of a CPU sees them: the caches write lines back by themselves, later. The memory
controllers count them (Intel's uncore PMUs), and resctrl's monitoring where it counts evicted lines
too (AMD: "dirty victims", the kernel's Documentation/filesystems/resctrl.rst).
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from nova_vp.cpuset import parse_cpus
from vp_agent.calibration.bench_worker import LINE_BYTES
from vp_agent.drivers.hardware_events import Event
from vp_agent.drivers.perf_event import open_on_cpu

PMUS = Path("/sys/bus/event_source/devices")
RESCTRL = Path("/sys/fs/resctrl")
SYSTEM = Path("/sys/devices/system")
_WRITES = ("cas_count_write", "data_write")
"""Names of the event, on servers and on clients."""
_MIB = 1 << 20
_TERM = re.compile(r"(\w+)=(0x[0-9a-f]+|\d+)")
_FIRST_BIT = re.compile(r"config:(\d+)")

OpenOnCpu = Callable[[Event, int], int]
"""A file that reads as one 64-bit count. Raises OSError."""


class WritebackCounter(Protocol):
    name: str
    """Empty: nothing is counted here."""
    counts_reads: bool
    """Its lines are those read and those written back together."""

    def lines(self, node: int) -> float:
        """So far, of that node's memory, or of all memory where nodes are not told apart."""

    def close(self) -> None: ...


class NoCounter:
    name = ""
    counts_reads = False

    def lines(self, node: int) -> float:
        return 0.0

    def close(self) -> None:
        """Nothing is held."""


class Uncore:
    """The write counts of the memory controllers of a node's package."""

    name = "uncore"
    counts_reads = False

    def __init__(
        self, pmus: Path = PMUS, system: Path = SYSTEM, opens: OpenOnCpu = open_on_cpu
    ) -> None:
        """Raises OSError where there is none, or no right to it."""
        self._system = system
        self._files: list[tuple[str, int, float]] = []
        """(package, file descriptor, lines per count)."""
        try:
            for event, cpu, lines in _write_events(pmus):
                self._files.append((self._package(cpu), opens(event, cpu), lines))
        except BaseException:
            self.close()
            raise
        if not self._files:
            raise OSError(f"{pmus} has no memory controller that counts writes")

    def lines(self, node: int) -> float:
        here = {self._package(cpu) for cpu in self._cpus(node)}
        return sum(_count(fd) * lines for package, fd, lines in self._files if package in here)

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop()[1])

    def _package(self, cpu: int) -> str:
        return (self._system / f"cpu/cpu{cpu}/topology/physical_package_id").read_text().strip()

    def _cpus(self, node: int) -> frozenset[int]:
        return parse_cpus((self._system / f"node/node{node}/cpulist").read_text().strip())


def _count(fd: int) -> int:
    return int.from_bytes(os.read(fd, 8), "little")


def _write_events(pmus: Path) -> Iterator[tuple[Event, int, float]]:
    """(event, CPU to count it on, lines per count). Raises OSError."""
    for pmu in sorted(pmus.glob("uncore_imc*")):
        for name in _WRITES:
            path = pmu / "events" / name
            if path.is_file():
                event = Event(name, int((pmu / "type").read_text()), _config(pmu, path.read_text()))
                for cpu in sorted(parse_cpus((pmu / "cpumask").read_text().strip())):
                    yield event, cpu, _lines_per_count(path)


def _config(pmu: Path, text: str) -> int:
    """`event=0x04,umask=0x0c`, each where the PMU's format says."""
    config = 0
    for name, value in _TERM.findall(text):
        first = _FIRST_BIT.match((pmu / "format" / name).read_text())
        if first is None:
            raise OSError(f"{pmu}: {name} is not in config")
        config |= int(value, 0) << int(first[1])
    return config


def _lines_per_count(event: Path) -> float:
    """As the kernel scales it, to MiB; without a scale a count is a line."""
    try:
        return float(event.with_name(f"{event.name}.scale").read_text()) * _MIB / LINE_BYTES
    except FileNotFoundError:
        return 1.0


class Monitoring:
    """resctrl's bytes between the last-level caches and memory, of everybody outside of groups."""

    name = "resctrl"
    counts_reads = True

    def __init__(self, root: Path = RESCTRL) -> None:
        """Raises OSError where there is none, or no right to it."""
        self._files = sorted(root.glob("mon_data/mon_L3_*/mbm_total_bytes"))
        if not self._files:
            raise OSError(f"{root} monitors no memory bandwidth")
        self.lines(0)

    def lines(self, node: int) -> float:
        try:
            return sum(int(file.read_text()) for file in self._files) / LINE_BYTES
        except ValueError as exc:  # `Unavailable`.
            raise OSError(f"{self._files[0]}: {exc}") from exc

    def close(self) -> None:
        """Nothing is held."""


KINDS: Mapping[str, Callable[[], WritebackCounter]] = {
    Uncore.name: Uncore,
    Monitoring.name: Monitoring,
}
"""The best first."""


def find(kinds: Mapping[str, Callable[[], WritebackCounter]] = KINDS) -> WritebackCounter:
    """The first that works here."""
    for create in kinds.values():
        with contextlib.suppress(OSError, ValueError):
            return create()
    return NoCounter()
