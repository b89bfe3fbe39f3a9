# SPDX-License-Identifier: Apache-2.0
"""What servers are billed for as counters of Prometheus, for billing systems that rate series.

They begin at 0 with every run of the agent, as counters do. `project_id` says who pays; it is not
the label `project`, by which Aetos shows series to tenants.
"""

import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from nova_vp.core.types.decision import Decision
from nova_vp.core.types.usage import Usage, total

GONE_S = 600.0
"""So long after a server left, its counters are shown: some scrapes have the last of it then."""
LABELS = ("resource", "project_id")
SERIES: dict[str, tuple[str, Callable[[Usage], float]]] = {
    "permit_booked_seconds": (
        "Wall time in which the server had a pollution permit",
        lambda used: used.booked_s,
    ),
    "over_permit_seconds": (
        "Wall time in which the server was over its pollution permit",
        lambda used: used.over_s,
    ),
    "permitted_llc_misses": (
        "LLC misses that the pollution permit of the server allowed",
        lambda used: used.permit_misses,
    ),
    "charged_llc_misses": (
        "LLC misses that the server was charged",
        lambda used: used.pollution_misses,
    ),
    "cpu_taken_core_seconds": (
        "Core seconds that the server wanted and the cap of its pollution permit denied",
        lambda used: used.cpu_taken_core_s,
    ),
}


class _Counted(NamedTuple):
    used: Usage
    seen_at_s: float


class UsageCounters:
    """Counts in the tick, is read by scrapes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: dict[tuple[str, str], _Counted] = {}

    def add(self, decision: Decision) -> None:
        with self._lock:
            for view in decision.vps:
                for one in view.usage:
                    key = (view.guest.uuid, view.guest.project_id)
                    before = self._counted.get(key)
                    used = total(before.used if before else Usage(""), one)
                    self._counted[key] = _Counted(used, decision.at_s)
            oldest_s = decision.at_s - GONE_S
            for key in [key for key, one in self._counted.items() if one.seen_at_s < oldest_s]:
                del self._counted[key]

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            counted = dict(self._counted)
        for name, (text, amount_of) in SERIES.items():
            family = CounterMetricFamily(f"nova_vp_server_{name}", text, labels=LABELS)
            for labels, one in counted.items():
                family.add_metric(labels, amount_of(one.used))
            yield family
