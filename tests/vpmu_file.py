# SPDX-License-Identifier: Apache-2.0
"""Counter files as the vpmu plugin makes them, written by hand: a builder for tests.

The offsets are those of testbed/vpmu/vpmu_layout.h, version 1; a contract test compares them with
what the compiler says.
"""

import fcntl
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from vp_agent.drivers.counters_fake import VcpuCounts

MAGIC = 0x00314D56554D5056
HEADER_BYTES = 4096 + 8192
SLOT_BYTES = 256
HEADER_OFFSETS: Mapping[str, int] = {
    "magic": 0,
    "version": 8,
    "header_bytes": 12,
    "slot_bytes": 16,
    "vcpu_count": 20,
    "pid": 24,
    "vm_id": 28,
    "started_ns": 32,
}
SLOT_OFFSETS: Mapping[str, int] = {
    "instructions": 0,
    "cycles": 8,
    "llc_references": 24,
    "llc_misses_local": 32,
    "llc_misses_remote": 40,
}
CONTROLLER_MAGIC = 0x3130434D554D5056
CONTROLLER_OFFSETS: Mapping[str, int] = {"magic": 0, "version": 8, "capacity_lines_per_s": 16}
_WIDE = ("magic", "started_ns")


class VpmuFile:
    """One life of one guest. Made complete under another name first, as the plugin does."""

    def __init__(self, path: Path, vcpus: int, started_ns: int = 1, **header: int) -> None:
        self.path = path
        values = {
            "magic": MAGIC,
            "version": 1,
            "header_bytes": HEADER_BYTES,
            "slot_bytes": SLOT_BYTES,
            "vcpu_count": vcpus,
            "pid": 4711,
            "vm_id": 1,
            "started_ns": started_ns,
        } | header
        content = bytearray(HEADER_BYTES + vcpus * SLOT_BYTES)
        for field, value in values.items():
            struct.pack_into(
                "<Q" if field in _WIDE else "<I", content, HEADER_OFFSETS[field], value
            )
        # Neighbours of what we read must not leak into it.
        for slot in range(HEADER_BYTES, len(content), SLOT_BYTES):
            struct.pack_into("<Q", content, slot + 16, 0xDEAD)
            content[slot + 48 : slot + SLOT_BYTES] = b"\xee" * (SLOT_BYTES - 48)
        made = path.with_name(f"making.{path.name}")
        made.write_bytes(content)
        self._qemu = made.open("rb")
        fcntl.flock(self._qemu, fcntl.LOCK_EX)
        made.rename(path)

    def die(self) -> None:
        """As QEMU when it is killed: the file stays, its lock does not."""
        self._qemu.close()

    def add(self, vcpu: int, counts: VcpuCounts) -> None:
        with self.path.open("r+b") as file:
            for field, offset in SLOT_OFFSETS.items():
                at = HEADER_BYTES + vcpu * SLOT_BYTES + offset
                (was,) = struct.unpack("<Q", os.pread(file.fileno(), 8, at))
                os.pwrite(file.fileno(), struct.pack("<Q", was + getattr(counts, field)), at)


def make_controller(
    folder: Path, node: int, lines_per_s: int, magic: int = CONTROLLER_MAGIC, version: int = 1
) -> None:
    """A modelled memory controller, as the first guest's plugin makes it."""
    content = bytearray(4096)
    values = {"magic": magic, "version": version, "capacity_lines_per_s": lines_per_s}
    for field, value in values.items():
        kind = "<I" if field == "version" else "<Q"
        struct.pack_into(kind, content, CONTROLLER_OFFSETS[field], value)
    (folder / f"mc.{node}").write_bytes(content)
