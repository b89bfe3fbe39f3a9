# SPDX-License-Identifier: Apache-2.0
"""What an application reports of the latency and load of its server, as an agent gets it."""

from nova_vp.wire.schema_types import (
    COUNT,
    LATENCY_MS,
    LOAD,
    PERCENTILE,
    TEXT,
    UUID,
    VERSION,
    object_of,
)
from nova_vp.wire.validation import nullable

LATENCY = "vp_latency"
"""No topic of its own: an agent is sent it by `rpcapi.AgentAPI.report_latency`."""

MAX_LATENCY_BYTES = 2048

LATENCY_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "server": UUID,
        "project_id": TEXT,
        "latency_ms": LATENCY_MS,
        "load": nullable(LOAD),
        "percentile": nullable(PERCENTILE),
        "measured_at_ms": COUNT,
        "sent_at_ms": COUNT,
    }
)
"""`load`: in the unit of `vp:max_load`, such as requests per second; null: it was not measured.
`percentile`: null: the one that the server is judged by. `measured_at_ms`: when the application
measured, in milliseconds since the Unix epoch; of two reports of a server the later one holds.
`sent_at_ms`: by vp-api's clock, when it was sent."""
