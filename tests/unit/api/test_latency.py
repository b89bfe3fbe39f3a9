# SPDX-License-Identifier: Apache-2.0
"""Reports of latency: sent on to the host of the caller's own server, or refused with a reason."""

import json
import threading
import time
from collections import OrderedDict
from typing import Any

import jsonschema
import oslo_messaging
import pytest

from nova_vp import wire
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.latency_message import AHEAD_S, LATE_S, Ignored, read_latency
from tests.decisions import a_guest
from tests.unit.api import cloud
from tests.unit.api.client import LATEST, Answer, Api, Persona
from vp_agent.loop.latency_reports import LatencyReports
from vp_api.latency_limits import LatencyLimits, NotNewer
from vp_api.project_rate import TooMany
from vp_api.schemas import hosts, vps

MEMBER = Persona("member")
PATH = f"/v1/vps/{cloud.VICTIM}/latency"
REPORT = {"latency_ms": 8.5, "load": 120_000, "percentile": 95, "measured_at": cloud.NOW_S - 1.5}


def put(api: Api, persona: Persona = MEMBER, path: str = PATH, **changes: Any) -> Answer:
    body = {name: value for name, value in (REPORT | changes).items() if value != "absent"}
    return api.latest(persona, path, "PUT", body)


def code_of(answer: Answer) -> str:
    return answer.json["errors"][0]["code"]


@pytest.fixture
def api() -> Api:
    return Api()


def test_a_report_reaches_the_host_of_its_server(api: Api) -> None:
    """Another host still claims the server, which left it."""
    assert put(api).status == 200
    [(host, text)] = api.agents.latency
    assert host == "lab-1"
    now_ms = round(cloud.NOW_S * 1000)
    assert read_latency(text) == (
        *(cloud.VICTIM, cloud.ALPHA, 8.5, 120_000, 95),
        *(now_ms - 1500, now_ms),
    )


def test_what_is_not_given_is_now_and_unknown(api: Api) -> None:
    absent = dict.fromkeys(("load", "percentile", "measured_at"), "absent")
    assert put(api, **absent).status == 200
    sent = read_latency(api.agents.latency[0][1])
    assert (sent.load, sent.percentile) == (None, None)
    assert sent.measured_at_ms == sent.sent_at_ms == round(cloud.NOW_S * 1000)


ABSURD: dict[str, Any] = {
    "no latency": "absent",
    "zero": 0,
    "less than a clock tells": 1e-300,
    "negative": -1,
    "absurd": wire.MOST_LATENCY_MS + 1,
    "a text": "8.5",
    "yes": True,
    "null": None,
    "a list": [8.5],
}


@pytest.mark.parametrize("latency_ms", ABSURD.values(), ids=ABSURD.keys())
def test_absurd_latencies(latency_ms: Any, api: Api) -> None:
    answer = put(api, latency_ms=latency_ms)
    assert (answer.status, code_of(answer)) == (400, "performance-isolation.bad-request")
    assert "latency_ms" in answer.text
    assert api.agents.latency == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("name", ["latency_ms", "load", "percentile", "measured_at"])
def test_numbers_that_are_none(number: str, name: str, api: Api) -> None:
    body = json.dumps(REPORT | {name: "HERE"}).replace('"HERE"', number).encode()
    answer = api.latest(MEMBER, PATH, "PUT", body)
    assert (answer.status, code_of(answer)) == (400, "performance-isolation.bad-request")
    assert api.agents.latency == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"load": -1},
        {"load": 1e13},
        {"percentile": 49},
        {"percentile": 100},
        {"measured_at": "now"},
        {"measured_at": -1},
        {"server_id": cloud.NOISY},
    ],
    ids=str,
)
def test_other_faults_of_the_body(wrong: dict[str, Any], api: Api) -> None:
    assert put(api, **wrong).status == 400
    assert api.agents.latency == []


@pytest.mark.parametrize("age_s", [LATE_S + 0.1, 3600.0, 1e9, -AHEAD_S - 0.1, -3600.0])
def test_what_was_measured_long_ago_or_will_be(age_s: float, api: Api) -> None:
    answer = put(api, measured_at=cloud.NOW_S - age_s)
    assert (answer.status, code_of(answer)) == (409, "performance-isolation.stale-report")
    assert "check the clock of the application's machine" in answer.text
    assert api.agents.latency == []


def test_the_same_report_again_and_an_older_one(api: Api) -> None:
    put(api)
    for measured_at in (REPORT["measured_at"], REPORT["measured_at"] - 1):
        answer = put(api, measured_at=measured_at)
        assert (answer.status, code_of(answer)) == (409, "performance-isolation.stale-report")
    assert len(api.agents.latency) == 1


