# SPDX-License-Identifier: Apache-2.0
"""The pages of a guest's RAM: on which nodes they lie, and moving them, one chunk per call.

Standard library only: this also runs in the privileged helper (`vp_agent.privsep`), since the
kernel lets nobody see or move another user's pages without CAP_SYS_PTRACE. A pid may have been
reused, so a process is known by pid and start time together.
"""

import array
import ctypes
import errno
import functools
import math
import mmap
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import NamedTuple

from vp_agent.drivers.vcpu_threads import read_process

CHUNK_PAGES = 1024
PAGE_BYTES = mmap.PAGESIZE
PAGE_KIB = PAGE_BYTES // 1024
SAMPLES = 4096
"""Pages that a look asks for: every one of a small guest; else a share of 50 % is right within
1.6 % (two sigma), and a guest of any size costs the same."""
_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
_MOVE_PRIVATE = 2
"""MPOL_MF_MOVE: pages that another process maps too (KSM, vhost-user) stay where they are."""
_SYSCALL = {"x86_64": 279, "aarch64": 239, "riscv64": 239, "ppc64le": 301, "s390x": 310}
_UNTOUCHED = -errno.EBUSY
"""The kernel may give up on a batch without a word on its later pages."""
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-([ps]) \S+ \S+ (\d+) *(.*)$", re.M)
_SIZE = re.compile(r"^(VmLck|VmPin|HugetlbPages):\s*(\d+) kB$", re.M)
_MOST_TIMES = 4
"""Of a guest's memory, that one mapping may be: the kernel joins neighbours of one kind."""
_MOST_BYTES = 16 << 20
"""Of a file of /proc/PID: a hundred thousand mappings, more than the kernel allows by default."""
_libc = ctypes.CDLL(None, use_errno=True)

Counts = tuple[tuple[int, int], ...]
"""(node, pages)."""
Numbers = array.array  # Of the kernel's own width, so that nothing is converted per page.


class Look(NamedTuple):
    """Where one guest's RAM lies, by a sample of its pages."""

    spans: tuple[tuple[int, int], ...]
    """(address, bytes) of the mappings that are its RAM."""
    nodes: Counts
    sampled: int
    """Pages asked for; those that were never touched are nowhere yet."""
    locked_kib: int
    """Locked or pinned: memory locking, VFIO, RDMA."""
    huge_kib: int
    """Of hugetlbfs."""


class Flow(NamedTuple):
    """How much of what a chunk has on one node goes to another."""

    source: int
    target: int
    ratio: float
    owed: float = 0.0
    """Pages that earlier chunks did not move; below zero: too many."""


class Moved(NamedTuple):
    """One chunk after its move."""

    was: Counts
    moved: tuple[tuple[int, int, int], ...]
    """(source, target, pages)."""
    busy: int = 0
    """Pages in use by the kernel at that moment: worth another try."""
    shared: int = 0
    """Pages that another process maps too: they stay."""
    no_room: int = 0
    """Pages for which the target had none free."""


def look(pid: int, started: int, memory_kib: int) -> Look:
    """Raises OSError: ProcessLookupError, PermissionError."""
    _check(pid, started)
    spans = find_ram(_read(pid, "maps"), memory_kib)
    pages = _sample(spans)
    sizes = {name: int(kib) for name, kib in _SIZE.findall(_read(pid, "status"))}
    return Look(
        spans=spans,
        nodes=_counted(_where(pid, pages)),
        sampled=len(pages),
        locked_kib=sizes.get("VmLck", 0) + sizes.get("VmPin", 0),
        huge_kib=sizes.get("HugetlbPages", 0),
    )


def move_chunk(pid: int, started: int, address: int, count: int, flows: Sequence[Flow]) -> Moved:
    """`count` pages from `address` on. Raises OSError: ProcessLookupError, PermissionError, and
    ENODEV for a node that is not there."""
    _check(pid, started)
    pages = Numbers("Q", range(address, address + count * PAGE_BYTES, PAGE_BYTES))
    before = _where(pid, pages)
    # What crossed to the helper has become plain tuples.
    chosen = choose(before, starmap(Flow, flows))
    if not chosen:
        return Moved(_counted(before), ())
    status = _move_pages(pid, Numbers("Q", (pages[i] for i, _ in chosen)), [n for _, n in chosen])
    after = _where(pid, pages)
    left = [
        answer
        for (index, node), answer in zip(chosen, status, strict=True)
        if after[index] >= 0 and after[index] != node
    ]
    shared, no_room = left.count(-errno.EACCES), left.count(-errno.ENOMEM)
    return Moved(
        was=_counted(before),
        moved=_changed(before, after),
        busy=len(left) - shared - no_room,
        shared=shared,
        no_room=no_room,
    )


