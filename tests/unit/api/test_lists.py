# SPDX-License-Identifier: Apache-2.0
"""Pages, sorting, filters and ranges of time, of every list; microversions; the document."""

import itertools
import json
from dataclasses import replace
from urllib.parse import parse_qs, quote, urlsplit

import jsonschema
import pytest

from nova_vp.wire.schema_types import LEVELS
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from tests.unit.api.test_isolation import fill
from vp_api.routes import PUBLIC, ROUTES
from vp_api.versions import NEWEST

ADMIN, READER = Persona("admin"), Persona("reader")
V = f"/v1/vps/{cloud.VICTIM}"
LISTS = {
    path: operation
    for path, methods in ROUTES.items()
    if (operation := methods.get("GET")) and "limit" in operation.query["properties"]
}
SORTS = [
    (path, sort)
    for path, operation in LISTS.items()
    for sort in operation.query["properties"].get("sort", {"enum": []})["enum"]
    if ":" in sort
]


@pytest.fixture(scope="module")
def api():
    return Api()


def pages(api, persona, path):
    """Each page's items, by following the links."""
    for _ in range(50):
        answer = api.latest(persona, path)
        assert answer.status == 200, answer.text
        body = answer.json
        links = body.pop("links")
        ((_, items),) = body.items()
        yield items
        if not links:
            return
        path = _relative(links[0]["href"])
    pytest.fail("the list does not end")


def _relative(url):
    parts = urlsplit(url)
    assert parts.netloc == "localhost"
    return f"{parts.path}?{parts.query}"


def listed(api, persona, path):
    return list(itertools.chain.from_iterable(pages(api, persona, path)))


@pytest.mark.parametrize(("path", "sort"), SORTS)
def test_pages_make_up_the_whole_list(api, path, sort):
    path = f"{fill(path)}?sort={sort}"
    whole = listed(api, ADMIN, path)
    in_pages = list(pages(api, ADMIN, f"{path}&limit=1"))
    assert [len(page) for page in in_pages] == [1] * len(whole)
    assert list(itertools.chain.from_iterable(in_pages)) == whole
    assert len(whole) > 1 or "profiles" in path
    other_way = sort.replace("asc", "x").replace("desc", "asc").replace("x", "desc")
    assert listed(api, ADMIN, path.replace(sort, other_way)) == whole[::-1]


def test_a_list_is_ascending_unless_asked_otherwise(api):
    found = listed(api, ADMIN, "/v1/vps?sort=name&limit=1")
    assert found == listed(api, ADMIN, "/v1/vps?sort=name:asc")


@pytest.mark.parametrize("sort", ["", "&sort=name:desc", "&sort=since"])
def test_the_id_of_the_last_item_is_a_marker(api, sort):
    whole = listed(api, ADMIN, f"/v1/vps?limit=1000{sort}")
    for place, vp in enumerate(whole):
        path = f"/v1/vps?limit=1000&marker={vp['server_id']}{sort}"
        assert listed(api, ADMIN, path) == whole[place + 1 :]


@pytest.mark.parametrize(
    ("path", "resource", "id_of"),
    [
        ("/v1/hosts", "hosts", "name"),
        ("/v1/actions", "actions", "id"),
        ("/v1/escalations", "escalations", "id"),
        ("/v1/overlays", "overlays", "id"),
        ("/v1/profiles", "profiles", "id"),
        ("/v1/usage", "usage", "server_id"),
    ],
)
def test_every_list_begins_after_an_id(api, path, resource, id_of):
    whole = api.latest(ADMIN, path).json[resource]
    marker = f"{'&' if '?' in path else '?'}marker={quote(whole[0][id_of])}"
    assert api.latest(ADMIN, f"{path}{marker}").json[resource] == whole[1:]


