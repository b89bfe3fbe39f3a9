# SPDX-License-Identifier: Apache-2.0
"""Tenants learn nothing of neighbours: every route, every persona, every field of a report.

A new route has no row in FOREIGN and fails here until somebody has decided about it. Canaries
stand in every field that a tenant's own view does not need.
"""

import base64
import itertools
import json
import re

import oslo_messaging
import pytest

from nova_vp import controllers
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.policy import Mode
from nova_vp.registered_overlay import group_overlay_id
from tests.unit.api import cloud
from tests.unit.api.canaries import Canaries, a_record_of_canaries
from tests.unit.api.client import LATEST, Api, Persona
from tests.unit.api.oracle import leaks_of
from vp_api.routes import PUBLIC, ROUTES
from vp_api.views import tenant

OPEN_TO_TENANTS = {
    ("GET", "/v1/vps"),
    ("GET", "/v1/vps/{server_id}"),
    ("PATCH", "/v1/vps/{server_id}"),
    ("GET", "/v1/vps/{server_id}/history"),
    ("GET", "/v1/vps/{server_id}/actions"),
    ("GET", "/v1/usage"),
    ("PUT", "/v1/vps/{server_id}/latency"),
    ("GET", "/v1/overlays"),
    ("POST", "/v1/overlays"),
    ("GET", "/v1/overlays/{overlay_id}"),
    ("PATCH", "/v1/overlays/{overlay_id}"),
    ("DELETE", "/v1/overlays/{overlay_id}"),
    ("POST", "/v1/overlays/{overlay_id}/servers"),
    ("DELETE", "/v1/overlays/{overlay_id}/servers/{server_id}"),
    ("POST", "/v1/overlays/{overlay_id}/calls"),
}
GUARDED = [
    (method, path) for path, methods in ROUTES.items() if path not in PUBLIC for method in methods
]
TENANTS = ("reader", "member", "manager", "nobody")
PROJECTS = (cloud.GAMMA, cloud.BETA, "None", "%(project_id)s")
FOREIGN_WORDS = (
    *(cloud.VICTIM, "victim", cloud.ALPHA, cloud.ORPHAN, "orphan", cloud.ESCALATION),
    *("lab-1", "lab-2", "vpmu", "kernel", "6f1c2d3e"),
)
PROFILE = base64.urlsafe_b64encode(b"\0vp.small").decode().rstrip("=")
ARGUMENTS = {
    "host": "lab-1",
    "server_id": cloud.VICTIM,
    "action_id": "6f1c2d3e-2",
    "escalation_id": cloud.ESCALATION,
    "profile_id": PROFILE,
    "overlay_id": cloud.OVERLAY,
}
BODIES = {
    "/v1/what-if": {"flavor": {"vcpus": 1}},
    "/v1/modes/cloud": {"mode": "advise"},
    "/v1/modes/aggregates": {"aggregate": "ssd", "mode": "observe"},
    "/v1/hosts/{host}": {"mode": "enforce"},
    "/v1/vps/{server_id}": {"opt_out": True},
    "/v1/vps/{server_id}/latency": {"latency_ms": 8.5},
    "/v1/overlays": {"name": "shop", "project_id": cloud.ALPHA},
    "/v1/overlays/{overlay_id}": {"target": 100},
    "/v1/overlays/{overlay_id}/servers": {"servers": [cloud.VICTIM]},
    "/v1/overlays/{overlay_id}/calls": {"verb": "tune", "server_id": cloud.VICTIM},
}


def fill(path):
    return path.format(**ARGUMENTS)


def ask(api, persona, method, path):
    body = None if method in ("GET", "DELETE") else BODIES.get(path, {})
    return api.latest(persona, fill(path), method, body)


@pytest.fixture(scope="module")
def api():
    """For those who may change nothing: every test ends by looking whether they did."""
    return Api()


