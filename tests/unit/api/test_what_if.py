# SPDX-License-Identifier: Apache-2.0
"""What a server would meet on each host, and the map of LLC domains: by the reports themselves."""

import pytest

from nova_vp import wire
from nova_vp.core.types.detection import Kind
from tests.decisions import a_decision, a_domain_view, facts
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_agent.publish.digest import digest
from vp_agent.publish.report import report
from vp_scheduler.placement.host_digest import Loss, read_digest
from vp_scheduler.placement.scoring import Ask, score_host

ADMIN = Persona("admin")
V1_2 = {"OpenStack-API-Version": "performance-isolation 1.2"}
MOSTLY_CACHE = wire.pack_resources([Kind.CACHE] * wire.PREDICT_CLASSES)
QUIET, PRESSED = [0] * 10, [30] * 10


def a_digest_domain(number, newcomer=QUIET, resident=QUIET, strict=QUIET, vcpus=1):
    return {
        **{"id": number, "free_mcores": 1500, "cpus": 2, "vcpus": vcpus},
        **{"newcomer": newcomer, "resident": resident, "strict": strict, "resources": MOSTLY_CACHE},
    }


def a_host(name, *digests, homing=True, age_s=3, vps=()):
    domains = cloud.a_report(name)["domains"]
    told = [{**domain, "digest": one} for domain, one in zip(domains, digests, strict=False)]
    return cloud.a_record(name, age_s=age_s, domains=told, homing=homing, vps=list(vps))


def ask(api, body=None, query="", persona=ADMIN):
    body = {"flavor": {"vcpus": 1, "extra_specs": {}}} if body is None else body
    return api.latest(persona, f"/v1/what-if{query}", "POST", body)


def strict(**flavor):
    return {"flavor": {"vcpus": 1, "extra_specs": {"vp:isolation": "strict"}, **flavor}}


def by_host(answer):
    assert answer.status == 200, answer.text
    return {one["host"]: one for one in answer.json["hosts"]}


def test_it_says_what_the_schedulers_scoring_says():
    tables = [list(range(0, 100, 10)), list(range(100, 0, -10)), [40] * 10]
    digests = [a_digest_domain(0, *tables, vcpus=1), a_digest_domain(1, *tables[::-1], vcpus=2)]
    api = Api([a_host("lab-1", *digests)])
    for vcpus in (1, 2, 3):
        for number in (0, 4, 8):
            flavor = {"vcpus": vcpus, "extra_specs": {"vp:expects": str(number)}}
            found = by_host(ask(api, {"flavor": flavor}))["lab-1"]
            message = {"host": "", "epoch": 0, "seq": 0, "age_ms": 0, "known": "", "homing": True}
            place = score_host(
                read_digest({**message, "domains": digests}, 0.0, 0.05), Ask(number, vcpus, 0.05)
            )
            assert found["newcomer_ratio"] == place.losses[Loss.NEWCOMER]
            assert found["resident_ratio"] == place.losses[Loss.RESIDENT]
            assert found["strict_ratio"] == place.losses[Loss.STRICT_HURT]
            assert found["domains"] == list(place.domain_ids)


def test_a_strict_server_is_refused_where_it_or_a_strict_one_loses_too_much():
    api = Api(
        [
            a_host("calm", a_digest_domain(0, PRESSED)),
            a_host("loud", a_digest_domain(0, [60] * 10)),
            a_host("proud", a_digest_domain(0, strict=[60] * 10, resident=[60] * 10)),
        ]
    )
    found = by_host(ask(api, strict()))
    assert {host: one["is_accepted"] for host, one in found.items()} == {
        **{"calm": True, "loud": False, "proud": False}
    }
    assert (found["loud"]["reason"], found["calm"]["reason"]) == ("strict-loss-too-large", "fits")
    assert found["loud"]["resource"] == "cache"
    soft = {(one["reason"], one["is_accepted"]) for one in by_host(ask(api)).values()}
    assert soft == {("fits", True)}, "soft is only preferred"