def test_a_tenant_is_not_told_whether_a_neighbour_is_there(api):
    (foreign,) = [
        vp["server_id"] for vp in listed(api, ADMIN, "/v1/vps") if vp["project_id"] == cloud.BETA
    ][:1]
    told = []
    for marker in (foreign, cloud.UNKNOWN):
        answer = api.latest(READER, f"/v1/vps?marker={marker}")
        (fault,) = answer.json["errors"]
        assert (answer.status, fault["title"]) == (400, "The request is not valid")
        del fault["request_id"]
        told.append(json.dumps(fault).replace(marker, "ID"))
    assert told[0] == told[1]


def test_a_tenant_pages_through_its_own_alone(api):
    found = list(pages(api, READER, "/v1/vps?limit=1&sort=name:asc"))
    assert [[vp["name"] for vp in page] for page in found] == [["sleeper"], ["victim"]]


@pytest.mark.parametrize("path", ["/v1/vps", "/v1/hosts", "/v1/actions", "/v1/escalations"])
@pytest.mark.parametrize(
    "marker", ["x", "{}", "[]", "[1,2,3,4]", '["a","b","c"]', "[" * 900, '["\\u0000","",""]']
)
def test_a_marker_of_nobodys(api, path, marker):
    answer = api.latest(ADMIN, f"{path}?marker={quote(marker)}")
    assert answer.status == 400
    assert answer.json["errors"][0]["code"] == "performance-isolation.bad-request"


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "1.5", "", "9" * 30])
def test_a_limit_that_is_none(api, limit):
    assert api.latest(ADMIN, f"/v1/vps?limit={limit}").status == 400


def names(api, persona, path):
    return [one["name"] for one in listed(api, persona, path)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("name=noisy", ["noisy"]),
        (f"project_id={cloud.ALPHA}", ["victim", "sleeper"]),
        ("host=lab-2", ["sleeper"]),
        ("state=8", ["victim"]),
        ("state=0", []),  # its host is silent: nobody knows
        ("hurt_by_neighbour=true", ["victim"]),
        ("hurt_by_neighbour=false", ["noisy"]),  # nobody ever measured the orphan
        (f"project_id={cloud.ALPHA}&name=noisy", []),
    ],
)
def test_servers_are_filtered(api, query, expected):
    assert names(api, ADMIN, f"/v1/vps?{query}") == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("mode=observe", ["lab-2"]),
        ("is_stale=true", ["lab-2"]),
        ("is_stale=false", ["lab-1"]),
        ("mode=observe&is_stale=false", []),
        ("sort=hurt_count:desc", ["lab-1", "lab-2"]),
    ],
)
def test_hosts_are_filtered(api, query, expected):
    assert names(api, ADMIN, f"/v1/hosts?{query}") == expected


@pytest.mark.parametrize(
    ("sort", "expected"),
    [("name", "abc"), ("hurt_count", "bca"), ("vps_count", "cab")],
)
def test_hosts_are_sorted_by_what_is_asked(sort, expected):
    hurt = {"kind": "cache", "since": cloud.NOW_S, "suspects": [], "refused": []}
    records = [
        cloud.a_record(
            host,
            vps=[
                cloud.a_vp(
                    uuid=f"{host * 8}-0000-4000-8000-{number:012}",
                    interference=hurt if number < hurt_count else None,
                )
                for number in range(vps_count)
            ],
        )
        for host, hurt_count, vps_count in (("a", 2, 2), ("b", 0, 3), ("c", 1, 1))
    ]
    api = Api(records)
    assert names(api, ADMIN, f"/v1/hosts?sort={sort}") == list(expected)
    assert names(api, ADMIN, f"/v1/hosts?sort={sort}:desc") == list(expected[::-1])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["6f1c2d3e-2", "6f1c2d3e-1", "6f1c2d3e-0"]),
        ("result=proposed", ["6f1c2d3e-2"]),
        ("host=lab-2", []),
        (f"server_id={cloud.VICTIM.upper()}", ["6f1c2d3e-2", "6f1c2d3e-1"]),
        (f"project_id={cloud.ALPHA}", []),
        ("begin=2026-01-02T03:04:00Z", ["6f1c2d3e-2"]),
        ("end=2026-01-02T03:04:00Z", ["6f1c2d3e-1", "6f1c2d3e-0"]),
    ],
)
def test_actions_are_filtered(api, query, expected):
    assert [one["id"] for one in listed(api, ADMIN, f"/v1/actions?{query}")] == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [(cloud.VICTIM, 7260.0), (cloud.NOISY, 3600.0), (cloud.GONE, 60.0)]),
        (f"project_id={cloud.ALPHA}", [(cloud.VICTIM, 7260.0)]),
        (f"server_id={cloud.NOISY}", [(cloud.NOISY, 3600.0)]),
        ("end=2026-01-02T03:00:00Z", [(cloud.VICTIM, 3600.0), (cloud.GONE, 60.0)]),
        ("start=2026-01-02T03:00:00Z", [(cloud.VICTIM, 3660.0), (cloud.NOISY, 3600.0)]),
        ("start=2026-01-02T02:00:01Z&end=2026-01-02T03:00:00Z", []),
    ],
)
def test_usage_is_filtered(api, query, expected):
    found = listed(api, ADMIN, f"/v1/usage?{query}")
    assert [(one["server_id"], one["booked_s"]) for one in found] == expected