def assert_untouched(api):
    assert api.agents.modes == {}
    assert (
        api.agents.latency == api.agents.accepted == api.agents.undone == api.agents.overrides == []
    )
    assert api.agents.rejected == []
    assert api.stored.overrides.get(cloud.VICTIM) is None
    assert {one.mode for one in api.stored.modes.list_modes()} == {Mode.ENFORCE}
    assert api.stored.ledger.get(cloud.ESCALATION).accepted_at is None
    assert api.agents.calls == []
    assert api.agents.overlays == {}
    (overlay,) = api.stored.overlays.changed_since(0).overlays
    assert (overlay.id, overlay.by, overlay.is_deleted) == (cloud.OVERLAY, "user-member", False)
    assert overlay.servers == {cloud.VICTIM, cloud.SLEEPER}


def test_these_operations_are_open_to_tenants_and_no_others():
    """Whoever opens one more says so here, and says below what they may be told."""
    assert {
        (method, path) for method, path in GUARDED if ROUTES[path][method].operator_rule
    } == OPEN_TO_TENANTS


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize("project_id", PROJECTS)
@pytest.mark.parametrize("role", TENANTS)
def test_a_foreign_project(api, method, path, role, project_id):
    answer = ask(api, Persona(role, project_id), method, path)
    if (method, path) not in OPEN_TO_TENANTS or (method, path) == ("POST", "/v1/overlays"):
        assert answer.status == 403
    elif "{" in path:
        assert answer.status == 404
    else:
        assert answer.status == 200
    assert leaks_of(answer, FOREIGN_WORDS, asked=fill(path)) == []
    assert_untouched(api)


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize("role", ["reader", "member", "manager"])
def test_the_own_project(method, path, role):
    api = Api()
    answer = ask(api, Persona(role), method, path)
    if (method, path) not in OPEN_TO_TENANTS or (method != "GET" and role == "reader"):
        assert answer.status == 403
        assert_untouched(api)
    else:
        assert answer.status == 200


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_service_sees_all_and_changes_nothing(api, method, path):
    answer = ask(api, Persona("service", cloud.GAMMA), method, path)
    assert answer.status == (200 if method == "GET" else 403)
    assert_untouched(api)


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_an_admin_may_everything_but_speak_for_an_application(method, path):
    api = Api()
    is_the_applications = (method, path) == ("PUT", "/v1/vps/{server_id}/latency")
    answer = ask(api, Persona("admin", cloud.GAMMA), method, path)
    assert answer.status == (403 if is_the_applications else 200)


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize(
    ("persona", "status"),
    [
        (None, 401),
        (Persona("admin", None), 403),
        (Persona("admin", None, system=True), 403),
    ],
    ids=["no token", "unscoped", "system scope"],
)
def test_a_token_that_is_not_project_scoped(api, method, path, persona, status):
    assert ask(api, persona, method, path).status == status
    assert_untouched(api)


LEVELS = {"latency_target_ms": 25.0, "latency_percentile": 90.0, "max_load": 5e5}
ORDERS = {"opt_out": True, "mode": "observe", "priority": 9, "exempt": True, **LEVELS}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("reader", set()),
        ("member", {"opt_out", *LEVELS}),
        ("manager", {"opt_out", *LEVELS}),
        ("admin", set(ORDERS)),
        ("service", set()),
    ],
)
def test_who_may_order_what_of_a_server(role, may, name):
    api = Api()
    asked = {name: ORDERS[name]}
    answer = api.latest(Persona(role), f"/v1/vps/{cloud.VICTIM}", "PATCH", asked)
    assert answer.status == (200 if name in may else 403)
    # All of it or nothing.
    answer = api.latest(Persona(role), f"/v1/vps/{cloud.VICTIM}", "PATCH", ORDERS)
    assert answer.status == (200 if may == set(ORDERS) else 403)
    assert (api.stored.overrides.get(cloud.VICTIM) is not None) == (name in may)


