# SPDX-License-Identifier: Apache-2.0
"""When the next message is due: news at a bounded rate, a jittered refresh, patience with a broker
that is away. Pure: the clock and the dice are arguments.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

JITTER_RATIO = 0.1
"""So that a thousand hosts that started together do not speak at once."""
FIRST_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Intervals:
    refresh_s: float
    min_s: float


class Schedule:
    def __init__(self, intervals: Intervals, dice: Callable[[], float]) -> None:
        """`dice` gives numbers from 0 to 1."""
        self.intervals = intervals
        self._dice = dice
        self._sent_s: float | None = None
        self._refresh_s = 0.0
        self._not_before_s = 0.0
        self._digest_s = math.inf
        self._retry_s = FIRST_RETRY_S
        self._luck = dice()

    def due_s(self, is_news: bool) -> float:
        """The moment to send all, by the clock that the other methods are told; may have passed."""
        if self._sent_s is None or is_news:
            return self._not_before_s
        return max(self._refresh_s, self._not_before_s)

    def digest_due_s(self) -> float:
        """The moment to send a digest alone; infinite: nobody has asked."""
        return max(self._digest_s, self._not_before_s)

    def sent(self, now_s: float) -> None:
        jitter = 1 + JITTER_RATIO * (2 * self._dice() - 1)
        self._sent_s = now_s
        self._refresh_s = now_s + self.intervals.refresh_s * jitter
        self._not_before_s = now_s + self.intervals.min_s
        self._retry_s = FIRST_RETRY_S

    def begun(self) -> None:
        """A digest is about to go, alone or with the rest: who asks from now on may miss it."""
        self._digest_s = math.inf
        self._luck = self._dice()

    def failed(self, now_s: float) -> None:
        """Tried again later and later, at last as often as a refresh."""
        self._refresh_s = now_s
        self._not_before_s = now_s + self._retry_s * (1 + JITTER_RATIO * self._dice())
        self._retry_s = min(2 * self._retry_s, self.intervals.refresh_s)

    def asked(self, now_s: float, within_s: float) -> None:
        """Somebody has nothing of us yet: the refresh comes early, at a random moment.

        The same for all who ask before it: were it drawn anew for each, the earliest would hold,
        and many who ask at once would be answered by all hosts at once.
        """
        self._refresh_s = min(self._refresh_s, now_s + within_s * self._luck)

    def asked_for_digest(self, now_s: float, within_s: float) -> None:
        """As `asked`, of somebody who is not told more."""
        self._digest_s = min(self._digest_s, now_s + within_s * self._luck)
