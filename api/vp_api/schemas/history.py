# SPDX-License-Identifier: Apache-2.0
"""Queries and answers of what hosts and servers did over time."""

from nova_vp.db.serialization import METRICS
from vp_api.schemas.base import (
    COUNT,
    KIND,
    MARKER,
    MINUTE,
    MODE,
    NUMBER,
    RATIO,
    STATE,
    TEXT,
    TIME,
    YES_NO,
    list_of,
    nullable,
    obj,
    page_of,
    query,
)

TENANT_METRICS = ("mpki", "memory_factor", "cpi", "cpu_cores")
"""What is derived from a guest's own counters and tells of nothing else: no rate of the host's
memory, no distance within it, no quality of its counters."""

QUERY = query(
    begin=TIME,
    end=TIME,
    every={"enum": ["1", "5", "15", "60"]},
    limit={"type": "integer", "minimum": 1, "maximum": 1440},
    marker=MARKER,
)
_MEASURED = nullable(obj(dict.fromkeys(METRICS, NUMBER), title="MetricsThen"))
_THEN = {"state": nullable(STATE), "hurt_by_neighbour": nullable(YES_NO)}
_SEEN = {**_THEN, "kind": nullable(KIND), "metrics": _MEASURED}
_WAITING = {"waiting_ratio": nullable(RATIO)}
_LOSSES = {"degradation_ratio": nullable(RATIO), **_WAITING}
"""Since 1.4."""
ANSWER_OF_VP = page_of("history", obj({"at": TIME, "host": TEXT, **_SEEN}, _LOSSES), "VpHistory")
TENANT_ANSWER_OF_VP = page_of(
    "history",
    obj(
        {
            "at": MINUTE,
            **_THEN,
            "metrics": nullable(obj(dict.fromkeys(TENANT_METRICS, NUMBER), title="TenantMetrics")),
        },
        {"degradation_percent": nullable(COUNT), **_WAITING},
    ),
    "TenantVpHistory",
)
ANSWER_OF_HOST = page_of(
    "history",
    obj(
        {
            "at": TIME,
            "mode": MODE,
            "hurt_count": COUNT,
            "vps": list_of(obj({"server_id": TEXT, "project_id": TEXT, **_SEEN}, _LOSSES)),
        }
    ),
    "HostHistory",
)
