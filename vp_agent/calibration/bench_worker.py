# SPDX-License-Identifier: Apache-2.0
"""One process that loads memory from one CPU, or measures how long memory takes: a script of its
own, run by `bench`, so that neither an interpreter's lock nor a memory policy is shared.

Standard library only, and run as a file (`python -I bench_worker.py ...`): on a host with a hundred
CPUs as many of these start at once. It says `ready`, waits for a line, and answers with one line.
"""

import contextlib
import ctypes
import itertools
import mmap
import os
import platform
import sys
import time

LINE_BYTES = 64
_WORDS_PER_LINE = LINE_BYTES // 8
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_BIND = 2
_MAX_NODE = 1024
_HOPS_AT_A_TIME = 50_000
_IN_CACHE_BYTES = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.memchr.restype = ctypes.c_void_p
_libc.memchr.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)


def bind_memory(node: int) -> None:
    """All memory of this process from that node alone. Raises OSError.

    Binding, and not first touch: the kernel would move pages that a far CPU keeps reading.
    """
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise OSError(f"set_mempolicy(2) is not known for {platform.machine()}")
    word = ctypes.sizeof(ctypes.c_ulong) * 8
    mask = (ctypes.c_ulong * (_MAX_NODE // word))()
    mask[node // word] = 1 << node % word
    call = map(ctypes.c_long, (number, _BIND))
    if _libc.syscall(*call, mask, ctypes.c_ulong(_MAX_NODE + 1)):
        code = ctypes.get_errno()
        raise OSError(code, f"memory of node {node}: {os.strerror(code)}")


def a_buffer(size_bytes: int) -> mmap.mmap:
    """Touched, and in huge pages where the kernel has some, so that page walks weigh little."""
    buffer = mmap.mmap(-1, size_bytes)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # A kernel without them.
            buffer.madvise(mmap.MADV_HUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    ctypes.memset(start, 1, size_bytes)
    return buffer


def read_through(buffer: mmap.mmap, span_s: float) -> tuple[int, float]:
    """Bytes read, and seconds: a byte is looked for that is not there."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    began_s = time.monotonic()
    for passes in itertools.count(1):
        _libc.memchr(start, 0, len(buffer))
        elapsed_s = time.monotonic() - began_s
        if elapsed_s >= span_s:
            return passes * len(buffer), elapsed_s
    raise AssertionError("counted to the end")


def thread_chain(buffer: mmap.mmap, size_bytes: int) -> memoryview:
    """The first words of the lines become a chain through all of them, in an order that no
    prefetcher follows. `size_bytes` is a power of two."""
    words = memoryview(buffer).cast("Q")
    lines = size_bytes // LINE_BYTES
    at = 0
    for _ in range(lines):
        # A full period modulo a power of two: the factor is 1 modulo 4, the summand odd.
        following = (at * 1_664_525 + 1_013_904_223) % lines
        words[at * _WORDS_PER_LINE] = following * _WORDS_PER_LINE
        at = following
    return words


def hop(words: memoryview, span_s: float) -> float:
    """Seconds per hop. The interpreter's share is in it: compare with a chain in the cache."""
    at = hops = 0
    began_s = time.monotonic()
    while True:
        for _ in itertools.repeat(None, _HOPS_AT_A_TIME):
            at = words[at]
        hops += _HOPS_AT_A_TIME
        elapsed_s = time.monotonic() - began_s
        if elapsed_s >= span_s:
            return elapsed_s / hops


def main() -> None:
    what, cpu, node, size_bytes, span_s = sys.argv[1:6]
    os.sched_setaffinity(0, {int(cpu)})
    if int(node) >= 0:
        bind_memory(int(node))
    buffer = a_buffer(int(size_bytes))
    if what == "read":
        print("ready", flush=True)
        sys.stdin.readline()
        done_bytes, elapsed_s = read_through(buffer, float(span_s))
        print(done_bytes / elapsed_s, flush=True)
    else:
        far = thread_chain(buffer, int(size_bytes))
        near = thread_chain(a_buffer(_IN_CACHE_BYTES), _IN_CACHE_BYTES)
        print("ready", flush=True)
        sys.stdin.readline()
        print(hop(far, float(span_s)) - hop(near, float(span_s)), flush=True)


if __name__ == "__main__":
    main()