def test_losses_are_told_by_resource():
    record = a_host("lab-1", a_digest_domain(0), a_digest_domain(1, PRESSED))
    record.report["domains"][1]["newcomer_losses"] = {"cache": [0.9] * 10}
    found = by_host(ask(Api([record])))["lab-1"]
    assert found["domains"] == [0]
    assert found["by_resource"] == {"cache": 0.125, "memory-controller": 0.0, "cpu": 0.25}


def test_where_servers_float_the_worst_domain_counts():
    digests = a_digest_domain(0), a_digest_domain(1, PRESSED)
    record = a_host("lab-1", *digests, homing=False)
    record.report["domains"][1]["newcomer_losses"] = {"cache": [0.9] * 10}
    found = by_host(ask(Api([record])))["lab-1"]
    assert (found["domains"], found["newcomer_ratio"]) == ([], 0.03)
    assert found["by_resource"]["cache"] == 0.9


def test_of_a_host_that_is_silent_or_does_not_say_nothing_is_known(tmp_path):
    records = [
        a_host("silent", a_digest_domain(0), age_s=400),
        cloud.a_record("old"),
    ]
    found = by_host(ask(Api(records), strict()))
    assert {one["reason"] for one in found.values()} == {"unknown"}
    assert all(one["is_accepted"] and one["newcomer_ratio"] is None for one in found.values())
    file = tmp_path / "refuse.conf"
    file.write_text("[vp_scheduler]\nstale_hosts = refuse\n")
    refusing = Api(records, files=[str(file)])
    assert not any(one["is_accepted"] for one in by_host(ask(refusing, strict())).values())
    assert all(one["is_accepted"] for one in by_host(ask(refusing)).values())


def test_a_server_is_taken_for_what_it_was_measured_to_be():
    vp = cloud.a_vp(state=8, interference=None, isolation="strict", sensitivity=[])
    tables = [0] * 8 + [70, 0]
    api = Api(
        [
            a_host("lab-1", a_digest_domain(0), vps=[vp]),
            a_host("lab-2", a_digest_domain(0, tables)),
        ]
    )
    answer = ask(api, {"server_id": cloud.VICTIM})
    newcomer = answer.json["newcomer"]
    assert (newcomer["state"]["number"], newcomer["source"]) == (8, "measured")
    assert newcomer["isolation"] == "strict"
    found = by_host(answer)
    assert found["lab-1"]["reason"] == "runs-here"
    assert found["lab-2"]["newcomer_ratio"] == 0.07
    assert not found["lab-2"]["is_accepted"]


def test_what_was_measured_on_a_host_that_is_silent_is_not_taken_for_its_state():
    vp = cloud.a_vp(state=8, interference=None, sensitivity=[])
    silent = a_host("lab-1", a_digest_domain(0), age_s=400, vps=[vp])
    newcomer = ask(Api([silent]), {"server_id": cloud.VICTIM}).json["newcomer"]
    assert (newcomer["state"], newcomer["source"]) == (None, "unknown")


def test_what_was_learned_of_a_flavor_bounds_what_residents_lose():
    vps = [
        cloud.a_vp(
            uuid=f"0000000{n}-0000-4000-8000-000000000000",
            project_id=str(n) * 32,
            flavor="vp.small",
            image="",
            state=0,
            interference=None,
            sensitivity=[],
        )
        for n in range(1, 6)
    ]
    resident = [10] + [0] * 8 + [50]
    api = Api([a_host("lab-1", a_digest_domain(0, resident=resident), vps=vps)])
    known = ask(api, {"flavor": {"vcpus": 1, "name": "vp.small"}})
    assert known.json["newcomer"]["source"] == "learned"
    assert by_host(known)["lab-1"]["resident_ratio"] == 0.01
    other = ask(api, {"flavor": {"vcpus": 1, "name": "vp.large"}})
    assert other.json["newcomer"]["source"] == "unknown"
    assert by_host(other)["lab-1"]["resident_ratio"] == 0.05


