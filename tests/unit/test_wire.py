# SPDX-License-Identifier: Apache-2.0
"""Messages: what is sent arrives, and whatever else comes is refused as a bad message."""

import json
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_vp import wire
from tests.decisions import a_decision, a_node, a_view, an_action, an_eventful_view, facts
from tests.decisions import an_escalation as a_core_escalation
from tests.messages import (
    VICTIM,
    a_digest,
    a_domain,
    a_report,
    a_usage,
    an_escalation,
    digest_text,
    escalation_text,
    report_text,
    usage_text,
)
from tests.open_schema import opened
from vp_agent.publish.report import report

TOPICS = [wire.DIGEST_TOPIC, wire.REPORT_TOPIC, wire.ESCALATION_TOPIC, wire.USAGE_TOPIC]
VALID = {
    wire.DIGEST_TOPIC: a_digest(),
    wire.REPORT_TOPIC: a_report(),
    wire.ESCALATION_TOPIC: an_escalation(),
    wire.USAGE_TOPIC: a_usage(),
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_round_trip() -> None:
    assert wire.decode(wire.DIGEST_TOPIC, digest_text()) == a_digest()
    assert wire.decode(wire.REPORT_TOPIC, report_text()) == a_report()
    assert wire.decode(wire.ESCALATION_TOPIC, escalation_text()) == an_escalation()
    assert wire.decode(wire.USAGE_TOPIC, usage_text()) == a_usage()


@pytest.mark.parametrize("topic", TOPICS)
@given(value=json_values | st.binary() | st.text())
@settings(max_examples=200)
def test_decode_raises_nothing_but_bad_message(topic: str, value: Any) -> None:
    for candidate in (value, json.dumps(value) if not isinstance(value, bytes) else value):
        with pytest.raises(wire.BadMessage):
            wire.decode(topic, candidate)


@pytest.mark.parametrize("topic", TOPICS)
@given(data=st.data())
@settings(max_examples=300)
def test_a_bent_message_is_valid_or_bad(topic: str, data: st.DataObject) -> None:
    message = dict(VALID[topic])
    message[data.draw(st.sampled_from(sorted(message)))] = data.draw(json_values)
    text = json.dumps(message)
    try:
        decoded = wire.decode(topic, text)
    except wire.BadMessage:
        return
    assert json.loads(wire.encode(topic, decoded)) == decoded


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) within a message."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, inner in pairs:
        found.append((value, key))
        if isinstance(inner, dict | list):
            found += places(inner)
    return found


FULL = wire.decode(
    wire.REPORT_TOPIC,
    wire.encode(
        wire.REPORT_TOPIC,
        report(
            a_decision(
                a_view(1, state=None),
                an_eventful_view(2),
                proposals=(an_action(),),
                nodes=(a_node(),),
                escalations=(a_core_escalation(),),
            ),
            facts(),
            wire.MessageVersion(1, 1),
        ),
    ),
)
ODD_KEYS = ["x", "", "{}", "{name}", "%s", "\n", '"', "\\", "vps[0]", "k" * 5000]


