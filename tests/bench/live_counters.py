# SPDX-License-Identifier: Apache-2.0
"""A host full of guests whose counter files live: each runs at the rates of its present work.

The guests themselves stand still; what they count here is what the vpmu plugin would count. Who
hurts whom is decided by where the vCPU threads may really run, so that a mitigation helps.
"""

import enum
import os
import random
import struct
from pathlib import Path

from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Rates
from tests.vpmu_file import HEADER_BYTES, VpmuFile

_SLOT = struct.Struct("<2Q8x3Q208x")
_NOISE_RATIO = 0.03


class Work(enum.Enum):
    COMPUTE = COMPUTE
    MIXED = Rates(mips=25, l2_mpki=20.0, mpki=5.0, cpi=2.0)
    CHASE = CHASE
    STREAM = STREAM


class LiveGuest:
    def __init__(self, path: Path, tids: tuple[int, ...], work: Work) -> None:
        self.tids = tids
        self.work = work
        self._dice = random.Random(path.name)
        self._file = VpmuFile(path, len(tids))
        self._fd = os.open(path, os.O_WRONLY)
        self._counts = [0.0] * 5

    def placement(self) -> frozenset[int]:
        return frozenset(os.sched_getaffinity(self.tids[0]))

    def run(self, rates: Rates, span_s: float) -> None:
        """Each vCPU executes a share of these rates for so long."""
        instructions = rates.mips * 1e6 * span_s / len(self.tids) * self._noise()
        references = instructions * rates.l2_mpki / 1000
        misses = instructions * rates.mpki / 1000 * self._noise()
        more = (instructions, instructions * rates.cpi, references, min(misses, references), 0.0)
        self._counts = [was + new for was, new in zip(self._counts, more, strict=True)]
        slot = _SLOT.pack(*map(int, self._counts))
        os.pwrite(self._fd, slot * len(self.tids), HEADER_BYTES)

    def _noise(self) -> float:
        return 1 + _NOISE_RATIO * (2 * self._dice.random() - 1)

    def close(self) -> None:
        os.close(self._fd)
        self._file.die()


class LiveCounters:
    def __init__(self) -> None:
        self.guests: list[LiveGuest] = []
        self._ran_until_s: float | None = None

    def run_until(self, now_s: float) -> None:
        span_s = now_s - (self._ran_until_s if self._ran_until_s is not None else now_s)
        self._ran_until_s = now_s
        streamed = self._streamed_cpus()
        for guest in self.guests:
            is_hurt = guest.work is Work.CHASE and guest.placement() & streamed
            guest.run(CHASE_HURT if is_hurt else guest.work.value, span_s)

    def _streamed_cpus(self) -> frozenset[int]:
        """Each CPU has a cache of its own here."""
        streaming = (guest for guest in self.guests if guest.work is Work.STREAM)
        return frozenset().union(*(guest.placement() for guest in streaming))

    def close(self) -> None:
        for guest in self.guests:
            guest.close()
