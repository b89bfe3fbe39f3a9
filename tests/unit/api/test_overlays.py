# SPDX-License-Identifier: Apache-2.0
"""Overlays through the API: whose they are, how many there may be, who is told, and how calls are
answered; and all that a tenant may try to learn of others or to keep them from."""

import itertools
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest

from nova_vp import wire
from nova_vp.core.types.overlay import (
    ArbitrationClass,
    Call,
    CallAnswer,
    CallResource,
    Direction,
    Nack,
    Verb,
)
from nova_vp.overlay_waits import AT_ONCE, AT_ONCE_OF_HOST, SILENT_S, SLOW_S
from nova_vp.registered_overlay import group_overlay_id
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from tests.unit.api.oracle import leaks_of
from tests.unit.api.stored import filled_like_the_cloud
from tests.waiting import wait_until
from vp_api.views.overlays import TENANT_NACKS

ADMIN, MEMBER, READER = Persona("admin"), Persona("member"), Persona("reader")
FOREIGN = Persona("member", cloud.BETA)
ONE = f"/v1/overlays/{cloud.OVERLAY}"
CALLS = f"{ONE}/calls"
TIERS = "dddddddd-1111-4111-8111-111111111111"
SHOP = group_overlay_id(cloud.ALPHA, "shop")
TUNE = {"verb": "tune", "server_id": cloud.VICTIM}
CONF = "[vp_api]\noverlays_per_project = 2\nservers_per_overlay = 2\noverlay_requests_per_s = {}\n"


def code_of(answer: Any) -> str:
    (fault,) = answer.json["errors"]
    return str(fault["code"]).removeprefix("performance-isolation.")


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def limited(tmp_path) -> Api:
    """Two overlays of two servers, twenty requests in a second."""
    file = tmp_path / "nova-vp.conf"
    file.write_text(CONF.format(20))
    return Api(files=[str(file)])


def two_hosts() -> Api:
    """`victim` and a server of its group on lab-1, one of it on lab-3."""
    group = {"project_id": cloud.ALPHA, **cloud.asked("shop")}
    here = [cloud.a_vp(uuid=uuid, name=f"s{n}", **group) for n, uuid in enumerate((TIERS, VICTIM))]
    there = cloud.a_vp(uuid=cloud.SLEEPER, name="s3", **group)
    return Api([cloud.a_record("lab-1", vps=here), cloud.a_record("lab-3", vps=[there])])


VICTIM = cloud.VICTIM


def test_a_project_sees_its_own_overlays_without_hosts(api):
    told = api.latest(READER, "/v1/overlays").json["overlays"]
    assert [one["name"] for one in told] == ["checkout"]
    assert told[0]["servers"] == [
        {"server_id": VICTIM, "name": "victim", "is_reported": True},
        {"server_id": cloud.SLEEPER, "name": "sleeper", "is_reported": True},
    ]
    assert api.latest(FOREIGN, "/v1/overlays").json["overlays"] == []
    assert api.latest(Persona("nobody"), "/v1/overlays").json["overlays"] == []
    (full,) = api.latest(ADMIN, "/v1/overlays").json["overlays"]
    assert [one["host"] for one in full["servers"]] == ["lab-1", "lab-2"]
    assert full["changed_by"] == "user-member"
    path = f"/v1/overlays?project_id={cloud.ALPHA}"
    assert api.latest(FOREIGN, path).json["overlays"] == []
    assert len(api.latest(ADMIN, path).json["overlays"]) == 1


def test_before_1_3_there_are_none(api):
    headers = {"OpenStack-API-Version": "performance-isolation 1.2"}
    for path, method in (("/v1/overlays", "GET"), (ONE, "GET"), (CALLS, "POST")):
        assert api.ask(MEMBER, path, method, None, headers).status == 404


def test_what_is_created_is_shown_and_told_to_its_hosts(api):
    api.latest(MEMBER, ONE, "DELETE")
    body = {"name": "shop", "servers": [VICTIM], "target": 250, "target_unit": "requests/s"}
    made = api.latest(MEMBER, "/v1/overlays", "POST", body).json["overlay"]
    assert (made["project_id"], made["priority"], made["arbitration"]) == (
        cloud.ALPHA,
        1,
        "priority",
    )
    assert api.latest(READER, f"/v1/overlays/{made['id']}").json["overlay"] == made
    (told,) = api.agents.overlays["lab-1"]
    assert (told.id, told.members, told.target) == (made["id"], {VICTIM}, 250.0)