@pytest.mark.parametrize("role", TENANTS)
def test_foreign_and_unknown_servers_are_answered_alike(role):
    def told(server_id):
        answer = Api().ask(Persona(role, cloud.GAMMA), f"/v1/vps/{server_id}")
        (fault,) = answer.json["errors"]
        del fault["request_id"]
        return answer.status, json.dumps(fault).replace(server_id, "ID")

    assert told(cloud.VICTIM) == told(cloud.ORPHAN) == told(cloud.UNKNOWN)


def test_hosts_that_exist_and_that_do_not_are_answered_alike():
    def told(host, method):
        answer = Api().ask(Persona("member"), f"/v1/hosts/{host}", method, {"mode": "enforce"})
        (fault,) = answer.json["errors"]
        del fault["request_id"]
        return answer.status, fault

    for method in ("GET", "PATCH"):
        assert told("lab-1", method) == told("lab-9", method)


SUMMARY = {
    *("server_id", "name", "project_id", "isolation", "is_stale"),
    *("state", "since", "hurt_by_neighbour"),
}
SHOWN = SUMMARY | {"group", "sensitivity", "unmanaged", "last_known", "actions"}


def test_a_tenant_is_told_these_keys_and_no_more():
    reader = Persona("reader")
    (victim, sleeper) = Api().ask(reader, "/v1/vps").json["vps"]
    assert set(victim) == set(sleeper) == SUMMARY
    victim = Api().ask(reader, f"/v1/vps/{cloud.VICTIM}").json["vp"]
    assert set(victim) == SHOWN
    assert [set(action) for action in victim["actions"]] == [{"at", "what", "result"}]
    new = Api().latest(reader, f"/v1/vps/{cloud.VICTIM}").json["vp"]
    younger = {"overrides", "cpu_use", "figures", "group_state", "service", "degradation"}
    assert set(new) == SHOWN | younger
    assert set(new["degradation"]) == {"percent", "since", "response"}
    assert set(new["service"]) == {
        *("class", "latency_target_ms", "latency_percentile", "max_load", "may_suspend"),
        *("reported", "used", "ignored"),
    }
    assert set(new["service"]["reported"]) == {"at", "latency_ms", "load"}
    assert set(new["group_state"]) == {"servers", "measured_servers", "state"}
    assert [set(one) for one in new["group_state"]["servers"]] == [{"server_id", "name"}]
    assert new["cpu_use"] == {
        "waiting_ratio": 0.12,
        "throttled_ratio_ours": 0.0,
        "throttled_ratio_nova": 0.4,
    }
    assert set(new["overrides"]) == {"mode", "opt_out", "priority", "exempt", *LEVELS}
    (minute,) = Api().latest(reader, f"/v1/vps/{cloud.VICTIM}/history").json["history"][-1:]
    lost = {"degradation_percent", "waiting_ratio"}
    assert set(minute) == {"at", "state", "hurt_by_neighbour", "metrics"} | lost
    assert set(minute["metrics"]) == {"mpki", "memory_factor", "cpi", "cpu_cores"}
    (action,) = Api().latest(reader, f"/v1/vps/{cloud.VICTIM}/actions").json["actions"]
    assert set(action) == {"at", "what", "result"}
    sleeper = Api().ask(reader, f"/v1/vps/{cloud.SLEEPER}").json["vp"]
    assert set(sleeper["last_known"]) == {"at", "state", "since", "hurt_by_neighbour"}
    assert set(sleeper["unmanaged"]) == {"reason", "detail"}


