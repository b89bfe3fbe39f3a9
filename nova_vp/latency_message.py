# SPDX-License-Identifier: Apache-2.0
"""One report of an application's latency and load, as vp-api sends it to the agent of the server's
host: a value that both share, and its form in messages. Pure."""

from enum import StrEnum
from typing import NamedTuple

from nova_vp import wire

LATE_S = 10.0
"""A report that was measured longer ago says nothing of now."""
AHEAD_S = 5.0
"""So far the clock of an application may be ahead of vp-api's."""
LEAST_INTERVAL_S = 0.5
"""Between two reports of a server; those that come sooner are not used."""


class Ignored(StrEnum):
    """Why a report is not used."""

    NOT_HERE = "no-such-server"
    """It has left, or was never here."""
    FOREIGN = "another-project"
    NOT_CRITICAL = "not-latency-critical"
    """Nothing goes by the latency of such a server."""
    PERCENTILE = "another-percentile"
    MEASURED = "measured-by-operator"
    """Its operator has a latency source for it, which alone is believed."""
    LATE = "late"
    REPEATED = "not-newer"
    """It was measured before the last one, or is that one again."""
    TOO_SOON = "too-soon"


class LatencyMessage(NamedTuple):
    server: str
    project_id: str
    latency_ms: float
    """At the percentile."""
    load: float | None
    percentile: float | None
    """None: the one that the server is judged by."""
    measured_at_ms: int
    sent_at_ms: int

    def age_s(self, now_ms: int) -> float:
        """How long ago it was measured, by the clock of who sent it and then by `now_ms`. Clocks
        that differ make nothing younger than new."""
        before_s = max(0, self.sent_at_ms - self.measured_at_ms) / 1000
        return before_s + max(0, now_ms - self.sent_at_ms) / 1000


def latency_text(message: LatencyMessage) -> str:
    """A `wire.LATENCY` message. Raises wire.BadMessage for a number that JSON does not have."""
    return wire.encode(wire.LATENCY, {"v": wire.VERSION, **message._asdict()})


def read_latency(text: object) -> LatencyMessage:
    """Raises wire.BadMessage."""
    message = wire.decode(wire.LATENCY, text)
    del message["v"]
    return LatencyMessage(**{**message, "server": message["server"].lower()})
