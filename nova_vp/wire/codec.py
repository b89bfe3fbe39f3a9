# SPDX-License-Identifier: Apache-2.0
"""Messages to text and back: JSON, valid in shape and size, or refused with the first fault."""

import json
import math
from collections.abc import Mapping
from typing import Any

from nova_vp.wire.digest import DIGEST_SCHEMA, DIGEST_TOPIC, MAX_DIGEST_BYTES
from nova_vp.wire.errors import BadMessage
from nova_vp.wire.escalation import ESCALATION_SCHEMA, ESCALATION_TOPIC, MAX_ESCALATION_BYTES
from nova_vp.wire.facts import FACTS, FACTS_SCHEMA, MAX_FACTS_BYTES
from nova_vp.wire.host_keys import HOST_KEYS, HOST_KEYS_SCHEMA, MAX_HOST_KEYS_BYTES
from nova_vp.wire.latency import LATENCY, LATENCY_SCHEMA, MAX_LATENCY_BYTES
from nova_vp.wire.modes import MAX_MODES_BYTES, MODES, MODES_SCHEMA
from nova_vp.wire.overlays import (
    MAX_OVERLAY_ANSWER_BYTES,
    MAX_OVERLAY_CALL_BYTES,
    MAX_OVERLAYS_BYTES,
    OVERLAY_ANSWER,
    OVERLAY_ANSWER_SCHEMA,
    OVERLAY_CALL,
    OVERLAY_CALL_SCHEMA,
    OVERLAYS,
    OVERLAYS_SCHEMA,
)
from nova_vp.wire.overrides import MAX_OVERRIDES_BYTES, OVERRIDES, OVERRIDES_SCHEMA
from nova_vp.wire.profiles import MAX_PROFILES_BYTES, PROFILES, PROFILES_SCHEMA
from nova_vp.wire.report import MAX_REPORT_BYTES, REPORT_SCHEMA, REPORT_TOPIC
from nova_vp.wire.schema_types import MOST_COUNT
from nova_vp.wire.usage import MAX_USAGE_BYTES, USAGE_SCHEMA, USAGE_TOPIC
from nova_vp.wire.validation import Schema, SchemaError

EXPIRE_S = 180
"""A message this old is no news: the broker drops it (`etc/nova-vp/rabbitmq-policies.json`)."""

_SHAPES = {
    DIGEST_TOPIC: (Schema(DIGEST_SCHEMA), MAX_DIGEST_BYTES),
    REPORT_TOPIC: (Schema(REPORT_SCHEMA), MAX_REPORT_BYTES),
    PROFILES: (Schema(PROFILES_SCHEMA), MAX_PROFILES_BYTES),
    ESCALATION_TOPIC: (Schema(ESCALATION_SCHEMA), MAX_ESCALATION_BYTES),
    HOST_KEYS: (Schema(HOST_KEYS_SCHEMA), MAX_HOST_KEYS_BYTES),
    USAGE_TOPIC: (Schema(USAGE_SCHEMA), MAX_USAGE_BYTES),
    OVERRIDES: (Schema(OVERRIDES_SCHEMA), MAX_OVERRIDES_BYTES),
    MODES: (Schema(MODES_SCHEMA), MAX_MODES_BYTES),
    FACTS: (Schema(FACTS_SCHEMA), MAX_FACTS_BYTES),
    LATENCY: (Schema(LATENCY_SCHEMA), MAX_LATENCY_BYTES),
    OVERLAYS: (Schema(OVERLAYS_SCHEMA), MAX_OVERLAYS_BYTES),
    OVERLAY_CALL: (Schema(OVERLAY_CALL_SCHEMA), MAX_OVERLAY_CALL_BYTES),
    OVERLAY_ANSWER: (Schema(OVERLAY_ANSWER_SCHEMA), MAX_OVERLAY_ANSWER_BYTES),
}

_REQUESTS = frozenset({OVERLAY_CALL})
"""What asks for something may mean another thing without what this release does not know."""


def encode(topic: str, message: Mapping[str, Any]) -> str:
    """ASCII JSON text. Raises BadMessage if it has no JSON form or is larger than receivers take.

    Its shape is not checked: the receiver does it anyway.
    """
    most = _SHAPES[topic][1]
    try:
        text = compact(message)
    except ValueError as exc:
        raise BadMessage(f"{topic}: {exc}") from exc
    if len(text) > most:
        raise BadMessage(f"{topic}: {len(text)} bytes, at most {most} are sent")
    return text


def compact(value: object) -> str:
    """Raises ValueError for numbers that JSON does not have."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def decode(topic: str, text: object) -> dict[str, Any]:
    """The message, valid in shape and size. Fields that only a later release knows are left out,
    and a mode that only it knows counts as the tightest. Raises BadMessage with the first fault
    found."""
    shape, most = _SHAPES[topic]
    if not isinstance(text, str) or len(text) > most or not text.isascii():
        raise BadMessage(f"{topic}: not an ASCII text of at most {most} bytes")
    try:
        message = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        message = _known_part(shape, message, is_a_request=topic in _REQUESTS)
    except SchemaError as exc:
        raise BadMessage(f"{topic}: {exc}") from exc
    except (ValueError, RecursionError) as exc:
        raise BadMessage(f"{topic}: not JSON: {str(exc)[:200]}") from exc
    return dict(message)


def _known_part(shape: Schema, message: Any, *, is_a_request: bool) -> Any:
    """A message of this release is judged once, and that is fast."""
    try:
        shape.check(message)
    except SchemaError:
        if is_a_request:
            raise
        message = shape.without_unknown(message)
        shape.check(message)
    return message


def _finite(text: str) -> float:
    """`1e999` is valid JSON and would be infinite here. And a whole number may be written as 3.0,
    which schemas let pass where one is asked for, and whoever counts with it need not know."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large")
    return int(number) if number.is_integer() and abs(number) <= MOST_COUNT else number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number we accept")