def test_a_tenant_is_told_what_its_servers_used_and_neither_where_nor_beside_whom(api):
    [own] = listed(api, READER, "/v1/usage")
    assert own == {
        "server_id": cloud.VICTIM,
        "name": "victim",
        "project_id": cloud.ALPHA,
        "booked_s": 7260.0,
        "over_s": 120.0,
        "permit_misses": 7.26e9,
        "pollution_misses": 9.02e9,
        "cpu_taken_core_s": 25.0,
    }
    assert listed(api, READER, f"/v1/usage?project_id={cloud.ALPHA}") == [own]
    assert api.latest(READER, f"/v1/usage?project_id={cloud.BETA}").status == 403


@pytest.mark.parametrize("name", ["start", "end"])
def test_hours_that_no_calendar_has(api, name):
    assert api.latest(ADMIN, f"/v1/usage?{name}=2026-02-30T00:00:00Z").status == 400


def test_usage_is_of_1_1(api):
    assert api.ask(ADMIN, "/v1/usage").status == 404


def test_escalations_are_filtered(api):
    def ids(query):
        return [one["id"] for one in listed(api, ADMIN, f"/v1/escalations?{query}")]

    assert ids("status=proposed") == [cloud.ESCALATION]
    assert ids("status=received&host=lab-1") == [cloud.OLD_ESCALATION]
    assert ids("host=lab-2") == []


def later(told):
    return {**told, "mode": "bystander"}


def test_modes_that_only_a_later_release_knows_are_told_as_the_tightest():
    """Messages are stored as their agents wrote them."""
    record, asked = cloud.a_record(vps=[cloud.a_vp()]), cloud.an_escalation()
    source = {"level": "host", "name": ""}
    modes = {"version": 1, "source": source, "levels": [later(source)]}
    record.report.update(mode="bystander", modes=modes, vps=[later(record.report["vps"][0])])
    api = Api([replace(record, mode="observe")])
    api.stored.ledger.add(asked["id"], asked["host"], json.dumps(later(asked)), cloud.NOW)
    host = api.latest(ADMIN, "/v1/hosts/lab-1").json["host"]
    assert [one["mode"] for one in host["mode_levels"]] == ["observe"]
    assert api.latest(ADMIN, V).json["vp"]["mode"]["mode"] == "observe"
    minutes = api.latest(ADMIN, "/v1/hosts/lab-1/history").json["history"]
    assert [one["mode"] for one in minutes] == ["observe"]
    escalation = api.latest(ADMIN, f"/v1/escalations/{asked['id']}").json["escalation"]
    assert escalation["mode"] == "observe"


@pytest.mark.parametrize(
    "query", ["begin=yesterday", "begin=2026-13-01T00:00:00Z", "end=0001-01-01T00:00:00Z"]
)
def test_moments_that_no_calendar_has(api, query):
    assert api.latest(ADMIN, f"/v1/actions?{query}").status == 400