def test_two_at_once_are_one(api: Api) -> None:
    put(api)
    answer = put(api, measured_at=cloud.NOW_S)
    assert (answer.status, code_of(answer)) == (429, "performance-isolation.too-many-reports")
    assert answer.headers["Retry-After"] == "1"
    assert "At most one report per server and 0.5 s is forwarded" in answer.text
    assert len(api.agents.latency) == 1


def test_a_project_that_floods_is_refused_before_anything_is_read() -> None:
    api = Api()
    most = api.application._services.conf.vp_api.latency_reports_per_s
    for number in range(most):
        answer = put(api, path=f"/v1/vps/{number}/latency")
        assert answer.status == 404
    refused = put(api)
    assert refused.status == 429
    assert "([vp_api] latency_reports_per_s)" in refused.text
    assert api.agents.latency == []
    other = put(api, Persona("member", cloud.BETA), f"/v1/vps/{cloud.NOISY}/latency")
    assert code_of(other) == "performance-isolation.not-latency-critical"


@pytest.mark.parametrize("service", [None, "best-effort"])
def test_a_server_that_is_not_latency_critical(service: str | None) -> None:
    told = service and cloud.a_service(**{"class": service})
    api = Api([cloud.a_record(vps=[cloud.a_vp(service=told)])])
    answer = put(api)
    assert (answer.status, code_of(answer)) == (409, "performance-isolation.not-latency-critical")
    assert "vp:class=latency-critical" in answer.text
    assert api.agents.latency == []


def test_a_server_of_a_silent_host() -> None:
    api = Api([cloud.a_record(age_s=400, vps=[cloud.a_vp(service=cloud.a_service())])])
    answer = put(api)
    assert (answer.status, code_of(answer)) == (504, "performance-isolation.agent-silent")
    assert "lab-1" not in answer.text
    assert api.agents.latency == []


@pytest.mark.parametrize("persona", [Persona("member", cloud.BETA), Persona("manager", "None")])
def test_somebody_elses_server_is_answered_like_none(persona: Persona, api: Api) -> None:
    texts = []
    for server_id in (cloud.VICTIM, cloud.UNKNOWN):
        answer = put(api, persona, f"/v1/vps/{server_id}/latency")
        assert answer.status == 404
        fault = answer.json["errors"][0]["detail"]
        texts.append(fault.replace(server_id, "ID"))
    assert texts[0] == texts[1]
    assert api.agents.latency == []


def test_a_server_without_a_project_is_nobodys() -> None:
    vp = cloud.a_vp(project_id="", service=cloud.a_service())
    api = Api([cloud.a_record(vps=[vp])])
    assert put(api, Persona("member", "")).status in (403, 404)
    assert put(api, Persona("admin")).status == 403
    assert api.agents.latency == []


@pytest.mark.parametrize(
    ("persona", "status"),
    [
        (Persona("reader"), 403),
        (Persona("manager"), 200),
        (Persona("admin"), 200),
        (Persona("admin", cloud.GAMMA), 403),
        (Persona("service", cloud.GAMMA), 403),
    ],
)
def test_only_members_of_its_project_report(persona: Persona, status: int, api: Api) -> None:
    assert put(api, persona).status == status
    assert len(api.agents.latency) == (status == 200)


@pytest.mark.parametrize(
    "failed", [oslo_messaging.MessageDeliveryFailure, oslo_messaging.MessagingTimeout]
)
def test_a_report_that_was_not_sent_may_be_sent_again(failed: type[Exception], api: Api) -> None:
    api.agents.failing["lab-1"] = failed("no broker of lab-1")
    answer = put(api)
    assert (answer.status, code_of(answer)) == (503, "performance-isolation.bus-unavailable")
    assert "lab-1" not in answer.text
    del api.agents.failing["lab-1"]
    assert put(api).status == 200
    assert len(api.agents.latency) == 1


def test_older_microversions_have_none_of_it(api: Api) -> None:
    headers = {"OpenStack-API-Version": "performance-isolation 1.1"}
    assert api.ask(MEMBER, PATH, "PUT", REPORT, headers=headers).status == 404
    shown = api.ask(MEMBER, f"/v1/vps/{cloud.VICTIM}", headers=headers).json["vp"]
    listed = api.ask(MEMBER, "/v1/vps", headers=headers).json["vps"]
    host = api.ask(Persona("admin"), "/v1/hosts/lab-1", headers=headers).json["host"]
    assert "service" not in shown
    assert not any("service" in vp for vp in listed)
    assert "latency_projects" not in host


@pytest.mark.parametrize("role", ["reader", "admin"])
def test_servers_tell_what_they_are_for_and_how_they_answer(role: str, api: Api) -> None:
    shown = api.latest(Persona(role), f"/v1/vps/{cloud.VICTIM}").json["vp"]["service"]
    reported = {"at": "2026-01-02T03:04:00Z", "latency_ms": 8.5, "load": 120_000.0}
    assert shown == cloud.a_service(reported=reported)
    listed = api.latest(Persona(role), "/v1/vps").json["vps"]
    services = {vp["server_id"]: vp["service"] for vp in listed}
    assert services.pop(cloud.VICTIM) == {
        "class": "latency-critical",
        "latency_target_ms": 10.0,
        "latency_ms": 8.5,
    }
    assert set(services.values()) == {None}


