# SPDX-License-Identifier: Apache-2.0
"""LL_CACHE events of Arm that count no last-level cache are recognised."""

from collections.abc import Sequence

import pytest

from tests.cpuinfo import EPYC_MILAN, NEOVERSE_N1
from vp_agent.drivers import ll_cache_trial
from vp_agent.drivers.cpu_model import parse_cpu
from vp_agent.drivers.hardware_events import Event, events_of

N1 = events_of(parse_cpu(NEOVERSE_N1))


class CountingGroup:
    """Counts that grow by a step with every second read: one phase of work lies between."""

    def __init__(self, *steps: tuple[int, int]) -> None:
        self.totals: Sequence[int] = (7, 7)
        self.is_closed = False
        self._steps = list(steps)
        self._reads = 0

    def read(self) -> tuple[int, int]:
        self._reads += 1
        if self._reads % 2 == 0:
            more = self._steps.pop(0)
            self.totals = tuple(was + step for was, step in zip(self.totals, more, strict=True))
        return 1, 1

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("streamed", "resident", "words"),
    [
        # (LL_CACHE_RD, L2D_CACHE_RD) while 16 MiB and while 64 times 256 KiB are read.
        ((200_000, 260_000), (900, 260_000), ""),
        ((0, 260_000), (0, 260_000), "counts nothing"),
        ((260_000, 260_000), (260_000, 260_000), "duplicates the L2's events"),
    ],
)
def test_events_are_refused_that_do_not_count_the_last_level(
    streamed: tuple[int, int], resident: tuple[int, int], words: str
) -> None:
    group = CountingGroup(streamed, resident)
    opened: list[tuple[str, ...]] = []

    def open_group(tid: int, events: Sequence[Event]) -> CountingGroup:
        opened.append((str(tid), *(event.name for event in events)))
        return group

    told = ll_cache_trial.why_not(N1, open_group)
    assert words in told
    assert bool(told) == bool(words)
    assert ("EXTLLC" in told) == bool(words)
    assert opened == [("0", "LL_CACHE_RD", "L2D_CACHE_RD")]
    assert group.is_closed


def test_other_cpus_need_no_trial() -> None:
    def open_group(_tid: int, _events: Sequence[Event]) -> CountingGroup:
        raise AssertionError("nothing is tried")

    assert ll_cache_trial.why_not(events_of(parse_cpu(EPYC_MILAN)), open_group) == ""