@given(data=st.data())
@settings(max_examples=400)
def test_the_compiled_check_refuses_what_the_schema_refuses(data: st.DataObject) -> None:
    message = json.loads(json.dumps(FULL))
    for _ in range(data.draw(st.integers(0, 2))):
        container, key = data.draw(st.sampled_from(places(message)))
        if isinstance(container, dict) and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(ODD_KEYS))
        odd = st.sampled_from([None, True, 0, 1, -1, 1.0, 0.5, "", "x", [], {}, 2**53 + 1, 9])
        container[key] = data.draw(odd | json_values)
    try:
        text = json.dumps(message, allow_nan=False)
    except ValueError:
        return
    if jsonschema.Draft7Validator(wire.REPORT_SCHEMA).is_valid(message):
        assert wire.decode(wire.REPORT_TOPIC, text) == message
        return
    if jsonschema.Draft7Validator(opened(wire.REPORT_SCHEMA)).is_valid(message):
        assert wire.decode(wire.REPORT_TOPIC, text) != message, "unknown fields are left out"
        return
    with pytest.raises(wire.BadMessage) as refusal:
        wire.decode(wire.REPORT_TOPIC, text)
    assert len(str(refusal.value)) < 400
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize(
    ("learned", "is_valid"),
    [
        ([], True),
        ([["m1.small", "", 4]], True),
        ([["m1.small", None, 4]], True),
        ([[None, "", 4]], False),
        ([["m1.small", "", 9]], False),
        ([["m1.small", "", True]], False),
        ([["m1.small", ""]], False),
        ([["m1.small", "", 4, 4]], False),
        ([["m1.small", 4, ""]], False),
        (["m1.small"], False),
    ],
)
def test_profiles(learned: list[Any], is_valid: bool) -> None:
    message = {"v": wire.VERSION, "sent": 1.8e9, "learned": learned}
    text = wire.encode(wire.PROFILES, message)
    if is_valid:
        assert wire.decode(wire.PROFILES, text) == message
    else:
        with pytest.raises(wire.BadMessage):
            wire.decode(wire.PROFILES, text)


def test_a_refusal_says_where_and_what() -> None:
    bad = json.loads(json.dumps(FULL))
    bad["vps"][1]["interference"]["suspects"][0]["uuid"] = 7
    with pytest.raises(wire.BadMessage) as refusal:
        wire.decode(wire.REPORT_TOPIC, json.dumps(bad))
    where = "$.vps[1].interference.suspects[0].uuid"
    assert str(refusal.value) == f"vp_report: {where}: violates type"


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


def test_a_message_of_the_largest_size_is_sent_and_read() -> None:
    spare = wire.MAX_DIGEST_BYTES - len(digest_text(known=[], classes=""))
    largest = digest_text(known=[], classes="x" * spare)
    assert len(largest) == wire.MAX_DIGEST_BYTES
    assert wire.decode(wire.DIGEST_TOPIC, largest)["classes"] == "x" * spare
    with pytest.raises(wire.BadMessage, match=r"^vp_digest: 4097 bytes, at most 4096 are sent$"):
        digest_text(known=[], classes="x" * (spare + 1))


@pytest.mark.parametrize(
    ("text", "number"), [("3.0", 3), ("9007199254740992.0", 2**53), ("0.0", 0), ("2.5e1", 25)]
)
def test_a_whole_number_is_read_as_one_however_it_is_written(text: str, number: int) -> None:
    told = digest_text().replace('"age_ms":0', f'"age_ms":{text}')
    age_ms = wire.decode(wire.DIGEST_TOPIC, told)["age_ms"]
    assert (type(age_ms), age_ms) == (int, number)


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
    assert wire.MessageVersion(*one).is_newer_than(wire.MessageVersion(*other)) is is_newer
    assert wire.MessageVersion(*one).is_newer_than(None)


@given(st.dictionaries(st.uuids().map(str), st.integers(0, wire.UNKNOWN_CLASS), max_size=150))
def test_known_servers_are_recognised_with_their_class(class_of: dict[str, int]) -> None:
    known = wire.unpack_known(wire.pack_known(class_of))
    marks = wire.split_marks(known)
    assert {wire.mark_of(uuid.upper()) for uuid in class_of} == set(marks)
    told = dict(zip(marks, wire.unpack_classes(wire.pack_classes(class_of), known), strict=True))
    for uuid, newcomer_class in class_of.items():
        assert told[wire.mark_of(uuid)] in (newcomer_class, wire.UNKNOWN_CLASS)
    if len(marks) == len(class_of):
        assert told == {wire.mark_of(uuid): number for uuid, number in class_of.items()}


