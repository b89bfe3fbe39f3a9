# SPDX-License-Identifier: Apache-2.0
"""How much servers lose: exactly to operators, coarsely to tenants, and only since 1.4."""

import pytest

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona

ADMIN, READER = Persona("admin"), Persona("reader")
V1_3 = {"OpenStack-API-Version": "performance-isolation 1.3"}
V = f"/v1/vps/{cloud.VICTIM}"


def losing(ratio, kind="cache", uuid=cloud.VICTIM, **changes):
    found = {"kind": kind, "since": cloud.NOW_S - 70, "suspects": [], "refused": []}
    told = found if ratio is None else {**found, "loss_ratio": ratio}
    return cloud.a_vp(uuid=uuid, interference=told, **changes)


def api_of(*vps, age_s=3, **changes):
    return Api([cloud.a_record(age_s=age_s, vps=list(vps), **changes)])


def told(api, persona, path=V):
    return api.latest(persona, path).json["vp"]["degradation"]


def test_an_operator_is_told_how_much_to_what_since_when_and_what_is_done():
    expected = {
        "ratio": 0.213,
        "kind": "cache",
        "since": "2026-01-02T03:02:55Z",
        "response": "none",
    }
    api = api_of(losing(0.21349))
    assert told(api, ADMIN) == expected
    assert api.latest(ADMIN, "/v1/vps").json["vps"][0]["degradation"] == expected
    assert api.latest(ADMIN, "/v1/hosts/lab-1").json["host"]["vps"][0]["degradation"] == expected


@pytest.mark.parametrize(
    ("ratio", "percent"),
    [(0.0, 0), (0.004, 5), (0.049, 5), (0.051, 10), (0.149, 10), (0.21, 20), (1.0, 100)],
)
def test_a_tenant_is_told_about_how_much_and_the_minute(ratio, percent):
    api = api_of(losing(ratio))
    expected = {"percent": percent, "since": "2026-01-02T03:02:00Z", "response": "none"}
    assert told(api, READER) == expected
    assert api.latest(READER, "/v1/vps").json["vps"][0]["degradation"] == expected


def test_who_loses_nothing():
    well = {"ratio": 0.0, "kind": None, "since": None, "response": None}
    assert told(api_of(cloud.a_vp()), ADMIN) == well
    assert told(api_of(cloud.a_vp()), READER) == {"percent": 0, "since": None, "response": None}


@pytest.mark.parametrize("persona", [ADMIN, READER])
def test_what_nobody_knows(persona):
    for api in (api_of(cloud.a_vp(state=None)), api_of(losing(0.2), age_s=400)):
        assert told(api, persona) is None
        assert api.latest(persona, "/v1/vps").json["vps"][0]["degradation"] is None


def test_an_agent_of_the_release_before_does_not_say_how_much():
    api = api_of(losing(None))
    assert told(api, ADMIN)["ratio"] is None
    assert told(api, ADMIN)["kind"] == "cache"
    assert told(api, READER)["percent"] is None


def test_a_word_that_is_not_ours_is_unknown_to_a_tenant(monkeypatch):
    monkeypatch.setattr("vp_api.views.tenant.RESPONSES", frozenset())
    assert told(api_of(losing(0.2)), READER)["response"] == "unknown"


def listed(api, persona, query):
    return [vp["server_id"] for vp in api.latest(persona, f"/v1/vps?{query}").json["vps"]]


def three():
    return api_of(
        losing(0.1, uuid=cloud.NOISY),
        losing(0.3),
        cloud.a_vp(uuid=cloud.ORPHAN),
    )


@pytest.mark.parametrize("persona", [ADMIN, READER])
def test_who_loses_most_comes_first(persona):
    worst_first = [cloud.VICTIM, cloud.NOISY, cloud.ORPHAN]
    assert listed(three(), persona, "sort=degradation:desc") == worst_first
    assert listed(three(), persona, "sort=degradation") == worst_first[::-1]


def test_no_marker_tells_a_tenant_what_exactly_a_server_loses():
    answer = three().latest(READER, "/v1/vps?sort=degradation:desc&limit=1")
    (link,) = answer.json["links"]
    assert f"marker={cloud.VICTIM}" in link["href"]
    assert "300" not in answer.text
    guessed = three().latest(READER, '/v1/vps?sort=degradation&marker=[1,"x"]')
    assert guessed.status == 400


def test_a_history_tells_it_minute_by_minute():
    api = api_of(losing(0.21349, **cloud.asked()))
    for path in (f"{V}/history", "/v1/hosts/lab-1/history"):
        (minute,) = api.latest(ADMIN, path).json["history"]
        one = minute if "host" in minute else minute["vps"][0]
        assert (one["degradation_ratio"], one["waiting_ratio"]) == (0.213, 0.1234)
    (minute,) = api.latest(READER, f"{V}/history").json["history"]
    assert (minute["degradation_percent"], minute["waiting_ratio"]) == (20, 0.12)


def test_a_domain_of_the_heat_map_says_how_bad_it_is():
    (host,) = api_of(losing(0.3)).latest(ADMIN, "/v1/hosts?heat=true").json["hosts"]
    assert [one["worst_ratio"] for one in host["domains"]] == [0.3, None]


def test_before_1_4_nothing_of_it_is_told():
    api = api_of(losing(0.3, **cloud.asked()))
    assert '"waiting_ratio":0.1234' in api.latest(ADMIN, f"{V}/history").text
    for path in (V, "/v1/vps", f"{V}/history", "/v1/hosts/lab-1", "/v1/hosts/lab-1/history"):
        told = api.ask(ADMIN, path, headers=V1_3)
        assert told.status == 200
        assert "degradation" not in told.text
        # As it is now a server had it before.
        assert ("waiting_ratio" in told.text) is (path == V)
    assert "worst_ratio" not in api.ask(ADMIN, "/v1/hosts?heat=true", headers=V1_3).text
    assert api.ask(ADMIN, "/v1/vps?sort=degradation", headers=V1_3).status == 400
