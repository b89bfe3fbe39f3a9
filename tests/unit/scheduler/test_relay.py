# SPDX-License-Identifier: Apache-2.0
"""What a vp-scheduler makes of calls that hosts make for servers elsewhere: who may, who is asked,
and what each failure is answered with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import oslo_messaging
import pytest
from oslo_db import exception as db_exception

from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Verb
from nova_vp.db.records import VpHead
from nova_vp.overlay_message import CallMessage, answer_text, read_call
from nova_vp.overlay_waits import AT_ONCE, SILENT_S
from vp_scheduler.escalation.nova_client import NoCloud, NotAllowed, NovaAway, Server, ServerGone
from vp_scheduler.relay.confirmed_hosts import CONFIRMED_S, REFUSED_S, ConfirmedHosts
from vp_scheduler.relay.relay import MOST_HOSTS, Foreign, Overlay, Relay

SHOP = "00000000-0000-4000-8000-00000000000a"
WEB, DB, CACHE, GONE = (f"11111111-0000-4000-8000-00000000000{n}" for n in "1234")
NOW_S = 1_800_000_000.0
CALLS_PER_S = 4.0


class Nova:
    """Says where servers are."""

    def __init__(self, hosts: dict[str, str]) -> None:
        self.hosts = hosts
        self.asked = 0
        self.failure: Exception | None = None

    def look(self, project_id: str, server: str) -> Server:
        self.asked += 1
        if self.failure:
            raise self.failure
        if project_id != "p1" or server not in self.hosts:
            raise ServerGone(server)
        return Server("ACTIVE", None, False, self.hosts[server], False)


def head(uuid: str, host: str, age_s: float = 1.0) -> VpHead:
    at = datetime.fromtimestamp(NOW_S, UTC) - timedelta(seconds=age_s)
    return VpHead(uuid, host, "p1", uuid, "soft", None, None, None, None, at, "")


@dataclass
class Scene:
    """The shop: WEB on vp1, DB on vp2, CACHE on vp3, GONE nowhere."""

    members: dict[str, VpHead | None] = field(
        default_factory=lambda: {
            WEB: head(WEB, "vp1"),
            DB: head(DB, "vp2"),
            CACHE: head(CACHE, "vp3"),
            GONE: None,
        }
    )
    now_s: float = NOW_S
    asked: list[tuple[str, CallMessage]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    """By host: an answer, or what is raised; absent: it is granted."""
    nova: Any = None
    failure: Exception | None = None
    """Of the database."""
    calls_per_s: float = CALLS_PER_S

    def __post_init__(self) -> None:
        self.nova = self.nova or Nova({WEB: "vp1", DB: "vp2", CACHE: "vp3"})
        self.relay = Relay(
            self,
            ConfirmedHosts(self.nova, lambda: self.now_s),
            self,
            calls_per_s=self.calls_per_s,
            stale_after_s=180.0,
            clock=lambda: self.now_s,
        )

    def find(self, overlay_id: str, project_id: str) -> Overlay | None:
        if self.failure:
            raise self.failure
        is_known = (overlay_id, project_id) == (SHOP, "p1")
        return Overlay(SHOP, "p1", self.members) if is_known else None

    def call_overlay(self, host: str, text: str) -> str:
        message = read_call(text)
        self.asked.append((host, message))
        answer = self.answers.get(host, CallAnswer("", None, "its weight was raised", 5.0))
        if isinstance(answer, Exception):
            raise answer
        return answer_text(answer._replace(call_id=answer.call_id or message.call.id))

    def call(
        self, server: str = DB, host: str = "vp1", project_id: str = "p1", **about: Any
    ) -> CallAnswer:
        asked = Call("c1", SHOP, Verb.TRIGGER, guest_uuid=server)._replace(**about)
        return self.relay.answer(host, CallMessage(asked, project_id, int(self.now_s * 1000)))

    @property
    def hosts(self) -> list[str]:
        return sorted(host for host, _ in self.asked)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_call_goes_to_the_host_of_its_server_and_its_answer_comes_back(scene: Scene) -> None:
    assert scene.call(DB, lease_s=7.0) == CallAnswer("c1", None, "vp2: done", 5.0)
    [(host, message)] = scene.asked
    assert (host, message.call.guest_uuid, message.call.lease_s) == ("vp2", DB, 7.0)
    assert message.project_id == "p1"


def test_a_call_for_all_goes_to_every_other_host(scene: Scene) -> None:
    scene.answers["vp3"] = CallAnswer("", None, "", 2.0)
    told = scene.call("")
    assert (told.nack, told.lease_s, scene.hosts) == (None, 2.0, ["vp2", "vp3"])
    scene.answers["vp3"] = CallAnswer("", Nack.NO_CREDIT, "island llc-7 of vp3")
    told = scene.call("")
    assert told.nack is Nack.NO_CREDIT
    assert told.detail == "vp2: done; vp3: refused: no-credit", "what vp3 says of itself stays"


def test_all_elsewhere_where_nothing_is_elsewhere(scene: Scene) -> None:
    scene.members = {WEB: head(WEB, "vp1")}
    assert scene.call("").nack is None
    assert scene.asked == []


def test_an_overlay_on_too_many_hosts_is_called_for_single_servers(scene: Scene) -> None:
    many = {f"{n:08}-0000-4000-8000-000000000000": f"h{n}" for n in range(MOST_HOSTS + 1)}
    scene.members |= {uuid: head(uuid, host) for uuid, host in many.items()}
    assert scene.call("").nack is Nack.HOST_REFUSED
    assert scene.asked == []


@pytest.mark.parametrize("about", [{"host": "vp9"}, {"project_id": "p2"}, {"overlay_id": DB}])
def test_a_host_calls_for_overlays_that_have_a_server_there_alone(
    scene: Scene, about: dict[str, str]
) -> None:
    with pytest.raises(Foreign):
        scene.call(**about)
    assert scene.asked == []


def test_a_host_that_only_says_it_has_a_server_of_the_overlay(scene: Scene) -> None:
    """The newest report wins: WEB is stolen, by reports."""
    scene.members[WEB] = head(WEB, "vp9")
    with pytest.raises(Foreign):
        scene.call(host="vp9")
    assert scene.asked == []


def test_a_host_that_only_says_it_has_the_server_is_not_called(scene: Scene) -> None:
    scene.members[DB] = head(DB, "vp9")
    assert scene.call(DB).nack is Nack.NOT_A_MEMBER
    assert scene.asked == []


def test_nova_is_asked_once_for_each_server_for_some_minutes(scene: Scene) -> None:
    for _ in range(3):
        assert scene.call().nack is None
    assert scene.nova.asked == 2, "for WEB and for DB"
    scene.now_s += CONFIRMED_S
    for uuid, host in ((WEB, "vp1"), (DB, "vp2")):
        scene.members[uuid] = head(uuid, host, -CONFIRMED_S)
    assert scene.call().nack is None
    assert scene.nova.asked == 4


def test_a_server_that_migrates_is_called_where_nova_says_it_is(scene: Scene) -> None:
    assert scene.call(DB).nack is None
    scene.members[DB] = head(DB, "vp3")
    assert scene.call(DB).nack is Nack.NOT_A_MEMBER, "it is on its way"
    scene.nova.hosts[DB] = "vp3"
    scene.now_s += REFUSED_S
    assert scene.call(DB).nack is None
    assert [host for host, _ in scene.asked] == ["vp2", "vp3"]


@pytest.mark.parametrize(
    ("failure", "nack"),
    [(NovaAway("no answer"), Nack.UNREACHABLE), (NotAllowed("no role"), Nack.DISABLED)],
)
def test_without_novas_word_nobody_is_called(scene: Scene, failure: Exception, nack: Nack) -> None:
    scene.nova.failure = failure
    assert [scene.call().nack for _ in range(2)] == [nack, nack]
    assert scene.asked == []


def test_nova_that_is_away_is_not_asked_by_every_call(scene: Scene) -> None:
    scene.nova.failure = NovaAway("no answer")
    assert {scene.call().nack for _ in range(3)} == {Nack.UNREACHABLE}
    assert scene.nova.asked == 1
    scene.nova.failure = None
    scene.now_s += REFUSED_S
    assert scene.call().nack is None


def test_without_a_cloud_hosts_do_not_call_for_others() -> None:
    told = Scene(nova=NoCloud()).call()
    assert (told.nack, "[cloud]" in told.detail) == (Nack.DISABLED, True)


def test_an_operator_may_have_no_calls_between_hosts() -> None:
    told = Scene(calls_per_s=0.0).call()
    assert (told.nack, "overlay_calls_per_s" in told.detail) == (Nack.DISABLED, True)


def test_a_server_that_nobody_reports_and_one_of_another_overlay(scene: Scene) -> None:
    for uuid in (GONE, SHOP):
        assert scene.call(uuid).nack is Nack.NOT_A_MEMBER
    assert scene.asked == []


def test_no_host_names_an_island_of_another(scene: Scene) -> None:
    about = {"verb": Verb.BORROW, "cpus": 1, "island": "llc-0"}
    assert scene.call(**about).nack is Nack.UNKNOWN_ISLAND
    assert scene.asked == []


def test_an_overlay_has_a_rate(scene: Scene) -> None:
    nacks = [scene.call().nack for _ in range(int(CALLS_PER_S) + 20)]
    assert nacks[: int(CALLS_PER_S)] == [None] * int(CALLS_PER_S)
    assert nacks[-1] is Nack.TOO_MANY_CALLS


def test_a_call_that_was_sent_long_ago_is_not_carried_out(scene: Scene) -> None:
    call = Call("c1", SHOP, Verb.TRIGGER, guest_uuid=DB)
    told = scene.relay.answer("vp1", CallMessage(call, "p1", int(NOW_S * 1000) - 10_001))
    assert (told.nack, "clocks" in told.detail) == (Nack.HOST_REFUSED, True)
    assert scene.asked == []


def test_a_repeated_call_has_one_id_there_which_no_other_host_can_use_up(scene: Scene) -> None:
    scene.call(CACHE)
    scene.call(CACHE)
    scene.call(CACHE, host="vp2")
    first, again, other = (message.call.id for _, message in scene.asked)
    assert first == again != other
    assert first != "c1", "an application that calls by vp-api may use that one"


@pytest.mark.parametrize(
    "failure",
    [
        oslo_messaging.MessagingTimeout("no answer within 5 s"),
        oslo_messaging.MessageDeliveryFailure("the broker is away"),
        oslo_messaging.RemoteError("KeyError", "no such method"),
        CallAnswer("another", None),
    ],
)
def test_a_host_that_does_not_answer_is_unreachable_and_the_others_are_served(
    scene: Scene, failure: Any
) -> None:
    scene.answers["vp2"] = failure
    told = scene.call("")
    assert told.nack is Nack.UNREACHABLE
    assert "vp3: done" in told.detail


def test_a_silent_host_keeps_nobody_waiting_again(scene: Scene) -> None:
    scene.answers["vp2"] = oslo_messaging.MessagingTimeout("silent")
    assert [scene.call().nack for _ in range(3)] == [Nack.UNREACHABLE] * 3
    assert scene.hosts == ["vp2"]
    scene.answers.clear()
    scene.now_s += SILENT_S
    assert scene.call().nack is None


def test_a_host_that_stopped_reporting_is_not_waited_for(scene: Scene) -> None:
    scene.members[DB] = head(DB, "vp2", 181.0)
    assert scene.call().nack is Nack.UNREACHABLE
    assert scene.asked == []


def test_without_the_database_nobody_is_called(scene: Scene) -> None:
    scene.failure = db_exception.DBConnectionError()
    told = scene.call()
    assert (told.nack, told.detail) == (Nack.UNREACHABLE, "the database does not answer")


def test_a_project_keeps_so_many_calls_waiting(scene: Scene) -> None:
    """Each is made while the one before waits for its agent."""
    told: list[Nack | None] = []
    begun = []
    real: Callable[[str, str], str] = scene.call_overlay

    def call_overlay(host: str, text: str) -> str:
        if len(begun) < AT_ONCE:
            begun.append(host)
            told.append(scene.call().nack)
        return real(host, text)

    scene.call_overlay = call_overlay  # type: ignore[method-assign]
    assert scene.call().nack is None
    assert told == [Nack.TOO_MANY_CALLS, None]
