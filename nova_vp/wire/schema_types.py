# SPDX-License-Identifier: Apache-2.0
"""What messages are made of: the fields that several of them have, and how a schema is written."""

import re
from collections.abc import Mapping
from typing import Any

from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import MODE_OF_LATER_RELEASE, Mode
from nova_vp.wire.validation import COUNTS_AS, nullable

VERSION = 1
MAX_SERVERS = 4096
"""Of one host."""
MAX_PRIORITY = 9
PREDICT_CLASSES = 10
"""States 0-8, then a newcomer nobody has measured."""
UNKNOWN_CLASS = 9
TEXT = {"type": "string", "maxLength": 255}
UUID = {"type": "string", "pattern": "^[0-9a-fA-F-]{32,36}$"}
MOST_COUNT = 2**53
"""Up to this a float says every whole number."""
COUNT = {"type": "integer", "minimum": 0, "maximum": MOST_COUNT}
MOST_NUMBER = 1e18
NUMBER = {"type": "number", "minimum": 0, "maximum": MOST_NUMBER}
LEAST_LATENCY_MS = 1e-6
"""A nanosecond: a clock that stood still has measured nothing."""
MOST_LATENCY_MS = 600_000.0
"""Ten minutes: no request is answered that late."""
MOST_LOAD = 1e12
LEAST_PERCENTILE, MOST_PERCENTILE = 50.0, 99.999
LATENCY_MS = {"type": "number", "minimum": LEAST_LATENCY_MS, "maximum": MOST_LATENCY_MS}
LOAD = {"type": "number", "minimum": 0, "maximum": MOST_LOAD}
PERCENTILE = {"type": "number", "minimum": LEAST_PERCENTILE, "maximum": MOST_PERCENTILE}
LEAST_LEVEL = 0.001
LEVELS = {
    "latency_target_ms": {**LATENCY_MS, "minimum": LEAST_LEVEL},
    "latency_percentile": PERCENTILE,
    "max_load": {**LOAD, "minimum": LEAST_LEVEL},
}
"""What a tenant may set of a latency-critical server, within what its flavor says: fields of
`nova_vp.server_override.ServerOverride`."""
MODE = {"enum": [mode.value for mode in Mode], COUNTS_AS: MODE_OF_LATER_RELEASE.value}


def object_of(
    required: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def list_of(schema: Mapping[str, Any], at_most: int) -> dict[str, Any]:
    return {"type": "array", "items": schema, "maxItems": at_most}


_HOST_NAME = r"\A[A-Za-z0-9_.:@-]{1,255}\Z"

HOST_NAME = {"type": "string", "pattern": _HOST_NAME}

HEAD = {
    "v": {"const": VERSION},
    "host": HOST_NAME,
    "epoch": COUNT,
    "seq": COUNT,
    "mode": MODE,
}
LONG_TEXT = {"type": "string", "maxLength": 1024}

EVIDENCE = {
    "type": "object",
    "additionalProperties": {"type": "number", "minimum": -MOST_NUMBER, "maximum": MOST_NUMBER},
    "maxProperties": 32,
}
KIND = {"enum": [kind.value for kind in Kind]}

ALTERNATIVE = object_of(
    {
        "uuid": UUID,
        "domain": nullable(COUNT),
        "why": TEXT,
        "hurt_ratio": nullable(NUMBER),
    },
    {"rung": TEXT},
)

OVERRIDE = object_of(
    {},
    {
        "mode": MODE,
        "opt_out": {"type": "boolean"},
        "priority": {"type": "integer", "minimum": 0, "maximum": MAX_PRIORITY},
        "exempt": {"type": "boolean"},
        **LEVELS,
    },
)
"""What is not overridden is absent: see `nova_vp.wire.overrides`."""
IMAGE = {"type": "string", "pattern": r"\A[0-9a-fA-F-]{0,36}\Z"}
"""Empty: it was booted from a volume, or Nova's metadata does not say."""
SENSITIVITY = list_of({"enum": ["cache", "memory", "remote-latency"]}, 3)


def is_host_name(text: str) -> bool:
    return re.match(_HOST_NAME, text) is not None