def test_the_target_alone_is_changed_and_told(api):
    changed = api.latest(MEMBER, ONE, "PATCH", {"target": 400}).json["overlay"]
    assert (changed["target"], changed["target_unit"], changed["name"]) == (
        400,
        "requests/s",
        "checkout",
    )
    assert api.agents.overlays["lab-1"][0].target == 400.0
    assert api.latest(MEMBER, ONE, "PATCH", {}).status == 400


def test_what_is_deleted_is_gone_on_its_hosts_too(api):
    assert api.latest(MEMBER, ONE, "DELETE").json == {
        "overlay": {"id": cloud.OVERLAY, "is_deleted": True}
    }
    assert api.latest(MEMBER, ONE).status == api.latest(MEMBER, ONE, "DELETE").status == 404
    (told,) = api.agents.overlays["lab-1"]
    assert (told.id, told.members) == (SHOP, {VICTIM}), "its vp:group makes it one again"


def test_servers_come_and_go(api):
    path = f"{ONE}/servers"
    left = api.latest(MEMBER, f"{path}/{VICTIM.upper()}", "DELETE").json["overlay"]
    assert [one["server_id"] for one in left["servers"]] == [cloud.SLEEPER]
    assert api.latest(MEMBER, f"{path}/{VICTIM}", "DELETE").status == 404
    assert [one.id for one in api.agents.overlays["lab-1"]] == [SHOP]
    back = api.latest(MEMBER, path, "POST", {"servers": [VICTIM.upper()]}).json["overlay"]
    assert [one["server_id"] for one in back["servers"]] == [VICTIM, cloud.SLEEPER]
    assert [one.id for one in api.agents.overlays["lab-1"]] == [cloud.OVERLAY]


@pytest.mark.parametrize("server_id", [cloud.NOISY, cloud.ORPHAN, cloud.UNKNOWN])
def test_a_server_of_somebody_else_and_one_that_is_not_there_are_refused_alike(api, server_id):
    def told(path: str, body: dict[str, Any]) -> tuple[int, str]:
        answer = api.latest(MEMBER, path, "POST", body)
        return answer.status, answer.json["errors"][0]["detail"].replace(server_id, "ID")

    unknown = cloud.UNKNOWN.replace("9", "7")
    for path, name in ((f"{ONE}/servers", {}), ("/v1/overlays", {"name": "x"})):
        answer = told(path, {**name, "servers": [server_id]})
        as_unknown = api.latest(MEMBER, path, "POST", {**name, "servers": [unknown]})
        detail = as_unknown.json["errors"][0]["detail"].replace(unknown, "ID")
        assert answer == (404, detail)
    assert api.stored.overlays.get(cloud.OVERLAY).servers == {VICTIM, cloud.SLEEPER}


def test_an_operator_may_not_mix_projects_either(api):
    body = {"name": "mixed", "project_id": cloud.BETA, "servers": [cloud.NOISY, VICTIM]}
    assert api.latest(ADMIN, "/v1/overlays", "POST", body).status == 404
    body["servers"] = [cloud.NOISY]
    made = api.latest(ADMIN, "/v1/overlays", "POST", body).json["overlay"]
    assert made["project_id"] == cloud.BETA


def test_an_overlay_of_somebody_else_and_one_that_is_not_there_are_answered_alike(api):
    def told(overlay_id: str, method: str, path: str, body: Any) -> tuple[int, str]:
        answer = api.latest(FOREIGN, f"/v1/overlays/{overlay_id}{path}", method, body)
        return answer.status, answer.json["errors"][0]["detail"].replace(overlay_id, "ID")

    asked = [
        ("GET", "", None),
        ("PATCH", "", {"target": 1}),
        ("DELETE", "", None),
        ("POST", "/servers", {"servers": [cloud.NOISY]}),
        ("DELETE", f"/servers/{VICTIM}", None),
        ("POST", "/calls", TUNE),
    ]
    for one in asked:
        assert told(cloud.OVERLAY, *one) == told(cloud.UNKNOWN, *one)
        assert told(cloud.OVERLAY, *one)[0] == 404
    assert api.agents.calls == []


