# SPDX-License-Identifier: Apache-2.0
"""A rate for each of many: overlays, hosts. In memory."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_KEPT = 4096
"""Of all that are remembered; then each has its whole burst again."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


class TokenBuckets:
    """Thread-safe."""

    def __init__(
        self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, _Bucket] = {}

    def take(self, whose: str) -> bool:
        """Whether there was one left."""
        now_s = self._clock()
        with self._lock:
            if len(self._buckets) > MOST_KEPT:
                self._buckets.clear()
            bucket = self._buckets.setdefault(whose, _Bucket(self._burst, now_s))
            passed_s = now_s - bucket.at_s
            bucket.tokens = min(self._burst, bucket.tokens + passed_s * self._per_s)
            bucket.at_s = now_s
            if bucket.tokens < 1:
                return False
            bucket.tokens -= 1
            return True
