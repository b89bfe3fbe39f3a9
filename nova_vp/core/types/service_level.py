# SPDX-License-Identifier: Apache-2.0
"""What a server's flavor or tenant says of its service, and what its application reports of it.

Latency here is that of the application's requests, never that of memory (`model.latency`).
"""

import enum
from typing import NamedTuple

DEFAULT_PERCENTILE = 95.0


class ServiceClass(enum.Enum):
    """`vp:class`."""

    LATENCY_CRITICAL = "latency-critical"
    """Its requests must be answered within a target."""
    BEST_EFFORT = "best-effort"
    """It gets what latency-critical servers leave."""


class ClassRoom(NamedTuple):
    """What a server of either class would find on a host."""

    best_effort_cores: float
    """That all others leave to the best-effort servers together."""
    best_effort_vcpus: int
    """Of those that are here."""
    latency_critical_cores: float
    """That nobody but best-effort servers uses."""
    starved: frozenset[str] = frozenset()
    """Projects whose latency-critical servers limit no others here, after they starved them."""


class LatencyReport(NamedTuple):
    """The last one that an application made of one server."""

    latency_ms: float
    """At the server's percentile, of the requests since the report before."""
    load: float | None
    """In the unit of `max_load`, requests per second for example; None: it was not told."""
    age_s: float
    """Since it was measured, by the clock of who did."""
