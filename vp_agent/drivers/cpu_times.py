# SPDX-License-Identifier: Apache-2.0
"""CPU times of guests' vCPUs from the kernel's files, which need no right to be read.

`/proc/PID/task/TID/schedstat`: time on a CPU and run delay, in ns (sched-stats.rst). The run delay
holds the time in which a cgroup was throttled; `cpu.stat` tells that: `throttled_time` in ns
(version 1), `throttled_usec` (version 2). Groups are looked at only where a quota holds, or where a
guest waits enough for that to matter. What cannot be told apart is unknown.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from nova_vp.core.types.cpu_time import CpuTimes, HostCpuTimes
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.cgroups import PROC, CpuGroup, groups_around, is_vcpus_own
from vp_agent.drivers.kernel_file import KernelFile, Room

LOG = logging.getLogger(__name__)
WORTH_A_LOOK_RATIO = 0.01
"""Run delay over the CPU time wanted: below it nobody asks whether it was throttling."""
_SCHEDSTAT_FIELDS = 3
"""Time on a CPU, run delay, and how often it was given one; so since Linux 2.6.23."""
_STEAL_FIELD, _GUEST_FIELD = 7, 8
"""Of `cpu` in /proc/stat; guest time and what follows is in user time already (proc_stat(5))."""
_STAT_BYTES = 1 << 17
"""Of /proc/stat: its lines of more than a thousand CPUs."""
_UNITS_NS = {b"throttled_time": 1, b"throttled_usec": 1000}


class _Unknown(Exception):
    """The kernel does not say."""


class CpuTimesReader:
    def __init__(self, proc: Path = PROC) -> None:
        """`proc`: where it is mounted; its `self/mountinfo` says where the cgroups are."""
        self._proc = proc
        self._room = Room()
        self._guests: dict[str, _Guest] = {}
        self._is_told = False

    def of(self, threads: VcpuThreads, *, is_limited: bool) -> CpuTimes | None:
        """None: nobody can say now. `is_limited`: whether its vCPUs have a quota."""
        uuid = threads.guest_uuid
        guest = self._guests.get(uuid)
        try:
            if guest is None or guest.generation != threads.generation:
                self._forget(uuid)
                guest = self._guests[uuid] = _Guest(threads, self._proc, self._room)
            return guest.read(is_limited=is_limited)
        except (OSError, ValueError):  # It ended or lost a vCPU, or no descriptor is left.
            self._forget(uuid)
        except _Unknown as exc:
            self._tell(exc)
        return None

    def forget_others(self, present: Iterable[str]) -> None:
        for uuid in self._guests.keys() - set(present):
            self._forget(uuid)

    def close(self) -> None:
        self.forget_others(())

    def _forget(self, uuid: str) -> None:
        guest = self._guests.pop(uuid, None)
        if guest:
            guest.close()

    def _tell(self, why: _Unknown) -> None:
        if not self._is_told:
            self._is_told = True
            LOG.warning("how long servers wait for a CPU is unknown: %s", why)


class _Guest:
    """One life of one guest's vCPU threads."""

    def __init__(self, threads: VcpuThreads, proc: Path, room: Room) -> None:
        """Raises OSError."""
        self.generation = threads.generation
        task = f"{proc}/{threads.pid}/task"
        self._threads = [KernelFile(f"{task}/{tid}/schedstat", room) for tid in threads.tids]
        chains = [groups_around(tid, proc) for tid in threads.tids]
        groups = {group for chain in chains for group in chain}
        own = {group for group in groups if is_vcpus_own(group)}
        self._own, self._above = _Throttled(own, room), _Throttled(groups - own, room)
        self._ran_ns = self._run_delay_ns = 0
        self._was_limited = True
        self._has_gap = False
        """The groups were not looked at in the last tick."""
        self._breaks = 0
        """How often nobody could say why it did not run."""

    def read(self, *, is_limited: bool) -> CpuTimes:
        """Raises OSError, ValueError, _Unknown."""
        ran_ns, run_delay_ns = _schedstats([file.read() for file in self._threads])
        if is_limited or self._was_limited or self._waits(ran_ns, run_delay_ns):
            self._look()
        elif not self._has_gap:
            self._has_gap = True
            self._own.close()
            self._above.close()
        self._ran_ns, self._run_delay_ns = ran_ns, run_delay_ns
        self._was_limited = is_limited
        generation = f"{self.generation}.{self._breaks}"
        return CpuTimes(ran_ns, run_delay_ns, self._own.total_ns, generation)

    def _waits(self, ran_ns: int, run_delay_ns: int) -> bool:
        delay_ns = run_delay_ns - self._run_delay_ns
        return delay_ns > WORTH_A_LOOK_RATIO * (ran_ns - self._ran_ns + delay_ns)

    def _look(self) -> None:
        """Raises OSError, ValueError."""
        is_of_another_time = self._own.look() and self._has_gap
        # Of a group of several threads nobody knows which of them it kept from running.
        if self._above.look() or is_of_another_time:
            self._breaks += 1
        self._has_gap = False

    def close(self) -> None:
        for file in self._threads:
            file.close()
        self._own.close()
        self._above.close()


