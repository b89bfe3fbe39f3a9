# SPDX-License-Identifier: Apache-2.0
"""Which hardware events the counter source `perf` counts, by the kernel's generic names.

What a vendor or model of CPUs counts in another way belongs here.
"""

from dataclasses import dataclass

_HARDWARE, _HW_CACHE = 0, 3
_NODE_READ_MISS = 6 | 0 << 8 | 1 << 16


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    type: int
    config: int


CYCLES = Event("cycles", _HARDWARE, 0)
INSTRUCTIONS = Event("instructions", _HARDWARE, 1)
CACHE_REFERENCES = Event("cache-references", _HARDWARE, 2)
CACHE_MISSES = Event("cache-misses", _HARDWARE, 3)
NODE_LOAD_MISSES = Event("node-load-misses", _HW_CACHE, _NODE_READ_MISS)

NEEDED = (CYCLES, INSTRUCTIONS, CACHE_REFERENCES, CACHE_MISSES)
WITH_REMOTE = (*NEEDED, NODE_LOAD_MISSES)
