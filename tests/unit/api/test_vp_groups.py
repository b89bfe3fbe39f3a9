# SPDX-License-Identifier: Apache-2.0
"""The VP of several servers that a server is part of: who is in it, and its state."""

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_api.vp_groups import MOST_HOSTS

SECOND, STRANGER = "77777777-7777-4777-8777-777777777771", "77777777-7777-4777-8777-777777777772"
PATH = f"/v1/vps/{cloud.VICTIM}"


def a_server(uuid=cloud.VICTIM, name="victim", project_id=cloud.ALPHA, group="shop", **changes):
    about = cloud.asked(group, f"{project_id}/{group}")
    return cloud.a_vp(uuid=uuid, name=name, project_id=project_id, **about, **changes)


def api(*on_second, age_s=3):
    """The victim on lab-1, these servers on lab-2."""
    first, second = [a_server()], list(on_second)
    return Api([cloud.a_record("lab-1", vps=first), cloud.a_record("lab-2", age_s, vps=second)])


def group_of(asked: Api, who="reader"):
    return asked.latest(Persona(who), PATH).json["vp"]["group_state"]


QUIET = cloud.metrics(mpki=0.0, l2_mpki=0.5, memory_factor=0.0, cpi=0.5, cpu_cores=4.0)


def test_its_servers_are_found_on_every_host_and_counted_together():
    told = group_of(api(a_server(SECOND, "second", metrics=QUIET)), "admin")
    assert [(one["server_id"], one["host"]) for one in told["servers"]] == [
        (cloud.VICTIM, "lab-1"),
        (SECOND, "lab-2"),
    ]
    assert told["measured_servers"] == 2
    # 0.4 and 8 instructions a cycle: 20.5 / 21.
    assert round(told["metrics"]["mpki"], 3) == 0.976
    # 0.976 of 1.917 references miss.
    assert told["state"]["number"] == 3


def test_a_tenant_is_told_its_servers_and_the_state_but_no_rates_and_no_hosts():
    asked = api(a_server(SECOND, "second", metrics=QUIET))
    told = group_of(asked)
    assert told == {
        "servers": [
            {"server_id": cloud.VICTIM, "name": "victim"},
            {"server_id": SECOND, "name": "second"},
        ],
        "measured_servers": 2,
        "state": group_of(asked, "admin")["state"],
    }


def test_a_group_of_the_same_name_in_another_project_is_another_vp():
    told = group_of(api(a_server(STRANGER, "stranger", project_id=cloud.BETA)))
    assert [one["server_id"] for one in told["servers"]] == [cloud.VICTIM]
    assert told["measured_servers"] == 1


def test_servers_of_other_groups_are_not_in_it():
    told = group_of(api(a_server(SECOND, "second", group="else"), a_server(STRANGER, group="")))
    assert [one["server_id"] for one in told["servers"]] == [cloud.VICTIM]


def test_whose_host_is_silent_is_in_it_and_not_measured():
    told = group_of(api(a_server(SECOND, "second", metrics=QUIET), age_s=500))
    assert [one["server_id"] for one in told["servers"]] == [cloud.VICTIM, SECOND]
    assert told["measured_servers"] == 1
    assert told["state"]["number"] == 8


def test_of_two_hosts_that_claim_a_server_the_one_counts_that_was_heard_last():
    twin = a_server(metrics=QUIET)
    told = group_of(api(twin, a_server(SECOND, "second", metrics=None), age_s=60), "admin")
    assert [(one["server_id"], one["host"]) for one in told["servers"]] == [
        (cloud.VICTIM, "lab-1"),
        (SECOND, "lab-2"),
    ]
    assert told["measured_servers"] == 1


def test_a_server_of_its_own_is_in_none():
    asked = Api([cloud.a_record("lab-1", vps=[a_server(group="")])])
    assert group_of(asked) is None
    assert "group_state" not in asked.ask(Persona("reader"), PATH).json["vp"]


def listed(asked: Api, who="reader"):
    return {one["server_id"]: one for one in asked.latest(Persona(who), "/v1/vps").json["vps"]}


def test_lists_have_the_state_of_the_group_of_each_server():
    asked = api(
        a_server(SECOND, "second", metrics=QUIET),
        a_server(STRANGER, "alone", group="", metrics=QUIET),
    )
    for who in ("reader", "admin"):
        told = listed(asked, who)
        shown = group_of(asked, who)
        for uuid in (cloud.VICTIM, SECOND):
            assert told[uuid]["group"] == "shop"
            assert told[uuid]["group_state"] == {
                "servers_count": 2,
                "measured_servers": 2,
                "state": shown["state"],
            }
        assert (told[STRANGER]["group"], told[STRANGER]["group_state"]) == ("", None)
        assert not any("group" in one for one in asked.ask(Persona(who), "/v1/vps").json["vps"])


def test_a_page_has_the_state_of_the_whole_group():
    """Of the servers on other pages too."""
    asked = api(a_server(SECOND, "second", metrics=QUIET))
    page = asked.latest(Persona("reader"), "/v1/vps?limit=1").json["vps"]
    assert [one["group_state"]["servers_count"] for one in page] == [2]


def test_reports_of_so_many_hosts_are_read_and_no_more():
    """The others' servers are part of the VP, and count as not measured."""
    hosts = MOST_HOSTS + 3
    uuids = [f"77777777-7777-4777-8777-{number:012d}" for number in range(hosts)]
    records = [
        cloud.a_record(f"lab-{number:03d}", vps=[a_server(uuid, f"server-{number}")])
        for number, uuid in enumerate(uuids)
    ]
    told = listed(Api(records))[uuids[0]]["group_state"]
    assert (told["servers_count"], told["measured_servers"]) == (hosts, MOST_HOSTS)
