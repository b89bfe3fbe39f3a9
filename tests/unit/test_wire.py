# SPDX-License-Identifier: Apache-2.0
"""Messages: what is sent arrives, and whatever else comes is refused as a bad message."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_vp import wire
from tests.messages import a_digest, a_domain, a_report, digest_text, report_text

TOPICS = [wire.DIGEST_TOPIC, wire.REPORT_TOPIC]
VALID = {wire.DIGEST_TOPIC: a_digest(), wire.REPORT_TOPIC: a_report()}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_round_trip() -> None:
    assert wire.decode(wire.DIGEST_TOPIC, digest_text()) == a_digest()
    assert wire.decode(wire.REPORT_TOPIC, report_text()) == a_report()


@pytest.mark.parametrize("topic", TOPICS)
@given(value=json_values | st.binary() | st.text())
@settings(max_examples=200, deadline=None)
def test_decode_raises_nothing_but_bad_message(topic: str, value: Any) -> None:
    for candidate in (value, json.dumps(value) if not isinstance(value, bytes) else value):
        with pytest.raises(wire.BadMessage):
            wire.decode(topic, candidate)


@pytest.mark.parametrize("topic", TOPICS)
@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_bent_message_is_valid_or_bad(topic: str, data: st.DataObject) -> None:
    message = dict(VALID[topic])
    message[data.draw(st.sampled_from(sorted(message)))] = data.draw(json_values)
    text = json.dumps(message)
    try:
        decoded = wire.decode(topic, text)
    except wire.BadMessage:
        return
    assert json.loads(wire.encode(topic, decoded)) == decoded


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("not a text", b"{}"),
        ("nothing", None),
        ("not JSON", "{"),
        ("not an object", "[]"),
        ("NaN", digest_text().replace('"age_ms":0', '"age_ms":NaN')),
        ("hidden infinity", digest_text().replace('"age_ms":0', '"age_ms":1e999')),
        ("a number too long", digest_text().replace('"age_ms":0', '"age_ms":' + "1" * 3000)),
        ("deep nesting", '{"v":' + "[" * 1500 + "]" * 1500 + "}"),
        ("nested almost too deep", '{"v":' + "[" * 900 + "]" * 900 + "}"),
        ("a surrogate", digest_text().replace("vp1", "\ud800")),
        ("an escaped surrogate", digest_text().replace("vp1", "\\ud800")),
        ("a host that breaks the log line", digest_text().replace("vp1", "vp1\\n")),
        ("a host that climbs", digest_text().replace("vp1", "../vp1")),
        ("no host", digest_text().replace("vp1", "")),
        ("another version", json.dumps(a_digest(v=2))),
        ("a field more", json.dumps(a_digest(extra=1))),
        ("a boolean for a number", json.dumps(a_digest(seq=True))),
        ("negative", json.dumps(a_digest(age_ms=-1))),
        ("a short table", json.dumps(a_digest(domains=[a_domain() | {"strict": [0]}]))),
        ("more than all", json.dumps(a_digest(domains=[a_domain() | {"strict": [1001] * 10}]))),
        ("oversized", digest_text() + " " * wire.MAX_DIGEST_BYTES),
    ],
)
def test_hostile_digests_are_refused(label: str, text: object) -> None:
    with pytest.raises(wire.BadMessage):
        wire.decode(wire.DIGEST_TOPIC, text)


def test_an_oversized_report_is_refused_on_both_sides() -> None:
    report = a_report(actuator="x" * wire.MAX_REPORT_BYTES)
    with pytest.raises(wire.BadMessage):
        wire.encode(wire.REPORT_TOPIC, report)
    with pytest.raises(wire.BadMessage):
        wire.decode(wire.REPORT_TOPIC, json.dumps(report))


def test_what_json_cannot_say_is_not_sent() -> None:
    with pytest.raises(wire.BadMessage):
        wire.encode(wire.REPORT_TOPIC, a_report(at=float("nan")))


@pytest.mark.parametrize(
    ("one", "other", "is_newer"),
    [
        ((1, 2), (1, 1), True),
        ((1, 1), (1, 1), False),
        ((1, 1), (1, 2), False),
        ((2, 1), (1, 9), True),
        ((1, 9), (2, 1), False),
    ],
)
def test_order(one: tuple[int, int], other: tuple[int, int], is_newer: bool) -> None:
    assert wire.Order(*one).is_newer_than(wire.Order(*other)) is is_newer
    assert wire.Order(*one).is_newer_than(None)


@given(st.sets(st.uuids().map(str), max_size=150))
def test_known_servers_are_recognised(uuids: set[str]) -> None:
    marks = wire.unpack_known(wire.pack_known(uuids))
    assert {wire.mark_of(uuid.upper()) for uuid in uuids} == marks


@given(st.text(max_size=50))
def test_unpacking_raises_nothing_but_bad_message(text: str) -> None:
    with suppress(wire.BadMessage):
        wire.unpack_known(text)