def test_only_operators_put_an_overlay_before_others(api):
    for field in ({"priority": 9}, {"arbitration": "round-robin"}):
        assert api.latest(MEMBER, ONE, "PATCH", field).status == 403
        body = {"name": "x", **field}
        assert api.latest(MEMBER, "/v1/overlays", "POST", body).status == 403
        assert api.latest(ADMIN, ONE, "PATCH", field).status == 200
    stands = api.stored.overlays.get(cloud.OVERLAY)
    assert (stands.priority, stands.arbitration) == (9, ArbitrationClass.ROUND_ROBIN)
    assert [one.priority for one in api.agents.overlays["lab-1"]] == [9.0]


def test_a_server_is_in_one_overlay_at_most(api):
    body = {"name": "second", "servers": [VICTIM]}
    answer = api.latest(MEMBER, "/v1/overlays", "POST", body)
    assert (answer.status, code_of(answer)) == (409, "in-another-overlay")
    assert VICTIM in answer.text


def test_names_are_of_one_overlay(api):
    answer = api.latest(MEMBER, "/v1/overlays", "POST", {"name": "checkout"})
    assert (answer.status, code_of(answer)) == (409, "name-taken")


def test_a_group_is_an_overlay_without_a_call():
    api = two_hosts()
    (told,) = api.latest(READER, "/v1/overlays").json["overlays"]
    assert (told["id"], told["name"], told["is_group"]) == (SHOP, "shop", True)
    assert [one["server_id"] for one in told["servers"]] == sorted([TIERS, VICTIM, cloud.SLEEPER])
    assert told["changed_at"] is None
    path = f"/v1/overlays/{SHOP}"
    assert api.latest(READER, path).json["overlay"]["name"] == "shop"
    assert api.latest(FOREIGN, path).status == 404
    assert api.latest(ADMIN, path).json["overlay"]["servers"][0]["host"]
    for method, body in (("PATCH", {"target": 1}), ("DELETE", None)):
        answer = api.latest(MEMBER, path, method, body)
        assert (answer.status, code_of(answer)) == (409, "group-overlay")
    assert api.latest(MEMBER, f"{path}/calls", "POST", TUNE).json["call"]["granted"]
    body = {"name": "mine", "servers": [VICTIM]}
    assert api.latest(MEMBER, "/v1/overlays", "POST", body).status == 200
    listed = api.latest(READER, "/v1/overlays").json["overlays"]
    assert {one["name"]: len(one["servers"]) for one in listed} == {"mine": 1, "shop": 2}


def test_lists_have_pages(api):
    for name in ("a", "b"):
        api.latest(MEMBER, "/v1/overlays", "POST", {"name": name})
    names, path = [], "/v1/overlays?limit=1"
    while path:
        page = api.latest(READER, path).json
        names += [one["name"] for one in page["overlays"]]
        path = next((one["href"] for one in page["links"]), None)
    assert names == ["a", "b", "checkout"]


# Calls


def test_a_call_is_sent_to_the_host_of_its_server_and_answered(api):
    body = {**TUNE, "id": "call-1", "resource": "memory-size", "direction": "down", "lease_s": 30}
    told = api.latest(MEMBER, CALLS, "POST", body).json["call"]
    assert told == {
        "id": "call-1",
        "overlay_id": cloud.OVERLAY,
        "verb": "tune",
        "granted": True,
        "answers": [
            {
                "server_ids": [VICTIM],
                "granted": True,
                "nack": None,
                "detail": "It is done.",
                "lease_s": 30.0,
            }
        ],
    }
    [(host, message)] = api.agents.calls
    resource, direction = CallResource.MEMORY_SIZE, Direction.DOWN
    call = Call("call-1", cloud.OVERLAY, Verb.TUNE, resource, direction, VICTIM, lease_s=30)
    assert (host, message.call, message.project_id) == ("lab-1", call, cloud.ALPHA)
    assert message.sent_at_ms == cloud.NOW_S * 1000


def test_an_operator_is_told_what_the_agent_said(api):
    (told,) = api.latest(ADMIN, CALLS, "POST", TUNE).json["call"]["answers"]
    assert told["detail"] == "done on lab-1"


