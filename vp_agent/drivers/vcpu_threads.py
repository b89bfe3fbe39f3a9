# SPDX-License-Identifier: Apache-2.0
"""QEMU's vCPU threads as the kernel shows them: who they are, where they may run, moving them.

Standard library only: `set_affinity` also runs in the privileged helper (`vp_agent.privsep`). A pid
may have been reused since it was read, so a process is known by pid and start time together.
"""

import contextlib
import errno
import os
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

# `CPU 3/KVM`; `ALL CPUs/TCG` is QEMU's single-threaded TCG. libvirt always sets debug-threads=on.
_VCPU_NAME = re.compile(r"(?:CPU (\d+)|ALL CPUs)/")
MOST_VCPUS = 4096
"""Of any domain: libvirt and QEMU allow fewer."""
MOST_THREADS = 16384
"""Of one QEMU: vCPUs, I/O threads and the workers of its devices are fewer by far."""
_CPUCLOCK_SCHED = 2
_START_TIME_FIELD = 19
_FLAGS_FIELD = 6
"""Of /proc/PID/stat, counted after the parenthesised command, which may hold spaces."""
_NO_SETAFFINITY = 0x04000000
"""PF_NO_SETAFFINITY of the kernel's task flags."""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    started: int
    """Clock ticks after boot."""


def read_process(pid: int) -> Process:
    """Raises ProcessLookupError."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError as exc:
        raise ProcessLookupError(f"no process {pid}") from exc
    return Process(pid, int(stat.rpartition(")")[2].split()[_START_TIME_FIELD]))


class StrangeThreads(ProcessLookupError):
    """A process has threads that QEMU does not make for such a guest: whoever broke out of a guest
    names threads as it likes. There is no guest there to measure or to place."""


def _all_tids(pid: int) -> list[int]:
    """Raises ProcessLookupError, StrangeThreads."""
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError) as exc:
        raise ProcessLookupError(f"no process {pid}") from exc
    if len(tids) > MOST_THREADS:
        raise StrangeThreads(f"process {pid} has {len(tids)} threads, over {MOST_THREADS}")
    return [int(tid) for tid in tids]


def read_tids(pid: int, most_vcpus: int = MOST_VCPUS) -> tuple[int, ...]:
    """vCPU threads in the order of their vCPUs. Raises ProcessLookupError, and StrangeThreads if a
    vCPU has two of them or there is one beyond what the domain may have."""
    found = []
    for tid in _all_tids(pid):
        try:
            with open(f"/proc/{pid}/task/{tid}/comm") as comm:
                match = _VCPU_NAME.match(comm.read())
        except (FileNotFoundError, ProcessLookupError) as exc:
            raise ProcessLookupError(f"a thread of process {pid} just ended") from exc
        if match:
            found.append((int(match[1] or 0), tid))
    numbers = {number for number, _ in found}
    if len(numbers) < len(found) or any(number >= most_vcpus for number in numbers):
        raise StrangeThreads(
            f"process {pid} has {len(found)} threads that are called vCPUs, and its domain at most "
            f"{most_vcpus}"
        )
    return tuple(tid for _, tid in sorted(found))


def read_cpu_time_ns(process: Process) -> int:
    """CPU time of the whole process. Raises ProcessLookupError.

    One system call by the process's own clock; its id is what clock_getcpuclockid(3) computes.
    """
    try:
        return time.clock_gettime_ns((~process.pid << 3) | _CPUCLOCK_SCHED)
    except OSError as exc:
        raise ProcessLookupError(f"no process {process.pid}") from exc


def generation_of(process: Process, tids: tuple[int, ...]) -> str:
    """Changes with every new vCPU thread, and survives a restart of the agent."""
    threads = zlib.crc32(repr(tids).encode())
    return f"{process.pid}-{process.started}-{threads:08x}"


def read_affinity(tids: tuple[int, ...]) -> tuple[frozenset[int], ...]:
    """One set per thread, the same one for those that are alike. Raises ProcessLookupError."""
    first = frozenset(os.sched_getaffinity(tids[0]))
    others = map(os.sched_getaffinity, tids[1:])
    return (first, *(first if cpus == first else frozenset(cpus) for cpus in others))


def read_emulator_tids(pid: int) -> tuple[int, ...]:
    """All but the vCPU threads: QEMU's main loop, its workers, vhost. Raises ProcessLookupError."""
    vcpus = set(read_tids(pid))
    return tuple(tid for tid in _all_tids(pid) if tid not in vcpus)


def read_emulator_affinity(pid: int) -> frozenset[int]:
    """Where any of those threads may run. Raises ProcessLookupError."""
    found: set[int] = set()
    for tid in read_emulator_tids(pid):
        with contextlib.suppress(ProcessLookupError):  # workers come and go
            found |= os.sched_getaffinity(tid)
    return frozenset(found)


def set_affinity(pid: int, started: int, vcpus: list[list[int]], emulator: list[int]) -> None:
    """The vCPU threads of this very process onto their CPUs: one list for all, or one for each.

    All its other threads onto those of `emulator`, if it is not empty; what they start inherits it.
    Raises OSError (ESRCH, EINVAL, EPERM).
    """
    if read_process(pid).started != started:
        raise ProcessLookupError(f"process {pid} is another one by now")
    tids = read_tids(pid)
    each = vcpus * len(tids) if len(vcpus) == 1 else vcpus
    if len(each) != len(tids):
        raise ProcessLookupError(f"process {pid} has {len(tids)} vCPU threads, not {len(each)}")
    for tid, cpus in zip(tids, each, strict=True):
        os.sched_setaffinity(tid, cpus)
    if emulator:
        move_others(read_emulator_tids(pid), emulator)


def move_others(
    tids: Iterable[int],
    cpus: Collection[int],
    move: Callable[[int, Collection[int]], None] = os.sched_setaffinity,
    read_stat: Callable[[int], str] = lambda tid: Path(f"/proc/{tid}/stat").read_text(),
) -> None:
    """Threads that nobody may move stay where they are: those of io-wq, which the kernel makes for
    QEMU, before Linux 6.1.110 and 6.3. Raises OSError of any other that cannot be moved."""
    for tid in tids:
        try:
            move(tid, cpus)
        except ProcessLookupError:  # Workers come and go.
            continue
        except OSError as exc:
            if exc.errno != errno.EINVAL or not _is_fixed(read_stat, tid):
                raise


def _is_fixed(read_stat: Callable[[int], str], tid: int) -> bool:
    try:
        fields = read_stat(tid).rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True  # Gone meanwhile.
    return bool(int(fields[_FLAGS_FIELD]) & _NO_SETAFFINITY)