class _Throttled:
    """The time in which any of some cgroups was throttled, summed."""

    def __init__(self, groups: Iterable[CpuGroup], room: Room) -> None:
        self._files = [KernelFile(f"{group.path}/cpu.stat", room) for group in sorted(groups)]
        self._is_new = True
        self.total_ns = 0

    def look(self) -> bool:
        """Whether there is more of it than at the last look. Raises OSError, ValueError."""
        was_ns, was_new = self.total_ns, self._is_new
        self.total_ns = sum(_throttled_ns(file.read()) for file in self._files)
        self._is_new = False
        return not was_new and self.total_ns != was_ns

    def close(self) -> None:
        for file in self._files:
            file.close()


def _schedstats(texts: Sequence[bytes]) -> tuple[int, int]:
    """Time on a CPU and run delay of all threads together, in ns. Raises ValueError, _Unknown."""
    numbers = [int(number) for number in b" ".join(texts).split()]
    ran, delays = numbers[::_SCHEDSTAT_FIELDS], numbers[1::_SCHEDSTAT_FIELDS]
    if len(numbers) != _SCHEDSTAT_FIELDS * len(texts):
        raise ValueError("a line of schedstat has other numbers than are known")
    if not all(ran):
        raise _Unknown(
            "/proc/PID/schedstat shows zeros. The kernel needs CONFIG_SCHEDSTATS, or "
            "CONFIG_TASK_DELAY_ACCT and the boot parameter `delayacct`"
        )
    return sum(ran), sum(delays)


def _throttled_ns(text: bytes) -> int:
    """0 where the group has no controller `cpu`, hence no quota. Raises ValueError."""
    for line in text.splitlines():
        name, _, number = line.partition(b" ")
        if name in _UNITS_NS:
            return int(number) * _UNITS_NS[name]
    return 0


class HostCpuReader:
    """All CPUs of this host, together and each."""

    def __init__(self, proc: Path = PROC) -> None:
        self._file = KernelFile(proc / "stat", Room(1), _STAT_BYTES)

    def read(self) -> HostCpuTimes | None:
        """None where the kernel does not say."""
        try:
            lines = self._file.read().split(b"\ncpu")
            together, *each = lines
            name, *fields = together.split()
            ticks = [int(field) for field in fields[:_GUEST_FIELD]]
            taken_ticks = dict(map(_taken, each))
        except (OSError, ValueError, IndexError):
            return None
        if name != b"cpu" or len(ticks) <= _STEAL_FIELD:
            return None
        return HostCpuTimes(sum(ticks), ticks[_STEAL_FIELD], taken_ticks)

    def close(self) -> None:
        self._file.close()


def _taken(line: bytes) -> tuple[int, int]:
    """A CPU and the clock ticks in which it was not idle. Raises ValueError, IndexError."""
    cpu, user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = line.split(None, 11)
    return int(cpu), sum(map(int, (user, nice, system, irq, softirq, steal)))