def test_pages():
    api = Api([a_host(f"host-{n}", a_digest_domain(0)) for n in range(5)])
    first = ask(api, query="?limit=2")
    assert [one["host"] for one in first.json["hosts"]] == ["host-0", "host-1"]
    query = first.json["links"][0]["href"].partition("?")[2]
    second = ask(api, query=f"?{query}")
    assert [one["host"] for one in second.json["hosts"]] == ["host-2", "host-3"]
    last = ask(api, query="?limit=2&marker=host-3")
    assert [one["host"] for one in last.json["hosts"]] == ["host-4"]
    assert last.json["links"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"server_id": "x", "flavor": {"vcpus": 1}},
        {"flavor": {}},
        {"flavor": {"vcpus": 0}},
        {"flavor": {"vcpus": 1, "extra_specs": {"vp:isolation": "sometimes"}}},
    ],
)
def test_questions_that_are_none(body):
    answer = ask(Api([]), body)
    assert answer.status == 400


def test_a_server_that_nobody_knows():
    assert ask(Api([]), {"server_id": cloud.UNKNOWN}).status == 404


def test_before_1_3_nobody_asks():
    api = Api([])
    body = {"flavor": {"vcpus": 1}}
    assert api.ask(ADMIN, "/v1/what-if", "POST", body, headers=V1_2).status == 404
    assert api.ask(ADMIN, "/v1/hosts?heat=true", headers=V1_2).status == 400


def test_the_map_of_llc_domains():
    vps = [
        cloud.a_vp(state=8, domains=[0]),
        cloud.a_vp(uuid=cloud.NOISY, state=8, domains=[0, 1], interference=None),
        cloud.a_vp(uuid=cloud.SLEEPER, state=None, domains=[1], interference=None),
    ]
    hurt = {"kind": "cache", "since": cloud.NOW_S, "suspects": [], "refused": []}
    vps[0]["interference"] = hurt
    nodes = [
        {"node": 0, "misses_per_s": 2.0, "mpki": 1.0, "limit_misses_per_s": None, "is_hot": True}
    ]
    api = Api([cloud.a_record("lab-1", vps=vps, nodes=nodes), cloud.a_record("lab-2", age_s=400)])
    [host, silent] = api.latest(ADMIN, "/v1/hosts?heat=true").json["hosts"]
    first, second = host["domains"]
    assert (first["servers_count"], first["hurt_count"], second["hurt_count"]) == (2, 1, 0)
    assert [(s["state"]["number"], s["servers_count"]) for s in first["states"]] == [(8, 2)]
    assert second["servers_count"] == 2
    assert [s["servers_count"] for s in second["states"]] == [1], "one has no state"
    assert host["nodes"] == [
        {"node": 0, "misses_per_s": 2.0, "limit_misses_per_s": None, "is_hot": True}
    ]
    assert (silent["domains"], silent["nodes"]) == ([], [])
    [plain, _] = api.latest(ADMIN, "/v1/hosts").json["hosts"]
    assert "domains" not in plain


def test_reports_have_what_schedulers_place_by():
    decision = a_decision(domains=tuple(a_domain_view(n) for n in range(2)))
    sent = report(decision, facts(), wire.MessageVersion(1, 1))
    wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, sent))
    told = digest(decision, facts(), wire.MessageVersion(1, 1), now_s=decision.at_s)
    assert [domain["digest"] for domain in sent["domains"]] == told["domains"]
    assert sent["homing"] == told["homing"]


@pytest.mark.parametrize("marker", ["%00", "a%0Ab"])
def test_a_marker_that_no_database_takes_is_refused(marker):
    assert ask(Api(cloud.records()), query=f"?marker={marker}").status == 400