def a_history(minutes):
    """lab-1's and its servers', the first minute after that of cloud.NOW."""
    return [
        cloud.a_record(age_s=-60 * (minute + 1), seq=100 + minute, vps=[cloud.a_vp(state=minute)])
        for minute in range(minutes)
    ]


def states(api, persona, query):
    found = list(pages(api, persona, f"{V}/history?{query}"))
    return [[one["state"]["number"] for one in page] for page in found]


SPAN = "begin=2026-01-02T03:05:00Z&end=2026-01-02T03:11:00Z"


@pytest.mark.parametrize("persona", [ADMIN, READER])
def test_a_history_in_pages_and_thinned_out(persona):
    api = Api(a_history(6))
    assert states(api, persona, SPAN) == [[0, 1, 2, 3, 4, 5]]
    assert states(api, persona, f"{SPAN}&limit=4") == [[0, 1, 2, 3], [4, 5]]
    assert states(api, persona, f"{SPAN}&every=5") == [[0, 5]]
    later = SPAN.replace("T03:05", "T03:10")
    assert states(api, persona, later) == [[5]]
    assert states(api, persona, "begin=2026-01-02T04:00:00Z&end=2026-01-02T04:01:00Z") == [[]]


def test_a_page_that_begins_after_the_end_is_empty():
    api = Api(a_history(3))
    beyond = f"{SPAN}&marker=2026-01-03T00:00:00Z"
    for path in (f"{V}/history", "/v1/hosts/lab-1/history"):
        assert api.latest(ADMIN, f"{path}?{beyond}").json == {"history": [], "links": []}


def test_a_profile_of_the_longest_name_is_found_by_its_id():
    image = "01234567-89ab-4def-8123-456789abcdef"
    api = Api([cloud.a_record(vps=[cloud.a_vp(flavor="\U0001f600" * 255, image=image)])])
    (listed_one,) = listed(api, ADMIN, "/v1/profiles")
    told = api.latest(ADMIN, f"/v1/profiles/{listed_one['id']}")
    assert told.json["profile"] == listed_one


@pytest.mark.parametrize(
    "query",
    [
        "begin=2026-01-02T03:05:00Z&end=2026-01-02T03:04:00Z",
        "begin=2025-01-02T03:05:00Z&end=2026-01-02T03:04:00Z",
        "every=2",
        "marker=x",
    ],
)
def test_spans_that_are_none(api, query):
    for path in (f"{V}/history", "/v1/hosts/lab-1/history"):
        assert api.latest(ADMIN, f"{path}?{query}").status == 400


def test_the_history_of_a_host_tells_of_all_who_were_there(api):
    (minute,) = listed(api, ADMIN, f"/v1/hosts/lab-1/history?{SPAN.replace('03:05', '03:04')}")
    assert minute["hurt_count"] == 1
    assert [vp["kind"] for vp in minute["vps"]] == ["cache", None, None]
    assert minute["vps"][1]["metrics"]["misses_per_s"] == 2.5e6
    assert api.latest(ADMIN, "/v1/hosts/lab-9/history").status == 404


def test_a_server_that_was_somebody_elses_then_is_not_told_to_its_owner_of_now():
    vps = [cloud.a_vp(project_id=cloud.GAMMA)], [cloud.a_vp()]
    vps[0][0]["actions"] = [cloud.an_action(id="theirs", uuid=cloud.VICTIM)]
    vps[1][0]["actions"] = [cloud.an_action(id="ours", uuid=cloud.VICTIM)]
    api = Api([cloud.a_record(age_s=60 - 60 * n, seq=n, vps=vp) for n, vp in enumerate(vps)])
    query = "begin=2026-01-02T03:00:00Z&end=2026-01-02T03:05:00Z"
    assert [len(page) for page in states(api, ADMIN, query)] == [2]
    assert [len(page) for page in states(api, READER, query)] == [1]
    assert len(listed(api, ADMIN, f"{V}/actions")) == 2
    assert len(listed(api, READER, f"{V}/actions")) == 1


def many_actions():
    """Some of them within one second."""
    seconds = (5, 5, 5, 4, 3, 3, 1)
    return [
        cloud.an_action(id=f"a-{number}", at=cloud.NOW_S - second, detail=str(number))
        for number, second in enumerate(seconds)
    ]