@pytest.mark.needs_controllers("permits")
def test_a_tenant_is_told_of_its_permit_and_not_how_it_was_measured():
    reported = {
        "permits": {
            "standing": "over",
            "permit_misses_per_ms": 900.0,
            "balance_s": -4.2,
            "misses_per_ms": 4500.0,
            "attribution": "profile",
        },
        "of_nobody": {"standing": "over"},
    }
    path = f"/v1/vps/{cloud.VICTIM}"

    def told(persona, figures, age_s=3):
        vp = cloud.a_vp(figures=figures, **cloud.asked())
        api = Api([cloud.a_record(age_s=age_s, vps=[vp])])
        return api.latest(persona, path).json["vp"]

    own = {"standing": "over", "permit_misses_per_ms": 900, "balance_s": -4}
    assert told(Persona("admin"), reported)["figures"] == reported
    assert told(Persona("reader"), reported)["figures"] == {"permits": own}
    strange = {"permits": {"standing": "beside lbm", "balance_s": "lbm"}}
    assert told(Persona("reader"), strange)["figures"] == {
        "permits": {"standing": "unknown", "balance_s": None}
    }
    assert told(Persona("reader"), reported, age_s=400)["figures"] == {}
    old = told(Persona("admin"), reported, age_s=400)
    assert (old["figures"], old["last_known"]["figures"]) == ({}, reported)


CASES = list(itertools.product((3, 400), range(5)))


VIEWS_OF_1_0 = ("/v1/vps", f"/v1/vps/{cloud.VICTIM}")
TENANTS_VIEWS = (
    *VIEWS_OF_1_0,
    "/v1/vps?limit=1",
    f"/v1/vps/{cloud.VICTIM}/history",
    f"/v1/vps/{cloud.VICTIM}/actions",
    f"/v1/vps/{cloud.VICTIM}/actions?limit=1",
    "/v1/overlays",
    f"/v1/overlays/{group_overlay_id(cloud.ALPHA, 'shop')}",
)


def errors_of_a_tenant(report):
    """Requests that fail, each for another reason; some guess what they cannot know."""
    neighbour = report["vps"][1]["uuid"]
    yield "GET", f"/v1/vps/{neighbour}", None
    yield "GET", f"/v1/vps/{neighbour}/history", None
    yield "PATCH", f"/v1/vps/{neighbour}", {"opt_out": True}
    yield "PATCH", f"/v1/vps/{cloud.VICTIM}", {"priority": 9}
    yield "PATCH", f"/v1/vps/{cloud.VICTIM}", {"opt_out": 1}
    yield "GET", f"/v1/vps?host={report['host']}", None
    yield "GET", "/v1/vps?marker=x", None
    yield "GET", f"/v1/vps/{cloud.VICTIM}/actions?marker=x", None
    yield "GET", f"/v1/hosts/{report['host']}", None
    yield "GET", f"/v1/actions/{report['vps'][1]['actions'][0]['id']}", None
    yield "POST", f"/v1/actions/{report['proposals'][0]['id']}/accept", {}


@pytest.mark.parametrize(("age_s", "seed"), CASES)
def test_no_canary_reaches_a_tenant(age_s, seed):
    canaries = Canaries(seed)
    record = a_record_of_canaries(canaries, age_s)
    api = Api([record])
    asked = [*itertools.product(TENANTS_VIEWS, [LATEST]), *itertools.product(VIEWS_OF_1_0, [{}])]
    for path, version in asked:
        answer = api.ask(Persona("member"), path, headers=version)
        assert answer.status == 200
        assert leaks_of(answer, canaries.planted) == []
    assert len(api.latest(Persona("member"), VIEWS_OF_1_0[1]).json["vp"]["actions"]) == 4


MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d(?::|%3A)\d\d(?::|%3A)(\d\d)")


WITH_MOMENTS = (VIEWS_OF_1_0[1], *TENANTS_VIEWS[3:5], f"/v1/overlays/{cloud.OVERLAY}")


@pytest.mark.parametrize("age_s", [3, 400])
def test_no_moment_is_told_to_a_tenant_to_the_second(age_s):
    vp = cloud.a_vp(service=cloud.a_service(), actions=[cloud.an_action()])
    api = Api([cloud.a_record(age_s=age_s, vps=[vp])])
    own = {path: api.latest(Persona("member"), path).text for path in TENANTS_VIEWS}
    named = f"/v1/overlays/{cloud.OVERLAY}"
    own[named] = Api().latest(Persona("member"), named).text
    seconds = {path: MOMENT.findall(text) for path, text in own.items()}
    assert [set(seconds[path]) for path in WITH_MOMENTS] == [{"00"}] * len(WITH_MOMENTS)
    assert set(itertools.chain.from_iterable(seconds.values())) == {"00"}


