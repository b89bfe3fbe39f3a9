# SPDX-License-Identifier: Apache-2.0
"""The host's memory nodes, and how much each can take, from sysfs.

A node that is filled to the brim makes the kernel swap or kill, so a reserve is kept. Page cache
that is clean and was not used lately counts as free: the kernel drops it when asked.
"""

import re
from pathlib import Path

from nova_vp.cpuset import parse_cpus

SYSFS = Path("/sys/devices/system/node")
BALANCING = Path("/proc/sys/kernel/numa_balancing")
RESERVE_RATIO = 0.05
_LINE = re.compile(r"^Node \d+ (\w+(?:\(\w+\))?):\s*(\d+) kB$", re.M)


def is_kernel_balancing(balancing: Path = BALANCING) -> bool:
    """Whether the kernel itself moves memory after the CPUs that use it."""
    return balancing.exists() and balancing.read_text().strip() != "0"


def with_cpus_and_memory(sysfs: Path = SYSFS) -> tuple[int, ...]:
    """Of a kernel that tells; else none."""
    try:
        lists = [(sysfs / name).read_text().strip() for name in ("has_cpu", "has_memory")]
    except OSError:
        return ()
    return tuple(sorted(frozenset.intersection(*map(parse_cpus, lists))))


def _with_memory(sysfs: Path) -> frozenset[int]:
    try:
        return parse_cpus((sysfs / "has_memory").read_text().strip())
    except FileNotFoundError:
        return frozenset()


class Nodes:
    def __init__(self, sysfs: Path = SYSFS, reserve_ratio: float = RESERVE_RATIO) -> None:
        self._sysfs = sysfs
        self._reserve_ratio = reserve_ratio
        self.ids = tuple(sorted(_with_memory(sysfs)))
        """Those that have memory; none where the kernel has no notion of nodes (CONFIG_NUMA)."""

    def spare_kib(self, node: int) -> int:
        """What it can take before its reserve is touched; below zero: it is touched."""
        kib = {
            name: int(value)
            for name, value in _LINE.findall((self._sysfs / f"node{node}/meminfo").read_text())
        }
        clean_kib = kib["Inactive(file)"] - kib["Dirty"] - kib["Writeback"]
        return int(kib["MemFree"] + max(0, clean_kib) - self._reserve_ratio * kib["MemTotal"])