def test_of_a_silent_host_nobody_knows_how_servers_answer() -> None:
    api = Api([cloud.a_record(age_s=400, vps=[cloud.a_vp(service=cloud.a_service())])])
    [listed] = api.latest(MEMBER, "/v1/vps").json["vps"]
    assert listed["service"]["latency_ms"] is None
    shown = api.latest(MEMBER, f"/v1/vps/{cloud.VICTIM}").json["vp"]
    assert shown["service"]["reported"] is None


def test_a_host_cannot_put_words_into_a_tenants_view() -> None:
    told = cloud.a_service(ignored={"too-soon": 1, "beside lbm": 7})
    api = Api([cloud.a_record(vps=[cloud.a_vp(service=told)])])
    shown = api.latest(MEMBER, f"/v1/vps/{cloud.VICTIM}").json["vp"]
    assert shown["service"]["ignored"] == {"too-soon": 1}


def test_operators_see_how_many_reports_of_each_project_a_host_used(api: Api) -> None:
    answer = api.ask(Persona("admin"), "/v1/hosts/lab-1", headers=LATEST)
    assert answer.json["host"]["latency_projects"] == [
        {"project_id": cloud.ALPHA, "servers": 1, "used": 40, "ignored": {"too-soon": 2}}
    ]


@pytest.mark.parametrize("schema", [vps.SERVICE, hosts.LATENCY_PROJECT], ids=["vp", "host"])
def test_reasons_of_reports_that_were_not_used_are_bounded(schema: dict[str, Any]) -> None:
    ignored = jsonschema.Draft202012Validator(schema["properties"]["ignored"])
    assert ignored.is_valid({"k" * 64: 1})
    assert not ignored.is_valid({"k" * 65: 1})
    assert not ignored.is_valid({f"k{number}": 1 for number in range(17)})


def test_what_the_api_sends_the_agent_uses(api: Api) -> None:
    put(api)
    guest = a_guest(
        uuid=cloud.VICTIM, project_id=cloud.ALPHA, service_class=ServiceClass.LATENCY_CRITICAL
    )
    agent = LatencyReports(lambda: cloud.NOW_S, lambda: 50.0)
    agent.of((guest,), 50.0)
    [(_, text)] = api.agents.latency
    assert agent.take(text) is None
    assert agent.of((guest,), 50.0) == {cloud.VICTIM: (8.5, 120_000, pytest.approx(1.5))}
    assert agent.take(text) is Ignored.REPEATED


class SlowlyRead(OrderedDict[str, Any]):
    """Between reading and writing anybody else gets a turn who need not wait."""

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        time.sleep(0.005)
        return found


def test_limits_let_one_report_in_half_a_second_through_whoever_asks_at_once() -> None:
    limits, taken = LatencyLimits(), []
    limits._sent = SlowlyRead()

    def ask(number: int) -> None:
        try:
            limits.take("web", 1000 + number, 10.0)
            taken.append(number)
        except (TooMany, NotNewer):
            pass

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    limits.take("web", 2000, 10.5)


def test_limits_are_given_back_for_the_report_that_failed_alone() -> None:
    limits = LatencyLimits()
    limits.take("web", 1000, 10.0)
    limits.take("web", 2000, 11.0)
    limits.give_back("web", 1000)
    limits.give_back("mail", 1000)
    with pytest.raises(NotNewer):
        limits.take("web", 2000, 12.0)
    limits.give_back("web", 2000)
    limits.take("web", 2000, 12.0)


def test_limits_refill() -> None:
    limits = LatencyLimits()
    for _ in range(3):
        limits.rate.count("p", 10.0, 3)
    with pytest.raises(TooMany):
        limits.rate.count("p", 10.2, 3)
    limits.rate.count("p", 10.4, 3)
    limits.rate.count("q", 10.4, 3)


def test_limits_forget_who_is_silent() -> None:
    limits = LatencyLimits()
    for number in range(100):
        limits.rate.count(f"p{number}", 10.0, 3)
        limits.take(f"s{number}", 1, 10.0)
    limits.rate.count("p", 1000.0, 3)
    limits.take("s", 1, 1000.0)
    assert (len(limits.rate._projects), len(limits._sent)) == (1, 1)


def test_a_clock_that_is_set_back_locks_nobody_out() -> None:
    limits = LatencyLimits()
    limits.rate.count("p", 1000.0, 1)
    limits.take("s", 1_000_000, 1000.0)
    limits.rate.count("p", 10.0, 1)
    limits.take("s", 10_000, 10.0)
