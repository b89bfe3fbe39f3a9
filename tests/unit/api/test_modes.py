# SPDX-License-Identifier: Apache-2.0
"""Modes of the cloud, of aggregates and of hosts: what is stored, and where a host's comes from."""

import pytest

from nova_vp import wire
from nova_vp.cloud_modes import NOT_SET, CloudModes, modes_text
from nova_vp.core.types.policy import Mode
from nova_vp.db.gate import NEVER_WRITTEN
from nova_vp.wire import codec
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona

ADMIN = Persona("admin")
CLOUDS, AGGREGATES = "/v1/modes/cloud", "/v1/modes/aggregates"
SSDS = "ssd"
V1_2 = {"OpenStack-API-Version": "performance-isolation 1.2"}


@pytest.fixture
def api():
    """Nothing is set there."""
    return Api(cloud.records())


def put(api, where, mode):
    """`where`: the cloud's path, or the name of an aggregate."""
    if where == CLOUDS:
        return api.latest(ADMIN, CLOUDS, "PUT", {"mode": mode})
    return api.latest(ADMIN, AGGREGATES, "PUT", {"aggregate": where, "mode": mode})


def listed(api):
    return api.latest(ADMIN, "/v1/modes").json["modes"]


def test_nothing_is_set_at_first(api):
    assert listed(api) == []
    assert api.stored.modes.changed_since(NEVER_WRITTEN)[1] == CloudModes()


def test_what_is_set_is_listed_and_goes_to_the_agents(api):
    before, _ = api.stored.modes.changed_since(NEVER_WRITTEN)
    assert put(api, SSDS, "observe").json["mode"]["mode"] == "observe"
    assert put(api, CLOUDS, "enforce").json == {
        "mode": {"level": "cloud", "name": "", "mode": "enforce"}
    }
    told = [(one["level"], one["name"], one["mode"], one["hosts_count"]) for one in listed(api)]
    assert told == [("cloud", "", "enforce", 0), ("aggregate", "ssd", "observe", 1)]
    assert {one["by"] for one in listed(api)} == {"user-admin"}
    assert {one["at"] for one in listed(api)} == {"2026-01-02T03:04:05Z"}
    version, modes = api.stored.modes.changed_since(NEVER_WRITTEN)
    assert modes == CloudModes(Mode.ENFORCE, {"ssd": Mode.OBSERVE})
    assert version > before


def test_hosts_that_have_the_clouds_mode_are_counted():
    record = cloud.a_record()
    source = {"level": "cloud", "name": ""}
    record.report["modes"] = {"version": 1, "source": source, "levels": []}
    api = Api([record])
    put(api, CLOUDS, "enforce")
    assert [(one["level"], one["hosts_count"]) for one in listed(api)] == [("cloud", 1)]


def test_null_unsets(api):
    put(api, CLOUDS, "enforce")
    put(api, SSDS, "observe")
    before, _ = api.stored.modes.changed_since(NEVER_WRITTEN)
    assert put(api, CLOUDS, None).json["mode"]["mode"] is None
    assert put(api, SSDS, None).status == 200
    assert put(api, SSDS, None).status == 200, "it was not set"
    version, modes = api.stored.modes.changed_since(NEVER_WRITTEN)
    assert modes == CloudModes()
    assert version > before, "agents take it for news"


def test_names_of_aggregates_differ_by_capital_letters(api):
    put(api, SSDS, "observe")
    put(api, "SSD/rack 7", "advise")
    put(api, "SSD", "enforce")
    assert [one["name"] for one in listed(api)] == ["SSD", "SSD/rack 7", "ssd"]


@pytest.mark.parametrize("body", [{}, {"mode": "sometimes"}, {"mode": "advise", "name": "x"}, []])
def test_a_body_that_says_no_mode(api, body):
    assert api.latest(ADMIN, CLOUDS, "PUT", body).status == 400
    assert api.latest(ADMIN, AGGREGATES, "PUT", body).status == 400
    assert listed(api) == []


@pytest.mark.parametrize("name", ["", " ssd", "ssd ", "ssd\n", "a\u0000", "\ud800", "x" * 256, 7])
def test_a_name_that_no_aggregate_has(api, name):
    """MariaDB takes `ssd ` for `ssd`, and no database takes half a surrogate."""
    asked = {"aggregate": name, "mode": "advise"}
    assert api.latest(ADMIN, AGGREGATES, "PUT", asked).status == 400


