# SPDX-License-Identifier: Apache-2.0
"""Overlays, calls and answers as messages: what was written is read, what is hostile is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_vp import wire
from nova_vp.core.types.overlay import (
    ArbitrationClass,
    Call,
    CallAnswer,
    CallResource,
    Direction,
    Nack,
    Overlay,
    Verb,
)
from nova_vp.overlay_message import (
    CallMessage,
    answer_text,
    call_text,
    checksum,
    fault_of,
    overlays_text,
    read_answer,
    read_call,
    read_overlays,
)

WEB, DB = "11111111-2222-4333-8444-000000000001", "11111111-2222-4333-8444-000000000002"
SHOP = Overlay(
    id="aaaaaaaa-2222-4333-8444-000000000001",
    name="Läden",
    project_id="p" * 32,
    members=frozenset({WEB, DB}),
    priority=2.0,
    arbitration=ArbitrationClass.ROUND_ROBIN,
    target=250.0,
    target_unit="requests/s",
)
BLOG = Overlay("aaaaaaaa-2222-4333-8444-000000000002", "blog", "p2")
NOW_MS = 1_800_000_000_000
TUNE = Call("c-1", SHOP.id, Verb.TUNE, CallResource.MEMORY_SIZE, Direction.DOWN, WEB, lease_s=30.0)
TRIGGER = Call("c-2", SHOP.id, Verb.TRIGGER)
BORROW = Call("c-3", SHOP.id, Verb.BORROW, guest_uuid=DB, cpus=2, island="llc-1")
RELEASE = Call("c-4", SHOP.id, Verb.RELEASE)


def test_overlays_are_read_as_they_were_written() -> None:
    assert read_overlays(overlays_text(7, [SHOP, BLOG])) == (7, (SHOP, BLOG))
    assert read_overlays(overlays_text(8, [])) == (8, ())


def test_the_checksum_is_the_same_in_any_order_and_of_what_was_read() -> None:
    assert checksum([SHOP, BLOG]) == checksum([BLOG, SHOP])
    assert checksum([SHOP]) != checksum([SHOP._replace(members=frozenset({WEB}))])
    assert checksum([SHOP._replace(priority=2)]) == checksum([SHOP])
    assert checksum(read_overlays(overlays_text(7, [BLOG, SHOP]))[1]) == checksum([SHOP, BLOG])


def test_one_name_that_nobody_can_read_keeps_no_other_overlay_from_a_host() -> None:
    odd = BLOG._replace(name="a\u2028b\ud800", target_unit="\x07")
    _, (_, read) = read_overlays(overlays_text(7, [SHOP, odd]))
    assert (read.name, read.target_unit) == ("a?b?", "?")
    assert checksum([read]) == checksum([odd])


@pytest.mark.parametrize(
    "call",
    [
        TUNE,
        TUNE._replace(direction=Direction.UP),
        TRIGGER,
        BORROW,
        BORROW._replace(cpus=1),
        RELEASE,
    ],
    ids=lambda call: call.verb,
)
def test_calls_are_read_as_they_were_written(call: Call) -> None:
    message = CallMessage(call, "p1", NOW_MS)
    assert read_call(call_text(message)) == message


def test_servers_and_overlays_are_the_same_in_capitals() -> None:
    web, overlay_id = "AAAAAAAA-2222-4333-8444-00000000000B", SHOP.id.upper()
    call = TUNE._replace(guest_uuid=web, overlay_id=overlay_id)
    read = read_call(call_text(CallMessage(call, "p1", NOW_MS))).call
    assert (read.guest_uuid, read.overlay_id) == (web.lower(), SHOP.id)
    shop = SHOP._replace(id=overlay_id, members=frozenset({web}))
    _, [found] = read_overlays(overlays_text(7, [shop]))
    assert found == SHOP._replace(members=frozenset({web.lower()}))


def test_a_call_ages_from_when_it_was_sent() -> None:
    message = CallMessage(TUNE, "p1", NOW_MS)
    assert message.age_s(NOW_MS + 2500) == 2.5
    assert message.age_s(NOW_MS - 60_000) == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        CallAnswer("c-1", None, "cap of web-1: 1.5 -> 2 CPUs", 30.0),
        CallAnswer("c-1", None),
        *(CallAnswer("c-1", nack, "why") for nack in Nack),
    ],
)
def test_answers_are_read_as_they_were_written(answer: CallAnswer) -> None:
    assert read_answer(answer_text(answer)) == answer


def test_what_an_agent_answers_obeys_no_terminal() -> None:
    text = answer_text(CallAnswer("c-1", None, "done\n2026 ERROR \x1b[2J"))
    assert read_answer(text).detail == "done?2026 ERROR ?[2J"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (TUNE._replace(guest_uuid=""), "tune: name one server"),
        (BORROW._replace(guest_uuid=""), "borrow: name one server"),
        (BORROW._replace(cpus=0), "borrow: give cpus"),
        (TUNE._replace(cpus=1), "tune: cpus and island are of borrow alone"),
        (TRIGGER._replace(island="llc-1"), "trigger: cpus and island are of borrow alone"),
        (TRIGGER._replace(resource=CallResource.MEMORY_SIZE), "trigger: its resource is cpu"),
        (BORROW._replace(direction=Direction.DOWN), "borrow: a direction is of tune alone"),
        (RELEASE._replace(lease_s=5.0), "release: it has no lease"),
    ],
)
def test_what_no_call_can_mean_is_refused_with_what_to_give(call: Call, words: str) -> None:
    assert words in (fault_of(call) or "")
    with pytest.raises(wire.BadMessage, match=words):
        read_call(call_text(CallMessage(call, "p1", NOW_MS)))


def with_overlay(**changes: Any) -> str:
    message = json.loads(overlays_text(7, [SHOP]))
    message["overlays"][0].update(changes)
    return json.dumps(message)


OVERLAYS_REFUSED = {
    "no text": None,
    "no JSON": "{",
    "another version": json.dumps({"v": 2, "version": 1, "overlays": []}),
    "a negative version": json.dumps({"v": 1, "version": -1, "overlays": []}),
    "an overlay twice": overlays_text(7, [BLOG, BLOG._replace(members=frozenset({WEB}))]),
    "a server twice": overlays_text(7, [SHOP, BLOG._replace(members=frozenset({DB}))]),
    "no id": with_overlay(id="../etc"),
    "no project": with_overlay(project_id=""),
    "a name that ends a line": with_overlay(name="a\nb"),
    "a long name": with_overlay(name="x" * 256),
    "a unit that rings": with_overlay(target_unit="\x07"),
    "no member": with_overlay(members=["x"]),
    "very many members": with_overlay(members=[WEB] * (wire.MAX_SERVERS + 1)),
    "too high a priority": with_overlay(priority=wire.MAX_PRIORITY + 1),
    "an unknown class": with_overlay(arbitration="first"),
    "NaN": with_overlay(target=1).replace('"target": 1', '"target": NaN'),
    "an infinite target": with_overlay(target=1).replace('"target": 1', '"target": 1e999'),
    "too large": " " * wire.MAX_OVERLAYS_BYTES + overlays_text(7, []),
}


@pytest.mark.parametrize("text", OVERLAYS_REFUSED.values(), ids=OVERLAYS_REFUSED.keys())
def test_what_are_no_overlays_is_refused(text: object) -> None:
    with pytest.raises(wire.BadMessage):
        read_overlays(text)


def with_call(**changes: Any) -> str:
    return json.dumps({**json.loads(call_text(CallMessage(BORROW, "p1", NOW_MS))), **changes})


CALLS_REFUSED = {
    "no text": b"{}",
    "nothing": "{}",
    "no id": with_call(id=""),
    "an id with a line end": with_call(id="a\n"),
    "a long id": with_call(id="x" * 65),
    "no overlay": with_call(overlay_id="shop"),
    "an unknown verb": with_call(verb="destroy"),
    "half a CPU": with_call(cpus=0.5),
    "very many CPUs": with_call(cpus=wire.MOST_CPUS + 1),
    "fewer than no CPUs": with_call(cpus=-1),
    "an island that is a path": with_call(island="../0"),
    "no lease": with_call(lease_s=0),
    "an endless lease": with_call(lease_s=wire.MOST_LEASE_S + 1),
    "no moment": with_call(sent_at_ms=None),
    "too large": with_call() + " " * wire.MAX_OVERLAY_CALL_BYTES,
}


@pytest.mark.parametrize("text", CALLS_REFUSED.values(), ids=CALLS_REFUSED.keys())
def test_what_is_no_call_is_refused(text: object) -> None:
    with pytest.raises(wire.BadMessage):
        read_call(text)


def test_what_is_no_answer_is_refused() -> None:
    good = json.loads(answer_text(CallAnswer("c-1", Nack.NO_ROOM)))
    for wrong in ({"nack": "never"}, {"lease_s": -1}, {"detail": "x" * 1025}):
        with pytest.raises(wire.BadMessage):
            read_answer(json.dumps({**good, **wrong}))


def test_more_than_receivers_take_is_not_sent() -> None:
    many = [BLOG._replace(id=f"{n:036d}", name="x" * 255) for n in range(wire.MAX_SERVERS)]
    with pytest.raises(wire.BadMessage, match="bytes"):
        overlays_text(1, many)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_whatever_a_field_holds_is_read_or_refused(value: Any) -> None:
    for name in json.loads(with_call()):
        try:
            read_call(with_call(**{name: value}))
        except wire.BadMessage:
            continue
