# SPDX-License-Identifier: Apache-2.0
"""How many reports of latency one vp-api process sends on: so many of a project, one of a server
in half a second, each measured after the one before it.

The agent of the server's host judges the same again, whichever process sent it. Kept in memory.
"""

import threading
from collections import OrderedDict
from typing import NamedTuple

from nova_vp.latency_message import AHEAD_S, LATE_S, LEAST_INTERVAL_S
from vp_api.project_rate import ProjectRate, TooMany

REMEMBERED_S = LATE_S + AHEAD_S
"""What was measured before that is late anyway."""


class NotNewer(Exception):
    """One that was measured as late, or later, was forwarded before."""


class _Sent(NamedTuple):
    at_s: float
    measured_at_ms: int


class LatencyLimits:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: OrderedDict[str, _Sent] = OrderedDict()
        """By server, the one that waited longest first."""
        self.rate = ProjectRate("reports", "latency_reports_per_s")

    def take(self, server_id: str, measured_at_ms: int, now_s: float) -> None:
        """One report that is to be sent on. Raises TooMany and NotNewer."""
        with self._lock:
            _forget(self._sent, now_s)
            last = self._sent.get(server_id)
            if last is not None:
                if measured_at_ms <= last.measured_at_ms:
                    raise NotNewer(server_id)
                if 0 <= now_s - last.at_s < LEAST_INTERVAL_S:
                    raise TooMany(
                        f"At most one report per server and {LEAST_INTERVAL_S:g} s is forwarded.",
                        LEAST_INTERVAL_S,
                    )
            self._sent[server_id] = _Sent(now_s, measured_at_ms)
            self._sent.move_to_end(server_id)

    def give_back(self, server_id: str, measured_at_ms: int) -> None:
        """One that was taken was not sent: it may be sent again."""
        with self._lock:
            last = self._sent.get(server_id)
            if last is not None and last.measured_at_ms == measured_at_ms:
                del self._sent[server_id]


def _forget(known: OrderedDict[str, _Sent], now_s: float) -> None:
    while known and abs(now_s - next(iter(known.values())).at_s) > REMEMBERED_S:
        known.popitem(last=False)
