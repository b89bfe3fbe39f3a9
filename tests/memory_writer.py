# SPDX-License-Identifier: Apache-2.0
"""A process with much memory that it writes throughout, as a guest would.

`memory_writer.py MIB [locked] [small | huge]`: each page holds words that follow from its number
and from how often it was written, checked before each write. Prints "ready" once every page is
there; for each line on stdin "ROUNDS BAD_PAGES LONGEST_PAUSE_US", and forgets the pause. Standard
library only.
"""

import ctypes
import itertools
import mmap
import select
import sys
import time

WORDS = mmap.PAGESIZE // 8
LOOK_EVERY = 64
"""Pages between two looks at stdin."""
MLOCK_CURRENT = 1
PAGE_SIZES = {"small": mmap.MADV_NOHUGEPAGE, "huge": mmap.MADV_HUGEPAGE}
"""Transparent huge pages; as the machine has it if neither is asked for."""


def main() -> None:
    pages = int(sys.argv[1]) * 2**20 // mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE, flags)
    for word, advice in PAGE_SIZES.items():
        if word in sys.argv:
            memory.madvise(advice)
    words = memoryview(memory).cast("Q")
    for page in range(pages):
        write(words, page, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if "locked" in sys.argv and libc.mlockall(MLOCK_CURRENT):
        sys.exit(f"mlockall: errno {ctypes.get_errno()}")
    print("ready", flush=True)
    bad, longest_ns, last_ns = 0, 0, time.monotonic_ns()
    for turn in itertools.count():
        for page in range(pages):
            bad += not is_as_written(words, page, turn)
            write(words, page, turn + 1)
            now_ns = time.monotonic_ns()
            longest_ns, last_ns = max(longest_ns, now_ns - last_ns), now_ns
            if page % LOOK_EVERY == 0 and select.select([0], [], [], 0)[0]:
                if not sys.stdin.readline():
                    return
                print(turn, bad, longest_ns // 1000, flush=True)
                longest_ns = 0


def write(words: memoryview, page: int, turn: int) -> None:
    words[page * WORDS] = words[(page + 1) * WORDS - 1] = (page << 32) + turn


def is_as_written(words: memoryview, page: int, turn: int) -> bool:
    return words[page * WORDS] == words[(page + 1) * WORDS - 1] == (page << 32) + turn


if __name__ == "__main__":
    main()