@pytest.mark.parametrize("nack", Nack)
def test_a_refusal_is_an_answer_whose_reason_names_nobody(api, nack):
    api.agents.answers["lab-1"] = CallAnswer("", nack, "island llc-0 of lab-1 is noisy's")
    answer = api.latest(MEMBER, CALLS, "POST", TUNE)
    assert answer.status == 200
    call = answer.json["call"]
    assert call["granted"] is False
    assert call["answers"][0]["nack"] == nack.value
    assert call["answers"][0]["detail"] == TENANT_NACKS[nack]
    assert leaks_of(answer, ["llc-0", "lab-1", "noisy"]) == []
    answer = api.latest(ADMIN, CALLS, "POST", TUNE)
    assert "island llc-0" in answer.json["call"]["answers"][0]["detail"]


def test_the_page_of_overlays_has_every_reason():
    page = (Path(__file__).parents[3] / "doc/source/overlays.md").read_text()
    assert [nack.value for nack in Nack if f"| `{nack.value}` | " not in page] == []


def test_a_call_of_all_asks_every_host_and_is_granted_by_all():
    api = two_hosts()
    path = f"/v1/overlays/{SHOP}/calls"
    call = api.latest(MEMBER, path, "POST", {"verb": "trigger"}).json["call"]
    assert call["granted"] is True
    asked = [one["server_ids"] for one in call["answers"]]
    assert sorted(asked) == sorted([sorted([TIERS, VICTIM]), [cloud.SLEEPER]])
    assert {host for host, _ in api.agents.calls} == {"lab-1", "lab-3"}
    api.agents.answers["lab-3"] = CallAnswer("", Nack.NO_CREDIT)
    call = api.latest(MEMBER, path, "POST", {"verb": "trigger"}).json["call"]
    assert call["granted"] is False
    assert sorted(one["granted"] for one in call["answers"]) == [False, True]


def test_a_host_that_is_silent_refuses_and_the_others_are_served():
    api = two_hosts()
    path = f"/v1/overlays/{SHOP}/calls"
    api.agents.failing["lab-3"] = oslo_messaging.MessagingTimeout("lab-3 is silent")
    for _ in range(2):  # The second time it is not asked.
        answer = api.latest(MEMBER, path, "POST", {"verb": "trigger"})
        call = answer.json["call"]
        assert (answer.status, call["granted"]) == (200, False)
        assert sorted(one["nack"] or "" for one in call["answers"]) == ["", "unreachable"]
        assert leaks_of(answer, ["lab-1", "lab-3"]) == []
    assert [host for host, _ in api.agents.calls] == ["lab-1", "lab-1"]
    api.agents.failing["lab-1"] = oslo_messaging.MessagingTimeout("lab-1 is silent")
    assert api.latest(MEMBER, path, "POST", {"verb": "trigger"}).status == 504


@pytest.mark.parametrize(
    "body",
    [
        {"verb": "destroy"},
        {"verb": "tune"},
        {"verb": "borrow", "server_id": VICTIM},
        {"verb": "borrow", "server_id": VICTIM, "cpus": 0},
        {"verb": "tune", "server_id": VICTIM, "cpus": 1},
        {"verb": "tune", "server_id": "../etc"},
        {"verb": "trigger", "lease_s": -1},
        {"verb": "trigger", "lease_s": 1e9},
        {"verb": "trigger", "id": "a b"},
        {"verb": "trigger", "host": "lab-1"},
        {},
    ],
)
def test_what_no_call_can_mean_is_refused(api, body):
    assert api.latest(MEMBER, CALLS, "POST", body).status == 400
    assert api.agents.calls == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            {"verb": "trigger", "lease_s": 1e9},
            "$.lease_s: 1000000000.0 is greater than the maximum",
        ),
        ({"verb": "trigger", "lease_s": "long"}, "$.lease_s: 'long' is not of type 'number'"),
        (None, "$: 'verb' is a required property"),
    ],
)
def test_a_refusal_says_what_to_send(api, body, told):
    assert told in api.latest(MEMBER, CALLS, "POST", body).text


@pytest.mark.parametrize("server_id", [cloud.NOISY, cloud.ORPHAN, cloud.UNKNOWN])
def test_a_call_for_a_server_that_is_not_in_the_overlay(api, server_id):
    answer = api.latest(MEMBER, CALLS, "POST", {"verb": "tune", "server_id": server_id})
    assert (answer.status, code_of(answer)) == (404, "vp-not-found")
    assert api.agents.calls == []


