# SPDX-License-Identifier: Apache-2.0
"""How long neighbours degraded each server, counted since the agent started.

A server has a count from its first degradation on, for as long as it runs here. After that it is
kept for some scrapes more.
"""

import threading
from typing import NamedTuple

from nova_vp.core.types.decision import Decision
from nova_vp.interference import is_degraded

KEPT_S = 600.0
"""So long a server is shown after it was degraded, and its count after it left: some scrapes have
the last of it then."""


class _Counted(NamedTuple):
    degraded_s: float
    degraded_at_s: float
    """When it was degraded last."""
    seen_at_s: float


class DegradedTime:
    """Counts in the tick, is read by scrapes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: dict[str, _Counted] = {}
        self._at_s = 0.0

    def add(self, decision: Decision) -> None:
        """A span between two ticks counts for who was degraded in both."""
        with self._lock:
            for guest_uuid in self._counted.keys() & {view.guest.uuid for view in decision.vps}:
                one = self._counted[guest_uuid]
                self._counted[guest_uuid] = one._replace(seen_at_s=decision.at_s)
            for found in decision.detections:
                if is_degraded(None, found.kind.value):
                    self._degraded(found.victim_uuid, decision.at_s)
            self._at_s = decision.at_s
            oldest_s = decision.at_s - KEPT_S
            for guest_uuid in [
                key for key, one in self._counted.items() if one.seen_at_s < oldest_s
            ]:
                del self._counted[guest_uuid]

    def _degraded(self, guest_uuid: str, at_s: float) -> None:
        before = self._counted.get(guest_uuid, _Counted(0.0, at_s, at_s))
        span_s = at_s - self._at_s if before.degraded_at_s == self._at_s else 0.0
        self._counted[guest_uuid] = _Counted(before.degraded_s + span_s, at_s, at_s)

    def counted_s(self) -> dict[str, float]:
        with self._lock:
            return {guest_uuid: one.degraded_s for guest_uuid, one in self._counted.items()}

    def lately(self) -> frozenset[str]:
        """Who was degraded in the last tick, or not long before."""
        with self._lock:
            oldest_s = self._at_s - KEPT_S
            return frozenset(u for u, one in self._counted.items() if one.degraded_at_s >= oldest_s)