def test_no_more_aggregates_than_an_agent_takes(api, monkeypatch):
    monkeypatch.setattr(wire, "MAX_AGGREGATES", 1)
    put(api, SSDS, "observe")
    refused = put(api, "other", "observe")
    assert refused.status == 400
    assert "Unset one of them" in refused.text
    assert put(api, SSDS, "advise").status == 200, "it has one already"
    assert put(api, CLOUDS, "advise").status == 200


def test_the_names_of_aggregates_are_no_longer_together_than_a_message(api, monkeypatch):
    """Else no host would be told any mode again, also not that the cloud observes."""
    shape, _ = codec._SHAPES[wire.MODES]
    monkeypatch.setitem(codec._SHAPES, wire.MODES, (shape, 20_000))
    names = [f"{number}" + "\u00e4" * 250 for number in range(16)]
    statuses = [put(api, name, "enforce").status for name in names]
    assert set(statuses) == {200, 400}
    assert put(api, CLOUDS, "observe").status == 200
    modes = api.stored.modes.changed_since(NEVER_WRITTEN)
    modes_text(modes.version, modes.modes)


@pytest.mark.parametrize("path", ["/v1/modes", CLOUDS, AGGREGATES])
def test_before_1_3_there_are_none(api, path):
    method = "GET" if path == "/v1/modes" else "PUT"
    body = None if method == "GET" else {"mode": "observe"}
    assert api.ask(ADMIN, path, method, body, headers=V1_2).status == 404


def test_hosts_say_where_their_mode_is_set(api):
    sources = {
        one["name"]: one["mode_source"] for one in api.latest(ADMIN, "/v1/hosts").json["hosts"]
    }
    assert sources == {"lab-1": {"level": "aggregate", "name": "ssd"}, "lab-2": None}
    host = api.latest(ADMIN, "/v1/hosts/lab-1").json["host"]
    assert host["mode_source"] == sources["lab-1"]
    assert host["mode_levels"] == cloud.a_mode("enforce")["levels"]
    older = api.latest(ADMIN, "/v1/hosts/lab-2").json["host"]
    assert (older["mode_source"], older["mode_levels"]) == (None, [])


def test_a_server_has_the_mode_of_its_host_unless_it_has_one_of_its_own():
    own = cloud.a_vp(uuid=cloud.NOISY, mode="observe")
    api = Api(
        [cloud.a_record(modes=cloud.a_mode("advise"), mode="advise", vps=[cloud.a_vp(), own])]
    )

    def mode_of(server_id):
        return api.latest(ADMIN, f"/v1/vps/{server_id}").json["vp"]["mode"]

    ssd = {"level": "aggregate", "name": "ssd"}
    assert mode_of(cloud.VICTIM) == {"mode": "advise", "source": ssd}
    assert mode_of(cloud.NOISY)["source"] == {"level": "server", "name": ""}
    assert mode_of(cloud.NOISY)["mode"] == "observe"


def test_a_server_on_a_host_that_does_not_say(api):
    told = api.latest(ADMIN, f"/v1/vps/{cloud.SLEEPER}").json["vp"]["mode"]
    assert told["source"] == {"level": "host", "name": ""}


def test_before_1_3_nobody_is_told_where_a_mode_is_set(api):
    [host, _] = api.ask(ADMIN, "/v1/hosts", headers=V1_2).json["hosts"]
    full = api.ask(ADMIN, "/v1/hosts/lab-1", headers=V1_2).json["host"]
    vp = api.ask(ADMIN, f"/v1/vps/{cloud.VICTIM}", headers=V1_2).json["vp"]
    for one in (host, full):
        assert not {"mode_source", "mode_levels"} & one.keys()
    assert "mode" not in vp


def test_tenants_are_not_told_the_mode_of_their_host(api):
    vp = api.latest(Persona("member"), f"/v1/vps/{cloud.VICTIM}").json["vp"]
    assert "mode" not in vp


def test_a_host_that_has_no_mode_of_its_own_any_more(api):
    body = {"mode": None}
    assert api.latest(ADMIN, "/v1/hosts/lab-1", "PATCH", body).json["host"]["mode"] is None
    assert api.agents.modes == {"lab-1": NOT_SET}
    refused = api.ask(ADMIN, "/v1/hosts/lab-1", "PATCH", body, headers=V1_2)
    assert refused.status == 400
    assert "microversion 1.3" in refused.text


def test_a_long_name_of_an_aggregate_is_cut_in_lists():
    name = "x" * 255
    api = Api([cloud.a_record(modes=cloud.a_mode("enforce", name=name))])
    [host] = api.latest(ADMIN, "/v1/hosts").json["hosts"]
    assert host["mode_source"]["name"] == name[: 255 - len("aggregate:")]