BEGIN = "2026-01-02T03:04:00Z"


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("persona", [ADMIN, READER])
def test_actions_of_a_server_in_pages(persona, limit):
    api = Api([cloud.a_record(vps=[cloud.a_vp(actions=many_actions())])])
    whole = listed(api, persona, f"{V}/actions")
    seconds = ["04", "02", "02", "01", "00", "00", "00"] if persona is ADMIN else ["00"] * 7
    assert [one["at"][-3:-1] for one in whole] == seconds
    assert listed(api, persona, f"{V}/actions?limit={limit}") == whole
    span = "begin=2026-01-02T03:04:01Z&end=2026-01-02T03:04:03Z"
    found = listed(api, persona, f"{V}/actions?{span}&limit={limit}")
    assert found == (whole[1:4] if persona is ADMIN else [])
    assert listed(api, persona, f"{V}/actions?begin={BEGIN}&limit={limit}") == whole


def test_a_tenant_does_not_find_out_a_second_by_asking_often(api):
    """Neither by ranges, nor by the order of a list, nor by markers of its own making."""
    minute = listed(api, READER, f"{V}/actions")[0]["at"]
    path = f"{V}/actions?begin={minute[:-3]}"
    found = [listed(api, READER, f"{path}{second:02}Z") for second in range(60)]
    assert found == [found[0]] * 60
    own = listed(api, READER, "/v1/vps?sort=since&limit=1")
    assert own == listed(api, READER, "/v1/vps?sort=since")
    link = api.latest(READER, "/v1/vps?sort=since&limit=1").json["links"][0]["href"]
    assert parse_qs(urlsplit(link).query)["marker"] == [own[0]["server_id"]]
    values = quote(json.dumps([0, own[0]["server_id"]]))
    assert api.latest(ADMIN, f"/v1/vps?sort=since&marker={values}").status == 200
    assert api.latest(READER, f"/v1/vps?sort=since&marker={values}").status == 400
    markers = [f"{V}/actions?marker={minute[:-3]}{second:02}Z~0" for second in range(60)]
    assert len({json.dumps(listed(api, READER, marker)) for marker in markers}) == 1


def test_a_server_that_is_gone_keeps_its_name_in_what_was_done():
    noisy = cloud.a_vp(uuid=cloud.NOISY, name="noisy", actions=[cloud.an_action()])
    api = Api([cloud.a_record(age_s=9, vps=[cloud.a_vp(), noisy]), cloud.a_record(seq=42, vps=[])])
    [told] = listed(api, ADMIN, "/v1/actions")
    assert (told["server"]["name"], told["victim"]["name"]) == ("noisy", "victim")


def test_whether_a_server_is_hurt_is_not_known_before_it_was_measured():
    young = cloud.a_vp(state=None, since=None, incomplete="first-sample", metrics=None)
    api = Api([cloud.a_record(vps=[young])])
    for persona in (ADMIN, Persona("member")):
        [told] = listed(api, persona, "/v1/vps")
        assert told["hurt_by_neighbour"] is None
        assert listed(api, persona, "/v1/vps?hurt_by_neighbour=false") == []
        [minute] = listed(api, persona, f"{V}/history")
        assert minute["hurt_by_neighbour"] is None
    assert api.latest(ADMIN, "/v1/hosts/lab-1").json["host"]["hurt_count"] == 0


def test_two_hosts_that_used_one_id():
    reports = [cloud.a_record(name, proposals=[cloud.a_cap()]) for name in ("lab-1", "lab-2")]
    api = Api(reports)
    path = "/v1/actions/6f1c2d3e-2"
    answer = api.latest(ADMIN, f"{path}/accept", "POST", {})
    assert answer.status == 409
    assert "lab-1, lab-2" in answer.text
    assert api.latest(ADMIN, f"{path}/accept?host=lab-2", "POST", {}).status == 200
    assert api.latest(ADMIN, f"{path}/undo?host=lab-1", "POST", {}).status == 200
    assert api.agents.accepted == [("lab-2", "6f1c2d3e-2")]
    assert api.agents.undone == [("lab-1", "6f1c2d3e-2")]