def test_operators_alone_are_told_who_accepted_an_action():
    api, one = Api(), f"/v1/actions/{cloud.a_cap()['id']}"
    admin, of_victim = Persona("admin"), f"/v1/vps/{cloud.VICTIM}/actions"
    assert api.latest(admin, one).json["action"]["accepted_by"] is None
    assert api.latest(admin, f"{one}/accept", "POST", {}).status == 200
    for operator in (admin, Persona("service")):
        assert api.latest(operator, one).json["action"]["accepted_by"] == "user-admin"
        for path in ("/v1/actions", of_victim):
            listed = api.latest(operator, path).json["actions"]
            assert "user-admin" in [row["accepted_by"] for row in listed]
    headers = {"OpenStack-API-Version": "performance-isolation 1.3"}
    assert "accepted_by" not in api.ask(admin, one, headers=headers).json["action"]
    for path, role in itertools.product((*TENANTS_VIEWS, of_victim, one, "/v1/actions"), TENANTS):
        assert leaks_of(api.latest(Persona(role), path), ["user-admin"]) == []


def test_operators_alone_are_told_who_accepted_an_escalation():
    api, one = Api(), f"/v1/escalations/{cloud.ESCALATION}"
    admin = Persona("admin")
    assert api.latest(admin, one).json["escalation"]["accepted_by"] is None
    assert api.latest(admin, f"{one}/accept", "POST", {}).status == 200
    for operator in (admin, Persona("service")):
        assert api.latest(operator, one).json["escalation"]["accepted_by"] == "user-admin"
        listed = api.latest(operator, "/v1/escalations").json["escalations"]
        assert "user-admin" in [row["accepted_by"] for row in listed]
    for path, role in itertools.product((*TENANTS_VIEWS, one, "/v1/escalations"), TENANTS):
        assert leaks_of(api.latest(Persona(role), path), ["user-admin"]) == []


@pytest.mark.parametrize("failing", [None, "the agent of {host} says no to {neighbour}"])
def test_no_canary_stands_in_an_error(failing):
    canaries = Canaries(7)
    record = a_record_of_canaries(canaries, 3)
    api = Api([record])
    if failing:
        words = failing.format(host=record.host, neighbour=record.report["vps"][1]["name"])
        api.agents.failing[record.host] = oslo_messaging.MessagingTimeout(words)
    for method, path, body in errors_of_a_tenant(record.report):
        answer = api.latest(Persona("member"), path, method, body)
        assert answer.status >= 400, path
        assert leaks_of(answer, canaries.planted, asked=path) == []
    answer = api.latest(Persona("manager"), f"/v1/vps/{cloud.VICTIM}", "PATCH", {"opt_out": True})
    assert answer.json["vp"]["is_told"] is (failing is None)
    assert leaks_of(answer, canaries.planted) == []


@pytest.mark.parametrize(("age_s", "seed"), CASES)
def test_the_canaries_are_alive(age_s, seed):
    """The operator is told all of them: else the tests above would prove nothing."""
    canaries = Canaries(seed)
    record = a_record_of_canaries(canaries, age_s)
    api = Api([record])
    admin = Persona("admin")
    paths = [f"/v1/hosts/{record.host}"]
    paths += [f"/v1/vps/{vp['uuid']}" for vp in record.report["vps"]]
    text = "".join(api.latest(admin, path).text for path in paths)
    assert [canary for canary in canaries.verbatim if canary not in text] == []
    assert len(canaries.verbatim) > 100
    text = api.latest(admin, f"/v1/vps/{cloud.VICTIM}/actions").text
    assert record.host in text
    mine = (0, 1, 3, 4)  # the third concerns somebody else
    assert all(record.report["vps"][0]["actions"][number]["id"] in text for number in mine)