def test_only_operators_name_islands(api):
    body = {"verb": "borrow", "server_id": VICTIM, "cpus": 1, "island": "llc-1"}
    assert api.latest(MEMBER, CALLS, "POST", body).status == 403
    assert api.latest(ADMIN, CALLS, "POST", body).status == 200
    assert [message.call.island for _, message in api.agents.calls] == ["llc-1"]


def test_readers_do_not_call(api):
    assert api.latest(READER, CALLS, "POST", TUNE).status == 403


def test_a_stale_host_is_not_waited_for(api):
    call = {"verb": "tune", "server_id": cloud.SLEEPER, "id": "call-7"}
    answer = api.latest(MEMBER, CALLS, "POST", call)
    assert (answer.status, code_of(answer)) == (504, "agent-silent")
    assert "Repeat it with its id call-7" in answer.text
    assert api.agents.calls == []


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (oslo_messaging.MessagingTimeout("lab-1 is silent"), 504),
        (oslo_messaging.RemoteError("KeyError", "lab-1 has no call_overlay"), 504),
        (wire.BadMessage("lab-1 does not read it"), 504),
        (oslo_messaging.MessageDeliveryFailure("no broker for lab-1"), 503),
    ],
)
def test_an_agent_that_does_not_answer_costs_words_and_names_no_host(api, failure, status):
    api.agents.failing["lab-1"] = failure
    answer = api.latest(MEMBER, CALLS, "POST", TUNE)
    assert answer.status == status
    assert leaks_of(answer, ["lab-1", "KeyError"]) == []


def test_a_host_that_was_silent_keeps_nobody_waiting_again(api):
    api.agents.failing["lab-1"] = oslo_messaging.MessagingTimeout("silent")
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 504
    api.agents.failing.clear()
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 504
    assert api.agents.calls == []
    waits = services_of(api).overlay_waits
    assert not waits.is_silent("lab-1", cloud.NOW_S + SILENT_S)


@pytest.mark.parametrize("text", ["", "{}", "null", "[1]", '{"v":1}', "\x00"])
def test_what_an_agent_answers_is_not_believed(api, monkeypatch, text):
    monkeypatch.setattr(api.agents, "call_overlay", lambda host, asked: text)
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 504


def test_an_answer_to_another_call_is_none(api, monkeypatch):
    answered = CallAnswer("another", None)
    real = api.agents.call_overlay

    def call_overlay(host: str, text: str) -> str:
        return real(host, text).replace("call-1", answered.call_id)

    monkeypatch.setattr(api.agents, "call_overlay", call_overlay)
    assert api.latest(MEMBER, CALLS, "POST", {**TUNE, "id": "call-1"}).status == 504


# Limits and attacks


def services_of(api: Api) -> Any:
    """What its handlers are given."""
    inner = api.application
    while not hasattr(inner, "_services"):
        inner = inner._application if hasattr(inner, "_application") else inner.application
    return inner._services


def test_a_project_has_so_many_overlays_and_each_so_many_servers(limited):
    def create(name: str, *servers: str) -> Any:
        return limited.latest(
            MEMBER, "/v1/overlays", "POST", {"name": name, "servers": list(servers)}
        )

    assert create("second").status == 200
    answer = create("third")
    assert (answer.status, code_of(answer)) == (403, "quota-exceeded")
    assert "overlays_per_project" in answer.text
    assert limited.latest(MEMBER, f"{ONE}/servers/{VICTIM}", "DELETE").status == 200
    path = f"{ONE}/servers"
    assert limited.latest(MEMBER, path, "POST", {"servers": [VICTIM]}).status == 200


def test_more_servers_than_an_overlay_takes(tmp_path):
    file = tmp_path / "nova-vp.conf"
    file.write_text("[vp_api]\nservers_per_overlay = 1\n")
    api = Api(files=[str(file)])
    answer = api.latest(MEMBER, f"{ONE}/servers", "POST", {"servers": [VICTIM]})
    assert answer.status == 200, "what is in it stays"
    api.latest(MEMBER, ONE, "DELETE")
    body = {"name": "x", "servers": [VICTIM, cloud.SLEEPER]}
    answer = api.latest(MEMBER, "/v1/overlays", "POST", body)
    assert (answer.status, code_of(answer)) == (403, "quota-exceeded")