def test_who_runs_where_and_who_suffers(api):
    host = api.latest(ADMIN, "/v1/hosts/lab-1").json["host"]
    (contention,) = host["contention"]
    assert [server["name"] for server in contention["servers"]] == ["victim"]
    domains = [domain for cell in host["cells"] for domain in cell["domains"]]
    assert [[one["name"] for one in d["servers"]] for d in domains] == [
        ["victim", "orphan"],
        ["noisy"],
    ]
    assert api.latest(ADMIN, "/v1/hosts/lab-2").json["host"]["contention"] == []


def of_domains(host):
    return [domain.get("llc_permits") for cell in host["cells"] for domain in cell["domains"]]


@pytest.mark.parametrize(
    ("option", "free"),
    [("", [None, None]), ("llc_permits_per_domain = 100000", [0.0, 99100.0])],
)
def test_what_is_booked_and_what_is_free(tmp_path, option, free):
    records = cloud.records()
    for domain, booked in zip(records[0].report["domains"], (120000.0, 900.0), strict=True):
        domain["llc_permits"] = booked
    (tmp_path / "vp-api.conf").write_text(f"[vp_scheduler]\n{option}\n")
    api = Api(records, files=[str(tmp_path / "vp-api.conf")])
    told = of_domains(api.latest(ADMIN, "/v1/hosts/lab-1").json["host"])
    assert [one["booked"] for one in told] == [120000.0, 900.0]
    assert [one["free"] for one in told] == free
    assert of_domains(api.ask(ADMIN, "/v1/hosts/lab-1").json["host"]) == [None, None]


def test_an_agent_that_does_not_say_what_is_booked(api):
    assert of_domains(api.latest(ADMIN, "/v1/hosts/lab-1").json["host"]) == [None, None]


def domains_of(answer):
    return [domain for cell in answer.json["host"]["cells"] for domain in cell["domains"]]


def test_operators_are_told_what_a_newcomer_would_cost_by_resource(api):
    for domain in domains_of(api.latest(ADMIN, "/v1/hosts/lab-1")):
        assert domain["newcomer_losses"]["cpu"] == [0.25] * 10
        assert domain["newcomer_losses"]["cache"][9] == 0.125
    assert not any(
        "newcomer_losses" in one for one in domains_of(api.ask(ADMIN, "/v1/hosts/lab-1"))
    )


def test_of_an_older_agent_it_is_not_known_what_a_newcomer_would_cost():
    record = cloud.a_record("older")
    for domain in record.report["domains"]:
        del domain["newcomer_losses"]
    for domain in domains_of(Api([record]).latest(ADMIN, "/v1/hosts/older")):
        assert domain["newcomer_losses"] is None


def test_an_aggressor_that_is_never_changed_is_named_with_why():
    records = cloud.records()
    noisy = next(vp for one in records for vp in one.report["vps"] if vp["uuid"] == cloud.NOISY)
    noisy |= {"unmanaged": "numa-topology", "unmanaged_detail": "Nova gave it a NUMA topology"}
    host = Api(records).latest(ADMIN, "/v1/hosts/lab-1").json["host"]
    assert host["unmanaged_suspects"] == [
        {
            "server_id": cloud.NOISY,
            "name": "noisy",
            "reason": "numa-topology",
            "detail": "Nova gave it a NUMA topology",
        }
    ]


