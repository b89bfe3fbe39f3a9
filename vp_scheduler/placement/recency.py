# SPDX-License-Identifier: Apache-2.0
"""When hosts were heard, and which of them is forgotten where there is no room for a new one.

Who has credentials for the bus can invent host names. So a host that was heard again while it was
fresh is never forgotten for a new one: those that were heard once make room for each other.
"""

from collections import OrderedDict


class Recency:
    """Not thread-safe. Each call takes the same time, however many hosts there are."""

    def __init__(self, stale_after_s: float) -> None:
        self._stale_after_s = stale_after_s
        self._once: OrderedDict[str, float] = OrderedDict()
        self._again: OrderedDict[str, float] = OrderedDict()
        """Both: when each was heard last, in seconds of the caller's clock, in this order."""

    def note(self, host: str, now_s: float, *, is_fresh: bool) -> None:
        """The host was heard. `is_fresh`: what it said before still counts."""
        self.forget(host)
        (self._again if is_fresh else self._once)[host] = now_s

    def forget(self, host: str) -> None:
        self._once.pop(host, None)
        self._again.pop(host, None)

    def longest_stale(self, now_s: float) -> str | None:
        """None: all are fresh."""
        oldest = [next(iter(heard.items())) for heard in (self._once, self._again) if heard]
        stale = [(at_s, host) for host, at_s in oldest if now_s - at_s > self._stale_after_s]
        return min(stale)[1] if stale else None

    def longest_heard_once(self) -> str | None:
        """Of those that were heard once, the one heard longest ago; None: there are none."""
        return next(iter(self._once), None)