def test_a_thousand_overlays_are_refused_from_the_limit_on(tmp_path):
    file = tmp_path / "nova-vp.conf"
    file.write_text("[vp_api]\noverlay_requests_per_s = 2000\n")
    api = Api(files=[str(file)])
    statuses = [
        api.latest(MEMBER, "/v1/overlays", "POST", {"name": f"n{n}"}).status for n in range(1000)
    ]
    assert statuses == [200] * 19 + [403] * 981
    assert api.latest(FOREIGN, "/v1/overlays", "POST", {"name": "n"}).status == 200


def test_a_flood_of_calls_is_refused_and_hits_no_other_project(limited):
    answers = [limited.latest(MEMBER, CALLS, "POST", TUNE) for _ in range(30)]
    assert [one.status for one in answers] == [200] * 20 + [429] * 10
    assert code_of(answers[-1]) == "too-many-calls"
    assert answers[-1].headers["Retry-After"] == "1"
    assert len(limited.agents.calls) == 20
    assert limited.latest(MEMBER, ONE, "PATCH", {"target": 1}).status == 429
    assert limited.latest(FOREIGN, "/v1/overlays", "POST", {"name": "n"}).status == 200


def test_a_target_that_changes_with_every_call_is_refused_like_a_flood(limited):
    statuses = []
    for target in range(15):
        statuses.append(limited.latest(MEMBER, ONE, "PATCH", {"target": target}).status)
        statuses.append(limited.latest(MEMBER, CALLS, "POST", TUNE).status)
    assert statuses == [200] * 20 + [429] * 10
    assert [one.target for one in limited.agents.overlays["lab-1"]] == [9.0]
    assert len(limited.agents.calls) == 10
    assert limited.latest(FOREIGN, "/v1/overlays", "POST", {"name": "n"}).status == 200


def test_guesses_of_foreign_overlays_count_too(limited):
    statuses = [limited.latest(FOREIGN, CALLS, "POST", TUNE).status for _ in range(25)]
    assert statuses == [404] * 20 + [429] * 5


@pytest.mark.parametrize(
    "body",
    [
        b"{" * 100_000,
        b"[" * 5000,
        b'{"verb": "tune", "server_id": "' + b"x" * 60_000 + b'"}',
        b'{"verb": "trigger", "lease_s": NaN}',
        b'{"verb": "trigger", "lease_s": 1e999}',
        b'{"verb": "borrow", "cpus": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b" " * (1 << 22),
    ],
    ids=["open", "deep", "long", "nan", "infinite", "digits", "bytes", "blanks"],
)
def test_huge_and_strange_bodies_are_refused(api, body):
    for path in (CALLS, f"{ONE}/servers", "/v1/overlays"):
        assert api.latest(MEMBER, path, "POST", body).status in (400, 413)
    assert api.agents.calls == []


@pytest.mark.parametrize(
    "name",
    ["", "x" * 65, "a\nb", "\x7f", "\ud800", "\u2028", None, 5],
    ids=lambda name: repr(name)[:12],
)
def test_names_that_nobody_can_read_are_refused(api, name):
    answer = api.latest(MEMBER, "/v1/overlays", "POST", {"name": name})
    assert answer.status == 400
    body = {"name": "x", "target_unit": name}
    if name not in ("", "x" * 65):
        assert api.latest(MEMBER, "/v1/overlays", "POST", body).status == 400


def test_two_who_add_the_same_server_at_once(api):
    """One of both has it, and nobody is told of a fault of ours."""
    api.latest(MEMBER, f"{ONE}/servers/{VICTIM}", "DELETE")
    statuses: list[int] = []

    def create(number: int) -> None:
        body = {"name": f"n{number}", "servers": [VICTIM]}
        statuses.append(api.latest(MEMBER, "/v1/overlays", "POST", body).status)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 409, 409, 409]