def test_orders_are_kept_changed_and_taken_back():
    api = Api()

    def order(**asked):
        answer = api.latest(ADMIN, V, "PATCH", asked)
        assert answer.status == 200
        assert answer.json["vp"]["is_told"] is True
        return answer.json["vp"]["overrides"]

    assert order(priority=7)["priority"] == 7
    assert order(mode="observe", opt_out=True)["priority"] == 7
    assert api.latest(ADMIN, V).json["vp"]["overrides"] == {
        "mode": "observe",
        "opt_out": True,
        "priority": 7,
        "exempt": False,
        **dict.fromkeys(LEVELS),
        "by": "user-admin",
        "at": "2026-01-02T03:04:05Z",
    }
    assert order(mode=None, opt_out=False, priority=None)["mode"] is None
    assert api.stored.overrides.get(cloud.VICTIM) is None
    # The agent is told all that is ordered of all its servers.
    host, text = api.agents.overrides[1]
    told = {one["uuid"]: one for one in json.loads(text)["servers"]}
    assert host == "lab-1"
    assert told[cloud.VICTIM]["opt_out"] is True
    assert told[cloud.NOISY] == {"uuid": cloud.NOISY}


def test_the_seventh_change_of_a_tenant_within_an_hour_is_refused_whoever_is_asked():
    """Of two processes on one database. Operators are not limited."""
    one = Api()
    other = Api(stored=one.stored)
    member = Persona("member")
    for number in range(6):
        api, asked = (one, other)[number % 2], {"opt_out": number % 2 == 0}
        assert api.latest(member, V, "PATCH", asked).status == 200
    for api in (one, other):
        refused = api.latest(member, V, "PATCH", {"opt_out": True})
        assert refused.status == 429
        assert refused.json["errors"][0]["code"] == "performance-isolation.too-many-changes"
        assert refused.headers["Retry-After"] == "3600"
    assert one.stored.overrides.get(cloud.VICTIM) is None, "what was ordered before holds"
    assert one.latest(ADMIN, V, "PATCH", {"exempt": True}).status == 200
    assert other.latest(ADMIN, V, "PATCH", {"exempt": False}).status == 200


def test_how_often_a_tenant_may_change_its_orders_is_the_operators(tmp_path):
    path = tmp_path / "vp.conf"
    path.write_text("[vp_api]\noverride_changes_per_hour = 1\n")
    api = Api(files=[str(path)])
    asked = (Persona("member"), V, "PATCH", {"opt_out": True})
    assert [api.latest(*asked).status for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    "body",
    [{}, {"priority": 10}, {"opt_out": None}, {"exempt": None}, {"mode": "x"}, {"x": 1}, [], "x"],
)
def test_orders_that_are_none(api, body):
    assert api.latest(ADMIN, V, "PATCH", body).status == 400


def test_health_says_what_needs_a_look(api):
    told = api.latest(ADMIN, "/v1/health").json["health"]
    assert told["status"] == "warn"
    assert told["checks"]["hosts:reports"]["detail"].startswith("1 of 2 hosts do not report")
    assert told["checks"]["database:connection"]["status"] == "pass"
    fresh = Api([cloud.a_record()]).latest(ADMIN, "/v1/health").json["health"]
    assert fresh["status"] == "pass"
    assert "no host" in Api([]).latest(ADMIN, "/v1/health").text


def test_policies_say_what_is_in_force(api):
    told = api.latest(ADMIN, "/v1/policies").json["policies"]
    assert told["modes"] == {"observe": 1, "advise": 0, "enforce": 1}
    options = {one["name"]: one for one in told["options"]}
    assert options["dwell_samples"]["value"] == options["dwell_samples"]["default"]
    rules = {one["name"]: one for one in told["rules"]}
    assert rules["nova_vp:vps:set_priority"]["check"] == "role:admin"
    assert all(rule["is_default"] for rule in rules.values())


@pytest.mark.parametrize("asked", [None, "performance-isolation 1.0", "vp 1.0", "compute 2.90"])
def test_who_asks_for_no_version_gets_the_first(api, asked):
    headers = {"OpenStack-API-Version": asked} if asked else {}
    answer = api.ask(ADMIN, "/v1/vps", headers=headers)
    assert answer.headers["OpenStack-API-Version"] == "performance-isolation 1.0"
    assert set(answer.json) == {"vps"}
    assert api.ask(ADMIN, "/v1/actions", headers=headers).status == 404
    assert api.ask(ADMIN, "/v1/vps?limit=1", headers=headers).status == 400