def choose(lie: Sequence[int], flows: Iterable[Flow]) -> list[tuple[int, int]]:
    """(page of the chunk, target) of those that go. Neighbours go together, so that transparent
    huge pages, which move whole, are seldom torn between two targets."""
    there: dict[int, list[int]] = {}
    for index, node in enumerate(lie):
        if node >= 0:
            there.setdefault(node, []).append(index)
    had = {node: len(indexes) for node, indexes in there.items()}
    chosen: list[tuple[int, int]] = []
    for flow in flows:
        stay = there.get(flow.source, [])
        count = max(0, math.ceil(flow.ratio * had.get(flow.source, 0) + flow.owed - 0.5))
        chosen += ((index, flow.target) for index in stay[:count])
        there[flow.source] = stay[count:]
    return chosen


def find_ram(maps: str, memory_kib: int) -> tuple[tuple[int, int], ...]:
    """(address, bytes) of the largest writable mappings that together hold the guest's memory. One
    that is far larger than all of that is none of them, whatever QEMU maps: it would be looked
    through and copied for ever."""
    found, most_bytes = [], _MOST_TIMES * memory_kib * 1024
    for start, end, kind, inode, name in _MAPPING.findall(maps):
        # Anonymous, or a shared file: memfd, or a memory backend on disk.
        if kind == "s" or (inode == "0" and not name.startswith(("[heap", "[stack"))):
            size = int(end, 16) - int(start, 16)
            if size <= most_bytes:
                found.append((size, int(start, 16)))
    spans, missing_bytes = [], memory_kib * 1024
    for size, start in sorted(found, reverse=True):
        if missing_bytes <= 0:
            break
        spans.append((start, size))
        missing_bytes -= size
    return tuple(sorted(spans))


def _sample(spans: Sequence[tuple[int, int]]) -> "array.array[int]":
    """Evenly spread, and in no rhythm that memory split by chunks could share."""
    total = sum(size for _, size in spans) // PAGE_BYTES
    if total <= SAMPLES:
        return Numbers("Q", (a for s, size in spans for a in range(s, s + size, PAGE_BYTES)))
    wanted = _chosen(total)
    pages, first, at = Numbers("Q"), 0, 0
    for start, size in spans:
        beyond = first + size // PAGE_BYTES
        end = bisect_left(wanted, beyond, at)
        pages.extend([start + (number - first) * PAGE_BYTES for number in wanted[at:end]])
        first, at = beyond, end
    return pages


@functools.lru_cache(maxsize=8)
def _chosen(total: int) -> "array.array[int]":
    """Which of so many pages, in order: the same for all guests of one size."""
    return Numbers("Q", sorted(int(n * _GOLDEN_RATIO % 1 * total) for n in range(SAMPLES)))


def _where(pid: int, pages: "array.array[int]") -> "array.array[int]":
    """Per page its node, or a negative errno. Raises OSError."""
    return _move_pages(pid, pages, None)


def _move_pages(
    pid: int, pages: "array.array[int]", nodes: Sequence[int] | None
) -> "array.array[int]":
    """move_pages(2): the status of each page. Raises OSError."""
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"move_pages is not known for {os.uname().machine}")
    count = len(pages)
    status = Numbers("i", [_UNTOUCHED]) * count
    answer = _libc.syscall(
        ctypes.c_long(number),
        ctypes.c_int(pid),
        ctypes.c_ulong(count),
        (ctypes.c_uint64 * count).from_buffer(pages),
        None if nodes is None else (ctypes.c_int * count)(*nodes),
        (ctypes.c_int * count).from_buffer(status),
        ctypes.c_int(_MOVE_PRIVATE),
    )
    # Above zero: so many pages were not moved, and the caller looks which. ENOENT: none had to.
    if answer < 0 and ctypes.get_errno() != errno.ENOENT:
        reason = ctypes.get_errno()
        if reason == errno.EINVAL and not _read(pid, "maps"):
            raise ProcessLookupError(errno.ESRCH, f"process {pid} has ended: it has no memory")
        raise OSError(reason, f"move_pages of process {pid}: {os.strerror(reason)}")
    return status


def _counted(lie: Iterable[int]) -> Counts:
    return tuple(sorted(item for item in Counter(lie).items() if item[0] >= 0))


def _changed(before: Sequence[int], after: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    pairs = Counter(zip(before, after, strict=True))
    return tuple(sorted((was, now, n) for (was, now), n in pairs.items() if 0 <= was != now >= 0))


def _check(pid: int, started: int) -> None:
    if read_process(pid).started != started:
        raise ProcessLookupError(errno.ESRCH, f"process {pid} is another one by now")


def _read(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read(_MOST_BYTES)
    except FileNotFoundError as exc:
        raise ProcessLookupError(errno.ESRCH, f"no process {pid}") from exc
