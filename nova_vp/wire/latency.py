# SPDX-License-Identifier: Apache-2.0
"""What an application reports of the latency and load of its server, as an agent gets it."""

from nova_vp.wire.schema_types import COUNT, TEXT, UUID, VERSION, object_of
from nova_vp.wire.validation import nullable

LATENCY = "vp_latency"
"""No topic of its own: an agent is sent it by `rpcapi.AgentAPI.report_latency`."""

MAX_LATENCY_BYTES = 2048
MOST_LATENCY_MS = 600_000.0
"""Ten minutes: no request is answered that late."""
MOST_LOAD = 1e12
LEAST_PERCENTILE, MOST_PERCENTILE = 50.0, 99.999

LATENCY_MS = {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_LATENCY_MS}
LOAD = {"type": "number", "minimum": 0, "maximum": MOST_LOAD}
PERCENTILE = {"type": "number", "minimum": LEAST_PERCENTILE, "maximum": MOST_PERCENTILE}

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
