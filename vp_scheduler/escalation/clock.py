# SPDX-License-Identifier: Apache-2.0
"""How long something has lasted, told so that a clock which is set does not matter.

The ledger has UTC, since it outlives processes; a process goes by its monotonic clock from when it
first saw a moment. So a jump of the clock is felt at most once, by whoever starts just then.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import NamedTuple

REMEMBERED = 10_000


class Clock(NamedTuple):
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic_s: Callable[[], float] = time.monotonic


class Since:
    """Not thread-safe for one key; keys belong to escalations, each in one thread at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def elapsed_s(self, key: Hashable, moment: datetime) -> float:
        """Never negative."""
        key = (key, moment)
        if key not in self._seen:
            before_s = max(0.0, (self._clock.now() - moment).total_seconds())
            self._seen[key] = (before_s, self._clock.monotonic_s())
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        before_s, seen_s = self._seen[key]
        return before_s + self._clock.monotonic_s() - seen_s
