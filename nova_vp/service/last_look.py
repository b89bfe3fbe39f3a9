# SPDX-License-Identifier: Apache-2.0
"""What was seen last, for those who ask more often than one wants to look, and for those who would
wait for a look that takes long.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
FRESH_S = 2.0


class _Seen(NamedTuple, Generic[T]):
    at_s: float
    what: T


class LastLook(Generic[T]):
    """A look that is taken at most every FRESH_S, by one at a time. Thread-safe."""

    def __init__(self, look: Callable[[], T], clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._turn = threading.Lock()
        self._seen: _Seen[T] | None = None

    def __call__(self) -> T:
        """What the look returns, or raises. Waits for a look of somebody else only if there was
        none before."""
        seen = self._seen
        if not self._turn.acquire(blocking=seen is None):
            assert seen is not None
            return seen.what
        try:
            if (seen := self._seen) is None or self._clock() - seen.at_s >= FRESH_S:
                what = self._look()
                self._seen = seen = _Seen(self._clock(), what)
            return seen.what
        finally:
            self._turn.release()
