# SPDX-License-Identifier: Apache-2.0
"""Body and answer of PUT /v1/vps/{server_id}/latency."""

from nova_vp.wire.schema_types import LATENCY_MS, LOAD, PERCENTILE
from vp_api.schemas.base import NUMBER, TEXT, TIME, nullable, obj

_EPOCH_S = {"type": "number", "minimum": 0, "maximum": 2**40}

REPORT = obj(
    {"latency_ms": LATENCY_MS},
    {"load": nullable(LOAD), "percentile": nullable(PERCENTILE), "measured_at": _EPOCH_S},
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
