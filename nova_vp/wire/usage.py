# SPDX-License-Identifier: Apache-2.0
"""Usage: what servers with a pollution permit are billed for, from an agent to the database.

Amounts, not differences. A record is all that one host has counted of one server in one hour with
one attribution; it only grows, and the receiver keeps the largest that it was told. So a message
may be lost, repeated or late, and nothing is counted twice.
"""

from nova_vp.core.types.usage import AMOUNTS
from nova_vp.wire.schema_types import (
    COUNT,
    HEAD,
    NUMBER,
    UUID,
    VERSION,
    list_of,
    object_of,
)

USAGE_TOPIC = "vp_usage"
MAX_USAGE_BYTES = 256 * 1024
MAX_USAGE_RECORDS = 500
HOUR_S = 3600
MOST_HOUR_S = 32503680000
"""The year 3000: what calendars of databases have."""

USAGE_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "host": HEAD["host"],
        "records": list_of(
            object_of(
                {
                    "meter": COUNT,
                    "uuid": UUID,
                    "project_id": {"type": "string", "minLength": 1, "maxLength": 64},
                    "hour": {"type": "integer", "minimum": 0, "maximum": MOST_HOUR_S},
                    "attribution": {"type": "string", "pattern": r"\A[a-z][a-z-]{0,15}\Z"},
                    **dict.fromkeys(AMOUNTS, NUMBER),
                }
            ),
            MAX_USAGE_RECORDS,
        ),
    }
)
"""`meter`: the epoch in which the agent began to count; another one where it lost what it had
counted. `hour`: when it began, in seconds since the Unix epoch by the host's clock."""