@pytest.mark.parametrize(
    "asked",
    [
        f"performance-isolation {NEWEST}",
        "performance-isolation latest",
        f"compute 2.1, performance-isolation {NEWEST}",
        f"vp 1.0, performance-isolation {NEWEST}",
        f"vp {NEWEST}",
    ],
)
def test_the_newest_version(api, asked):
    answer = api.ask(ADMIN, "/v1/vps", headers={"OpenStack-API-Version": asked})
    assert answer.headers["OpenStack-API-Version"] == f"performance-isolation {NEWEST}"
    assert answer.json["links"] == []


@pytest.mark.parametrize("word", ["performance-isolation", "vp"])
@pytest.mark.parametrize("asked", ["1.5", "2.0", "x", "1", "1.1.1", "-1.-1"])
def test_versions_that_nobody_speaks(api, asked, word):
    for path in ("/v1/vps", "/"):
        answer = api.ask(ADMIN, path, headers={"OpenStack-API-Version": f"{word} {asked}"})
        assert answer.status == 406
        (error,) = answer.json["errors"]
        assert "performance-isolation 1.0" in error["detail"]
        assert (error["min_version"], error["max_version"]) == ("1.0", str(NEWEST))


def test_the_document_names_every_operation_and_only_valid_schemas(api):
    told = api.ask(None, "/v1/openapi.json").json
    assert {
        (path, method.upper()) for path, methods in told["paths"].items() for method in methods
    } == {(path, method) for path, methods in ROUTES.items() for method in methods}
    for schema in told["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    refs = set(_refs(told))
    assert refs == {f"#/components/schemas/{name}" for name in told["components"]["schemas"]}
    ids = [one["operationId"] for methods in told["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    assert told["paths"]["/v1/vps"]["get"]["x-openstack-policy"] == [
        "nova_vp:vps:show",
        "nova_vp:vps:show_all",
    ]


def _refs(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _refs(item)


def test_only_what_says_so_is_public():
    assert {"/", "/v1", "/v1/openapi.json"} == PUBLIC


def test_what_hosts_may_report_can_be_told_however_odd():
    odd = "half a surrogate: \ud800"
    record = cloud.a_record(vps=[cloud.a_vp(flavor=odd)])
    assert Api([record]).latest(ADMIN, f"/v1/vps/{cloud.VICTIM}").json["vp"]["flavor"] == odd


LEVEL = {"latency_target_ms": 25.0, "latency_percentile": 90.0, "max_load": 500_000.0}


def test_a_tenant_sets_the_latency_target_of_its_server():
    api, member = Api(), Persona("member")
    told = api.latest(member, V, "PATCH", LEVEL).json["vp"]["overrides"]
    assert told == {"mode": None, "opt_out": False, "priority": None, "exempt": False, **LEVEL}
    assert api.latest(member, V).json["vp"]["overrides"] == told
    [(_, text)] = api.agents.overrides
    [ordered] = [one for one in json.loads(text)["servers"] if one["uuid"] == cloud.VICTIM]
    assert ordered == {"uuid": cloud.VICTIM, **LEVEL}
    assert api.latest(member, V, "PATCH", {"opt_out": True}).status == 200
    left = api.latest(member, V, "PATCH", dict.fromkeys(LEVEL)).json["vp"]["overrides"]
    assert left == {**told, **dict.fromkeys(LEVEL), "opt_out": True}


@pytest.mark.parametrize(
    "body",
    [
        *({"latency_target_ms": x} for x in (0, -1, 600_001, "10", True)),
        *({"latency_percentile": x} for x in (49, 100, "p95")),
        *({"max_load": x} for x in (0, -1, 1e13)),
    ],
)
def test_levels_that_are_none(api, body):
    assert api.latest(ADMIN, V, "PATCH", body).status == 400


def test_levels_are_of_a_newer_microversion(api):
    headers = {"OpenStack-API-Version": "vp 1.1"}
    refused = api.ask(ADMIN, V, "PATCH", {"max_load": 5.0}, headers=headers)
    assert refused.status == 400
    assert "microversion 1.2" in refused.text
    assert "max_load" not in api.ask(ADMIN, V, headers=headers).json["vp"]["overrides"]
