# SPDX-License-Identifier: Apache-2.0
"""Body and answer of PUT /v1/vps/{server_id}/latency."""

from nova_vp import wire
from vp_api.schemas.base import NUMBER, TEXT, TIME, nullable, obj

_LATENCY_MS = {"type": "number", "exclusiveMinimum": 0, "maximum": wire.MOST_LATENCY_MS}
_LOAD = {"type": "number", "minimum": 0, "maximum": wire.MOST_LOAD}
_PERCENTILE = {
    "type": "number",
    "minimum": wire.LEAST_PERCENTILE,
    "maximum": wire.MOST_PERCENTILE,
}
_EPOCH_S = {"type": "number", "minimum": 0, "maximum": 2**40}

REPORT = obj(
    {"latency_ms": _LATENCY_MS},
    {"load": nullable(_LOAD), "percentile": nullable(_PERCENTILE), "measured_at": _EPOCH_S},
    title="LatencyReport",
)
"""`measured_at`: seconds since the Unix epoch; absent: now."""

ANSWER = obj(
    {
        "latency": obj(
            {
                "server_id": TEXT,
                "latency_ms": NUMBER,
                "load": nullable(NUMBER),
                "percentile": nullable(NUMBER),
                "measured_at": TIME,
            }
        )
    },
    title="LatencyReportAnswer",
)
