# SPDX-License-Identifier: Apache-2.0
"""Agents and services of two successive releases understand each other: what the former release
wrote is read, what this one writes it could read, and unknown fields are left out.
"""

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from nova_vp import wire
from nova_vp.db.mapping import rows_of
from nova_vp.wire.schema_types import MODE
from nova_vp.wire.validation import Schema
from tests.frozen_messages import SCHEMAS, Frozen, frozen, of_this_release
from tests.messages import hear
from vp_scheduler.placement.host_view import HostView

FROZEN = frozen()
IDS = [f"{one.release}-{one.topic}" for one in FROZEN]
NOW = datetime(2026, 11, 24, tzinfo=UTC)
READ = [one for one in FROZEN if one.topic != wire.OVERLAY_CALL]

of_each = pytest.mark.parametrize("former", FROZEN, ids=IDS)
of_each_that_is_read = pytest.mark.parametrize("former", READ, ids=[one.topic for one in READ])


def objects(schema: Any, value: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every object with named fields in a message, with its schema."""
    if isinstance(value, dict) and "properties" in schema:
        yield schema, value
        for name, inner in value.items():
            yield from objects(schema["properties"].get(name, {}), inner)
    elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        for inner in value.values():
            yield from objects(schema["additionalProperties"], inner)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for inner in value:
            yield from objects(schema["items"], inner)


def with_more(schema: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """As a later release might write it."""
    later = copy.deepcopy(message)
    for _, one in list(objects(schema, later)):
        one["of_a_later_release"] = {"x": [1]}
    return later


def with_less(schema: dict[str, Any], message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Without each field that need not be there, in turn."""
    places = list(objects(schema, message))
    for nth, (shape, one) in enumerate(places):
        for name in one.keys() - set(shape["required"]):
            earlier = copy.deepcopy(message)
            del list(objects(schema, earlier))[nth][1][name]
            yield earlier


def test_every_topic_is_frozen() -> None:
    assert {one.topic for one in FROZEN} == SCHEMAS.keys() == of_this_release().keys()


@of_each
def test_what_the_former_release_wrote_is_read(former: Frozen) -> None:
    assert wire.decode(former.topic, json.dumps(former.message)) == former.message


@of_each
def test_what_this_release_writes_the_former_one_could_read(former: Frozen) -> None:
    """Nothing that it asked for is gone, and no value is one that it did not know."""
    shape = Schema(former.schema)
    shape.check(shape.without_unknown(of_this_release()[former.topic]))


@of_each_that_is_read
def test_what_only_a_later_release_knows_is_left_out(former: Frozen) -> None:
    later = with_more(SCHEMAS[former.topic], former.message)
    assert later != former.message
    assert wire.decode(former.topic, json.dumps(later)) == former.message


def test_a_request_with_something_unknown_is_refused() -> None:
    """It may ask for something else then."""
    call = of_this_release()[wire.OVERLAY_CALL]
    with pytest.raises(wire.BadMessage):
        wire.decode(wire.OVERLAY_CALL, json.dumps({**call, "of_a_later_release": 1}))


def test_a_mode_that_only_a_later_release_knows_counts_as_the_tightest() -> None:
    """Refused, it would leave the receiver with the former mode, which may allow more."""
    told = set()
    for topic, message in of_this_release().items():
        later = copy.deepcopy(message)
        for shape, one in objects(SCHEMAS[topic], later):
            for name in [n for n, s in shape["properties"].items() if s is MODE and n in one]:
                told.add(topic)
                one[name] = "of-a-later-release"
        text = json.dumps(later)
        tightest = json.loads(text.replace("of-a-later-release", "observe"))
        assert wire.decode(topic, text) == tightest
    assert told >= {wire.MODES, wire.OVERRIDES, wire.REPORT_TOPIC, wire.DIGEST_TOPIC}


@pytest.mark.parametrize("topic", SCHEMAS)
def test_what_was_not_said_yet_may_be_missing(topic: str) -> None:
    for earlier in with_less(SCHEMAS[topic], of_this_release()[topic]):
        assert wire.decode(topic, json.dumps(earlier)) == earlier


def test_digests_with_more_and_with_less_are_placed_by() -> None:
    schema, message = SCHEMAS[wire.DIGEST_TOPIC], of_this_release()[wire.DIGEST_TOPIC]
    several = [with_more(schema, message), *with_less(schema, message)]
    assert len(several) > 3
    for one in several:
        view = HostView(180.0)
        hear(view, json.dumps(one))
        assert view.get(message["host"]) is not None


def test_reports_with_more_and_with_less_are_stored() -> None:
    schema, message = SCHEMAS[wire.REPORT_TOPIC], of_this_release()[wire.REPORT_TOPIC]
    several = [with_more(schema, message), *with_less(schema, message)]
    for one in several:
        rows = rows_of(wire.decode(wire.REPORT_TOPIC, json.dumps(one)), NOW)
        assert len(rows.vps) == len(message["vps"])
