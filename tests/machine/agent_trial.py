# SPDX-License-Identifier: Apache-2.0
"""What a process in the agent's sandbox can do: prints `did: NAME` for each of the things below.

It runs in the place of the agent, in the machine. Standard library only.
"""

import ctypes
import mmap
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
FIRST = 1
"""systemd: root's."""
PERF_EVENT_OPEN, MOVE_PAGES = 298, 279
SOFTWARE_TASK_CLOCK = struct.pack("IIQ", 1, 64, 1).ljust(64, b"\0")
CLONE_NEWNET = 0x40000000
CLOCK_REALTIME = 0
GROUP_FILES = ("/sys/fs/cgroup/cpu/cpu.shares", "/sys/fs/cgroup/cgroup.max.depth")
"""root's, of version 1 or 2."""


def call(number: int, *arguments: object) -> None:
    check(LIBC.syscall(number, *arguments))


def check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def write_group() -> None:
    [file] = (Path(name) for name in GROUP_FILES if os.path.exists(name))
    file.write_text(file.read_text())


def connect(family: int, address: object) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as link:
        link.connect(address)  # type: ignore[arg-type]


def make_suid() -> None:
    path = Path("/var/lib/nova-vp/program")
    path.touch()
    path.chmod(0o4755)


ATTEMPTS: dict[str, Callable[[], object]] = {
    "affinity": lambda: os.sched_setaffinity(FIRST, os.sched_getaffinity(FIRST)),
    "bus": lambda: connect(socket.AF_UNIX, "/run/dbus/system_bus_socket"),
    "cgroup": write_group,
    "clock": lambda: check(LIBC.clock_settime(CLOCK_REALTIME, struct.pack("qq", 0, 0))),
    "code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC),
    "counters": lambda: call(PERF_EVENT_OPEN, SOFTWARE_TASK_CLOCK, FIRST, -1, -1, 0),
    "device": lambda: os.open("/dev/net/tun", os.O_RDWR),
    "etc": lambda: Path("/etc/witness").touch(),
    "home": lambda: os.stat("/root/witness"),
    "internet": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "kernel": lambda: os.open("/dev/kmsg", os.O_RDONLY),
    "namespace": lambda: check(LIBC.unshare(CLONE_NEWNET)),
    "packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "pages": lambda: call(MOVE_PAGES, 0, 0, None, None, None, 0),
    "processes": lambda: os.listdir(f"/proc/{FIRST}/task"),
    "state": lambda: Path("/var/lib/nova-vp/witness").touch(),
    "suid": make_suid,
    "switch": lambda: os.open("/proc/sys/kernel/printk", os.O_WRONLY),
    "usr": lambda: Path("/usr/witness").touch(),
}


def main() -> int:
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()
        except OSError as exc:
            print(f"refused: {name}: {exc}")
        else:
            print(f"did: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
