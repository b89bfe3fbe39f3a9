# SPDX-License-Identifier: Apache-2.0
"""How much of this host's CPUs others use just now: what they do to memory would be measured."""

import time
from collections.abc import Callable
from pathlib import Path

STAT = Path("/proc/stat")
SPAN_S = 0.5
_IDLE, _IOWAIT = 3, 4
_COUNTED = 8
"""Columns; the guests' time after them is in the users' already."""


def busy_cpus(stat: Path = STAT, sleep: Callable[[float], None] = time.sleep) -> float:
    """Over half a second. Raises OSError."""
    before = stat.read_text()
    sleep(SPAN_S)
    return busy_between(before, stat.read_text())


def busy_between(before: str, after: str) -> float:
    """From the two texts of /proc/stat."""
    passed = [now - was for was, now in zip(_all(before), _all(after), strict=True)]
    cpus = sum(line[:3] == "cpu" and line[3:4].isdigit() for line in after.splitlines())
    idle = passed[_IDLE] + passed[_IOWAIT]
    return cpus * (1 - idle / sum(passed)) if sum(passed) else 0.0


def _all(stat: str) -> list[int]:
    return [int(ticks) for ticks in stat.splitlines()[0].split()[1 : 1 + _COUNTED]]
