# SPDX-License-Identifier: Apache-2.0
"""What a process and its children cost: CPU time, kernel time included, and memory."""

from collections.abc import Iterator
from pathlib import Path

from vp_agent.drivers.vcpu_threads import Process, read_cpu_time_ns


def cpu_s(pid: int) -> float:
    return sum(read_cpu_time_ns(Process(each, 0)) for each in (pid, *children(pid))) / 1e9


def peak_mib(pid: int) -> float:
    return _status_mib(pid, "VmHWM")


def held_mib(pid: int) -> float:
    """Now; pages that a process shares with its children are counted for each."""
    return sum(_status_mib(each, "VmRSS") for each in (pid, *children(pid)))


def _status_mib(pid: int, name: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(line for line in status if line.startswith(name))
    return int(line.split()[1]) / 1024


def children(pid: int) -> Iterator[int]:
    """And theirs."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in _children_of(task):
            yield int(child)
            yield from children(int(child))


def _children_of(task: Path) -> list[str]:
    """None of a thread that has just ended."""
    try:
        return (task / "children").read_text().split()
    except FileNotFoundError:
        return []
