# SPDX-License-Identifier: Apache-2.0
"""Folders, sizes and deadlines of the NUMA lab, each written once."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NUMA = ROOT / "testbed" / "numa"
CACHE = ROOT / ".cache" / "numa"
KERNEL, INITRD, DISK = CACHE / "vmlinuz", CACHE / "initrd", CACHE / "root.img"
SHARED = CACHE / "shared"
"""The checkout's .cache as commands in the machine see it: what they leave there stays."""
RUN = CACHE / "run"
"""What belongs to the machine that runs now; gone when it is down."""
CONSOLE_LOG = CACHE / "console.log"
WRITER = SHARED / "numa-writer"

NODES = 4
CPUS_PER_NODE = 2
NODE_MEMORY_MIB = 2048
NEAR, FAR = 16, 22
"""Distances on a ring: the two next nodes, and the one opposite (itself: 10, as always)."""

BOOT_DEADLINE_S = 240.0
BUILD_DEADLINE_S = 900.0
COMMAND_DEADLINE_S = 3600.0


def distance(one: int, other: int) -> int:
    steps = abs(one - other) % NODES
    return (10, NEAR, FAR)[min(steps, NODES - steps)]


def command_environment() -> dict[str, str]:
    """Of commands in the machine: nothing of the caller's own."""
    return {
        "PATH": f"{ROOT}/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMA_LAB": "1",
    }
