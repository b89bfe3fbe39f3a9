# SPDX-License-Identifier: Apache-2.0
"""A PMU for tests: builds tests/shim/perf_shim.c and writes the table that it answers from."""

import mmap
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from vp_agent.drivers.counters_fake import VcpuCounts

SOURCE = Path(__file__).parent / "shim/perf_shim.c"
MAX_THREADS = 1024
_HEADER = struct.Struct("=4i")
_THREAD = struct.Struct("=2i7Q")


class PerfShim:
    """`env` is for the process that shall believe in this PMU."""

    def __init__(self, folder: Path) -> None:
        library, table = folder / "perf_shim.so", folder / "perf_table"
        subprocess.run(
            ["gcc", "-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-o", library, SOURCE, "-ldl"],
            check=True,
        )
        self.env: Mapping[str, str] = {"LD_PRELOAD": str(library), "PERF_SHIM_TABLE": str(table)}
        with table.open("w+b") as file:
            file.truncate(_HEADER.size + MAX_THREADS * _THREAD.size)
            self._table = mmap.mmap(file.fileno(), 0)
        self._tids: list[int] = []

    def refuse(self, open_errno: int = 0, remote_errno: int = 0) -> None:
        """Every hardware event, or the one of remote misses alone; 0 is none."""
        _HEADER.pack_into(self._table, 0, len(self._tids), open_errno, remote_errno, 0)

    def clear(self) -> None:
        self._tids.clear()
        self.refuse()

    def add_thread(self, tid: int, open_errno: int = 0) -> None:
        self._tids.append(tid)
        _THREAD.pack_into(self._table, self._offset(tid), tid, open_errno, *[0] * 7)
        struct.pack_into("=i", self._table, 0, len(self._tids))

    def remove_thread(self, tid: int) -> None:
        last = self._tids[-1]
        at, last_at = self._offset(tid), self._offset(last)
        self._table[at : at + _THREAD.size] = self._table[last_at : last_at + _THREAD.size]
        self._tids[self._tids.index(tid)] = last
        self._tids.pop()
        struct.pack_into("=i", self._table, 0, len(self._tids))

    def count(
        self, tid: int, counts: VcpuCounts, enabled_ns: int = 1000, running_ns: int = 1000
    ) -> None:
        """What the thread did meanwhile; only what happened while the group ran is counted."""
        offset = self._offset(tid)
        _, open_errno, *was = _THREAD.unpack_from(self._table, offset)
        more = (
            enabled_ns,
            running_ns,
            counts.cycles,
            counts.instructions,
            counts.llc_references,
            counts.llc_misses,
            counts.llc_misses_remote,
        )
        share = running_ns / enabled_ns
        more = more[:2] + tuple(int(n * share) for n in more[2:])
        now = (old + new for old, new in zip(was, more, strict=True))
        _THREAD.pack_into(self._table, offset, tid, open_errno, *now)

    def allow(self, tid: int, open_errno: int = 0) -> None:
        struct.pack_into("=i", self._table, self._offset(tid) + 4, open_errno)

    def _offset(self, tid: int) -> int:
        return _HEADER.size + self._tids.index(tid) * _THREAD.size
