# SPDX-License-Identifier: Apache-2.0
"""What a server is for, and how its application is doing, as lists show it; pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

RECENT_S = 60.0
"""What an application reported longer before its host did is not how it is doing."""


class Service(NamedTuple):
    service_class: str = ""
    """Empty: it has none."""
    latency_target_ms: float | None = None
    latency_ms: float | None = None
    """As its application reported it last; None: it did not, or not lately."""


NO_SERVICE = Service()


def service_of(report: Mapping[str, Any], vp: Mapping[str, Any]) -> Service:
    """Of one of the report's `vps`."""
    told = vp.get("service")
    if told is None:
        return NO_SERVICE
    reported = told["reported"]
    is_recent = reported is not None and report["at"] - reported["at"] <= RECENT_S
    latency_ms = reported["latency_ms"] if is_recent else None
    return Service(told["class"], told["latency_target_ms"], latency_ms)