def test_of_servers_with_one_mark_nothing_is_said() -> None:
    first, second = (f"{n:08x}-0000-4000-8000-000000000000" for n in (0x1E8, 0x886))
    assert wire.mark_of(first) == wire.mark_of(second)
    known = wire.marks_of([first, second])
    assert wire.unpack_classes(wire.pack_classes({first: 1, second: 8}), known) == b"\x09"
    assert wire.unpack_classes(wire.pack_classes({first: 8, second: 8}), known) == b"\x08"


def test_a_class_that_is_not_known_here_is_unknown() -> None:
    assert wire.unpack_classes("9w==", bytes(4)) == bytes([wire.UNKNOWN_CLASS, 7])


def test_a_mark_is_the_same_in_every_release() -> None:
    """Each host says it of its servers, and each scheduler looks for it: those may be older."""
    assert wire.pack_known([VICTIM]) == "GcA="
    assert wire.mark_of("AAAAAAAA-2222-4333-8444-000000000001") == bytes.fromhex("48d7")


@pytest.mark.parametrize("text", ["AA==", "AAAA", "#", "GcA=#"])
def test_what_are_no_marks_is_refused(text: str) -> None:
    with pytest.raises(wire.BadMessage):
        wire.unpack_known(text)


@pytest.mark.parametrize(
    ("domain_ids", "seat"),
    [([], wire.NOWHERE), ([0], 0), ([125], 125), ([126], wire.SEVERAL), ([0, 1], wire.SEVERAL)],
)
def test_a_seat_is_the_number_of_the_only_domain(domain_ids: list[int], seat: int) -> None:
    assert wire.seat_of(domain_ids, is_strict=False) == seat
    strict = wire.seat_of(domain_ids, is_strict=True)
    assert strict == (seat | wire.STRICT_SEAT if domain_ids else wire.NOWHERE)


@pytest.mark.parametrize("text", ["", "AA==", "AAAA", "#"])
def test_classes_that_do_not_match_the_known_servers_are_refused(text: str) -> None:
    with pytest.raises(wire.BadMessage):
        wire.unpack_classes(text, bytes(6))


@given(st.text(max_size=50))
def test_unpacking_raises_nothing_but_bad_message(text: str) -> None:
    with suppress(wire.BadMessage):
        wire.split_marks(wire.unpack_known(text))
    with suppress(wire.BadMessage):
        wire.unpack_classes(text, bytes(20))


ISLAND = {
    "name": "llc-0",
    "kind": "fair",
    "cpus": "0-4",
    "own_cpus": "0-3",
    "cap_cpus": None,
    "servers": [VICTIM],
}
LOAN = {"cpu": 4, "lender": "llc-1", "overlay_id": None}
OVERLAY = {
    "id": VICTIM,
    "borrowed_cpus": 1,
    "boosted": [VICTIM],
    "credit_ratio": 0.5,
    "granted": 3,
    "refused": 1,
}


@pytest.mark.parametrize(
    ("fields", "is_valid"),
    [
        ({"overlays_told": {"version": 7, "checksum": "ab"}, "overlays": [OVERLAY]}, True),
        ({"islands": [ISLAND, {**ISLAND, "cap_cpus": 1.5}]}, True),
        ({"islands": [{**ISLAND, "nodes": [0], "borrowed": [LOAN]}]}, True),
        ({"islands": [{**ISLAND, "borrowed": [{**LOAN, "overlay_id": "x"}]}]}, False),
        ({"overlays": [{**OVERLAY, "credit_ratio": 1.1}]}, False),
        ({"islands": [{**ISLAND, "name": ""}]}, False),
        ({"islands": [{**ISLAND, "kind": "magic"}]}, False),
    ],
)
def test_a_report_may_say_what_islands_and_overlays_hold(
    fields: dict[str, Any], is_valid: bool
) -> None:
    report = a_report(**fields)
    if is_valid:
        assert wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, report)) == report
    else:
        with pytest.raises(wire.BadMessage):
            wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, report))
