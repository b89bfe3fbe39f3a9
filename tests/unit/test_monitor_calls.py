# SPDX-License-Identifier: Apache-2.0
"""Calls of monitors on a host: which the agent answers, and which a vp-scheduler has answered."""

from dataclasses import dataclass, field

import pytest

from nova_vp import wire
from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Overlay, Verb
from nova_vp.overlay_message import CallMessage, answer_text, read_call
from vp_agent.loop.monitor_calls import SILENT_S, MonitorCall, MonitorCalls, NoAnswer

SHOP, NOBODYS = (f"00000000-0000-4000-8000-00000000000{n}" for n in "ab")
WEB, DB = (f"11111111-0000-4000-8000-00000000000{n}" for n in "12")
NOW_S = 1_800_000_000.0


@dataclass
class Host:
    """WEB is here, DB elsewhere."""

    now_s: float = 0.0
    here: list[Call] = field(default_factory=list)
    there: list[CallMessage] = field(default_factory=list)
    answers: dict[str, CallAnswer] = field(default_factory=dict)
    """What is said `here` and `there`; absent: it is granted."""
    failure: Exception | None = None
    """Of vp-scheduler."""

    def __post_init__(self) -> None:
        shop = Overlay(SHOP, "shop", "p1", frozenset({WEB}))
        self.calls = MonitorCalls(
            self.answer_here, lambda: {SHOP: shop}, self, lambda: NOW_S, lambda: self.now_s
        )

    def answer_here(self, call: Call) -> CallAnswer:
        self.here.append(call)
        return self.answers.get("here", CallAnswer("", None, "raised", 5.0))._replace(
            call_id=call.id
        )

    def call_elsewhere(self, text: str) -> str:
        if self.failure:
            raise self.failure
        self.there.append(read_call(text))
        answer = self.answers.get("there", CallAnswer("", None, "vp2: done", 3.0))
        return answer_text(answer._replace(call_id=answer.call_id or self.there[-1].call.id))

    def call(self, server: str = "", of: str = SHOP, everywhere: bool = False) -> CallAnswer:
        asked = Call("c1", of, Verb.TRIGGER, guest_uuid=server, lease_s=3.0)
        return self.calls.answer(MonitorCall(asked, everywhere))


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_call_for_a_server_here_and_for_all_here_asks_nobody_else(host: Host) -> None:
    assert host.call(WEB).detail == "raised"
    assert host.call().detail == "raised"
    assert (len(host.here), host.there) == (2, [])


def test_a_call_for_a_server_elsewhere_is_a_vp_schedulers_to_answer(host: Host) -> None:
    assert host.call(DB) == CallAnswer("c1", None, "vp2: done", 3.0)
    [message] = host.there
    assert (message.call.guest_uuid, message.project_id) == (DB, "p1")
    assert (message.call.id, message.call.lease_s) == ("c1", 3.0)
    assert (message.sent_at_ms, host.here) == (NOW_S * 1000, [])


def test_an_overlay_that_has_no_server_here_is_called_by_nobody_here(host: Host) -> None:
    host.answers["here"] = CallAnswer("", Nack.UNKNOWN_OVERLAY)
    assert host.call(DB, of=NOBODYS).nack is Nack.UNKNOWN_OVERLAY
    assert host.call(of=NOBODYS, everywhere=True).nack is Nack.UNKNOWN_OVERLAY
    assert host.there == []


def test_a_call_everywhere_is_granted_by_all_and_stands_while_all_of_it_does(host: Host) -> None:
    told = host.call(everywhere=True)
    assert told == CallAnswer("c1", None, "here: raised; elsewhere: vp2: done", 3.0)
    assert (len(host.here), len(host.there)) == (1, 1)
    for where in ("here", "there"):
        host.answers = {where: CallAnswer("", Nack.NO_CREDIT)}
        assert host.call(everywhere=True).nack is Nack.NO_CREDIT


def test_without_a_vp_scheduler_this_host_is_served_and_nobody_waits_twice(host: Host) -> None:
    host.failure = NoAnswer("vp-scheduler: no answer within 6 s")
    told = host.call(DB)
    assert (told.nack, told.detail) == (Nack.UNREACHABLE, "vp-scheduler: no answer within 6 s")
    host.failure = None
    assert host.call(DB).nack is Nack.UNREACHABLE
    told = host.call(everywhere=True)
    assert (told.nack, "here: raised" in told.detail) == (Nack.UNREACHABLE, True)
    assert host.call(WEB).nack is None
    assert host.there == []
    host.now_s += SILENT_S
    assert host.call(DB).nack is None


def test_what_vp_scheduler_refuses_or_answers_wrongly_is_a_refusal(host: Host) -> None:
    host.failure = wire.BadMessage("vp1: not among known_hosts")
    assert host.call(DB) == CallAnswer("c1", Nack.HOST_REFUSED, "vp1: not among known_hosts")
    host.failure = None
    host.answers["there"] = CallAnswer("c2", None)
    assert host.call(DB).nack is Nack.HOST_REFUSED
