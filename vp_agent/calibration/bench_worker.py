# SPDX-License-Identifier: Apache-2.0
"""One process that loads memory from one CPU, or measures how long memory takes: a script of its
own, run by `bench`, so that neither an interpreter's lock nor a memory policy is shared.

Standard library only, and run as a file (`python -I bench_worker.py ...`): on a host with a hundred
CPUs as many of these start at once. It says `ready`, then answers each line with one line. It ends
with its parent, however that ends.
"""

import contextlib
import ctypes
import itertools
import mmap
import os
import platform
import signal
import sys
import time

LINE_BYTES = 64
LOAD, TIME = "load", "time"
_WORDS_PER_LINE = LINE_BYTES // 8
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_BIND = 2
_MAX_NODE = 1024
_SET_PARENT_DEATH_SIGNAL = 1
_CHUNK_BYTES = 64 << 10
"""Loaded in one go: far more than a call costs, and short against the span, so that a load that is
held to a rate comes evenly."""
_HOPS_AT_A_TIME = 5_000
_IN_CACHE_BYTES = 4096
_WARM_UP, _FAR, _NEAR = 0.1, 0.6, 0.2
"""Shares of the span: what loads memory has begun by then, and has not ended yet."""
_NEAR_PARTS = 5
"""Of which the quickest counts: in the others the CPU may have been somebody else's."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.memchr.restype = _libc.memmove.restype = ctypes.c_void_p
_libc.memchr.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
_libc.memmove.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def end_with_parent(parent: int) -> None:
    """Nobody else would end what loads all memory of a host."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent hears it too, and ends us.
    _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def bind_to(cpu: int) -> None:
    """Raises OSError."""
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as exc:
        raise OSError(
            exc.errno,
            f"CPU {cpu}: {exc.strerror}; run this command where all CPUs of the host may be used, "
            "outside of a container and of a cgroup that restricts them (AllowedCPUs=, cpuset)",
        ) from exc


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
        raise OSError(
            code,
            f"memory of node {node}: {os.strerror(code)}; run this command where memory of all "
            "nodes may be used, outside of a container and of a cgroup that restricts it "
            "(AllowedMemoryNodes=, cpuset)",
        )


def a_buffer(size_bytes: int) -> mmap.mmap:
    """Touched, and in huge pages where the kernel has some, so that page walks weigh little."""
    buffer = mmap.mmap(-1, size_bytes)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # A kernel without them.
            buffer.madvise(mmap.MADV_HUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    ctypes.memset(start, 1, size_bytes)
    return buffer


class Loader:
    """Goes through a buffer that no cache holds, again and again."""

    def __init__(self, buffer: mmap.mmap) -> None:
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        self._chunks = len(buffer) // _CHUNK_BYTES
        self._at = 0

    def load(self, writeback_ratio: float, lines_per_s: float, span_s: float) -> tuple[float, ...]:
        """Lines read and lines written per second. `lines_per_s`: that both together are held to;
        0: flat out."""
        lines, owed = _CHUNK_BYTES // LINE_BYTES, 0.0
        read = written = 0
        began_s = time.monotonic()
        while True:
            owed += writeback_ratio
            if owed >= 1:
                owed -= 1
                self._change_chunk()
                written += lines
            else:
                self._read_chunk()
            read += lines
            due_s = min((read + written) / lines_per_s, span_s) if lines_per_s else 0.0
            while (passed_s := time.monotonic() - began_s) < due_s:
                pass
            if passed_s >= span_s:
                return read / passed_s, written / passed_s

    def _next(self) -> int:
        self._at = (self._at + 1) % self._chunks
        return self._start + self._at * _CHUNK_BYTES

    def _read_chunk(self) -> None:
        """A byte is looked for that is not there."""
        _libc.memchr(self._next(), 0, _CHUNK_BYTES)

    def _change_chunk(self) -> None:
        """Each line is read, then written by its neighbour's bytes: the caches hold it by then, so
        that no write goes past them."""
        start = self._next()
        _libc.memmove(start, start + LINE_BYTES, _CHUNK_BYTES - LINE_BYTES)


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


def _answer_loads(buffer: mmap.mmap) -> None:
    loader = Loader(buffer)
    print("ready", flush=True)
    for line in sys.stdin:
        writeback_ratio, lines_per_s, span_s = map(float, line.split())
        print(*loader.load(writeback_ratio, lines_per_s, span_s), flush=True)


def _answer_times(buffer: mmap.mmap, size_bytes: int) -> None:
    far = thread_chain(buffer, size_bytes)
    near = thread_chain(a_buffer(_IN_CACHE_BYTES), _IN_CACHE_BYTES)
    print("ready", flush=True)
    for line in sys.stdin:
        span_s = float(line)
        time.sleep(_WARM_UP * span_s)
        far_s = hop(far, _FAR * span_s)
        near_s = min(hop(near, _NEAR / _NEAR_PARTS * span_s) for _ in range(_NEAR_PARTS))
        print(far_s - near_s, flush=True)


def main() -> None:
    what, parent, cpu, node, size_bytes = sys.argv[1:6]
    end_with_parent(int(parent))
    bind_to(int(cpu))
    if int(node) >= 0:
        bind_memory(int(node))
    buffer = a_buffer(int(size_bytes))
    if what == LOAD:
        _answer_loads(buffer)
    else:
        _answer_times(buffer, int(size_bytes))


if __name__ == "__main__":
    main()