def test_calls_of_one_project_wait_for_a_slow_host_in_small_numbers(api, monkeypatch):
    """The threads that serve are for all."""
    began, is_over = threading.Semaphore(0), threading.Event()
    real = api.agents.call_overlay

    def slow(host: str, text: str) -> str:
        began.release()
        is_over.wait(20)
        return real(host, text)

    monkeypatch.setattr(api.agents, "call_overlay", slow)
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: statuses.append(api.latest(MEMBER, CALLS, "POST", TUNE).status)
        )
        for _ in range(AT_ONCE)
    ]
    for thread in threads:
        thread.start()
        wait_until(lambda: began.acquire(blocking=False), "the call to wait")
    refused = api.latest(MEMBER, CALLS, "POST", TUNE)
    assert (refused.status, code_of(refused)) == (429, "too-many-calls")
    is_over.set()
    for thread in threads:
        thread.join()
    assert statuses == [200] * AT_ONCE
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 200


def test_where_all_wait_for_agents_a_call_is_refused_at_once(api):
    callers = services_of(api).callers
    taken = list(itertools.takewhile(lambda _: callers.acquire(blocking=False), range(99)))
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 429
    told = api.latest(MEMBER, f"/v1/vps/{VICTIM}", "PATCH", {"opt_out": True}).json["vp"]
    assert told["is_told"], "overrides wait for no calls"
    for _ in taken:
        callers.release()
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 200


def test_calls_of_many_projects_for_one_host_leave_room_for_those_of_others(api):
    waits = services_of(api).overlay_waits
    with ExitStack() as stack:
        for number in range(AT_ONCE_OF_HOST):
            stack.enter_context(waits.one_of(f"p{number}", ["lab-1"]))
        refused = api.latest(MEMBER, CALLS, "POST", TUNE)
        assert (refused.status, code_of(refused)) == (429, "too-many-calls")
        assert leaks_of(refused, ["lab-1"]) == []
        with waits.one_of("other", ["lab-2"]):
            pass
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 200


def test_a_host_that_answers_late_is_not_waited_for_again(api, monkeypatch):
    """Its agent refuses in time what its tick did not get to."""
    sent_s = cloud.NOW_S - SLOW_S - 0.1
    monkeypatch.setattr("vp_api.handlers.overlay_calls._now_ms", lambda call: int(sent_s * 1000))
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 200
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 504
    assert len(api.agents.calls) == 1


def test_a_broker_that_is_away_changes_nothing_of_what_is_registered(api):
    """vp-scheduler tells the hosts later."""
    api.agents.failing["lab-1"] = oslo_messaging.MessageDeliveryFailure("away")
    assert api.latest(MEMBER, ONE, "PATCH", {"target": 7}).status == 200
    assert api.stored.overlays.get(cloud.OVERLAY).target == 7.0


def test_a_host_that_claims_a_server_for_another_project_is_not_asked():
    """Nor shown, whatever it calls the server."""
    claimed = cloud.a_vp(uuid=VICTIM, name="claimed", project_id=cloud.BETA)
    api = Api(stored=filled_like_the_cloud([cloud.a_record("lab-9", age_s=1, vps=[claimed])]))
    answer = api.latest(READER, ONE)
    first = answer.json["overlay"]["servers"][0]
    assert first == {"server_id": VICTIM, "name": None, "is_reported": False}
    assert api.latest(MEMBER, CALLS, "POST", TUNE).status == 404
    assert api.agents.calls == []


def test_what_hosts_say_of_an_overlay_is_told_without_others_servers():
    told = {
        "id": SHOP.upper(),
        "borrowed_cpus": 2,
        "boosted": [VICTIM.upper(), cloud.NOISY],
        "credit_ratio": 0.123456,
        "granted": 3,
        "refused": 1,
    }
    other = {**told, "id": cloud.OVERLAY, "borrowed_cpus": 9}
    vp = cloud.a_vp(uuid=VICTIM, **cloud.asked("shop"))
    path = f"/v1/overlays/{SHOP}"

    def state(age_s: int, *overlays: dict[str, Any]) -> Any:
        record = cloud.a_record("lab-1", age_s=age_s, vps=[vp], overlays=list(overlays))
        return Api([record]).latest(READER, path).json["overlay"]["holds"]

    assert state(3, told, other) == {
        "borrowed_cpus": 2,
        "boosted": [VICTIM],
        "credit_ratio": 0.12,
        "granted": 3,
        "refused": 1,
    }
    assert state(3) is state(400, told) is None


def test_the_id_of_a_project_is_no_longer_than_keystones(api):
    body = {"name": "x", "project_id": "p" * 65}
    assert api.latest(ADMIN, "/v1/overlays", "POST", body).status == 400