HIDDEN_FROM_TENANTS = {
    Unmanaged.NOT_NOVA,  # nobody's
    Unmanaged.MIGRATING,  # the host's affair
    Unmanaged.LEAVING,  # the cloud's
    Unmanaged.AWAITING_OVERRIDES,  # over in a moment
    Unmanaged.FOREIGN_CHANGE,  # the operator's
}


def test_every_obstacle_has_words_for_a_tenant_or_is_hidden():
    assert set(tenant.UNMANAGED) == {u.value for u in set(Unmanaged) - HIDDEN_FROM_TENANTS}


def test_a_tenants_words_are_none_of_an_operators():
    reasons = controllers.reasons().values()
    for told in (text for one in reasons for text in (one.own_label, one.neighbour_label)):
        assert not re.search(r"\b(cpus?|llc|nodes?|domains?|miss(es)?)\b", told, re.IGNORECASE)


@pytest.mark.parametrize(("kind", "by_neighbour"), [("cpu", True), ("remote-latency", False)])
def test_who_waits_for_cpu_is_hurt_by_a_neighbour_and_who_is_far_from_its_memory_by_nobody(
    kind, by_neighbour
):
    found = {"kind": kind, "since": cloud.NOW_S, "suspects": [], "refused": []}
    api = Api([cloud.a_record(vps=[cloud.a_vp(interference=found)])])
    for who in ("admin", "reader"):
        vp = api.ask(Persona(who), f"/v1/vps/{cloud.VICTIM}").json["vp"]
        assert vp["hurt_by_neighbour"] is by_neighbour
    host = api.ask(Persona("admin"), "/v1/hosts/lab-1").json["host"]
    assert host["hurt_count"] == by_neighbour


def test_words_that_are_not_ours_are_unknown_to_a_tenant():
    action = cloud.an_action(reason="x-lab-1", result="y-noisy", uuid=cloud.VICTIM)
    record = cloud.a_record(vps=[cloud.a_vp(unmanaged="migrating", actions=[action])])
    vp = Api([record]).ask(Persona("reader"), f"/v1/vps/{cloud.VICTIM}").json["vp"]
    assert vp["unmanaged"] is None
    (told,) = vp["actions"]
    assert told["what"] == "a setting of this server was changed within its host"
    assert told["result"] == "unknown"


@pytest.mark.parametrize("project_id", ["", "None"])
def test_a_guest_without_a_project_is_nobodys(project_id):
    record = cloud.a_record(vps=[cloud.a_vp(project_id=project_id)])
    for asker in ("", None):
        answer = Api([record]).ask(Persona("reader", asker), f"/v1/vps/{cloud.VICTIM}")
        assert answer.status == 403


@pytest.fixture
def with_policy(tmp_path):
    """An API whose operator wrote a policy file."""

    def make(**rules):
        (tmp_path / "policy.yaml").write_text(json.dumps(rules))
        (tmp_path / "vp-api.conf").write_text(
            f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n"
        )
        return Api(files=[str(tmp_path / "vp-api.conf")])

    return make


def test_a_careless_policy_does_not_open_other_projects(with_policy):
    api = with_policy(**{"nova_vp:vps:show": "role:reader"})
    stranger = Persona("reader", cloud.GAMMA)
    assert api.ask(stranger, "/v1/vps").json == {"vps": []}
    assert api.ask(stranger, f"/v1/vps/{cloud.VICTIM}").status == 404


def test_an_operator_may_grant_hosts_to_managers(with_policy):
    api = with_policy(**{"nova_vp:hosts:show": "role:manager"})
    assert api.ask(Persona("manager"), "/v1/hosts").status == 200
    assert api.ask(Persona("member"), "/v1/hosts").status == 403


def test_an_operator_may_close_the_tenants_view(with_policy):
    api = with_policy(**{"nova_vp:vps:show": "role:admin"})
    assert api.ask(Persona("reader"), "/v1/vps").json == {"vps": []}
    assert api.ask(Persona("reader"), f"/v1/vps/{cloud.VICTIM}").status == 404
