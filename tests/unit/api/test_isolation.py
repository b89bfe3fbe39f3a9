# SPDX-License-Identifier: Apache-2.0
"""Tenants learn nothing of neighbours: every route, every persona, every field of a report.

A new route has no row in FOREIGN and fails here until somebody has decided about it. Canaries
stand in every field that a tenant's own view does not need.
"""

import copy
import itertools
import json
import random
import uuid

import pytest

from nova_vp import wire
from nova_vp.core.model import Reason, Unmanaged
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_api.routes import PUBLIC, ROUTES
from vp_api.views import tenant

FOREIGN = {
    ("/v1/hosts", "GET"): 403,
    ("/v1/hosts/{host}", "GET"): 403,
    ("/v1/hosts/{host}", "PATCH"): 403,
    ("/v1/hosts/{host}/proposals/{action_id}", "PUT"): 403,
    ("/v1/vps", "GET"): 200,
    ("/v1/vps/{server_id}", "GET"): 404,
}
GUARDED = [
    (path, method) for path, methods in ROUTES.items() if path not in PUBLIC for method in methods
]
TENANTS = ("reader", "member", "manager", "nobody")
PROJECTS = (cloud.GAMMA, cloud.BETA, "None", "%(project_id)s")
FOREIGN_WORDS = (
    *(cloud.VICTIM, "victim", cloud.ALPHA, cloud.ORPHAN, "orphan"),
    *("lab-1", "lab-2", "vpmu", "kernel"),
)


def fill(path, host="lab-1", server_id=cloud.VICTIM):
    return path.format(host=host, server_id=server_id, action_id="6f1c2d3e-2")


BODIES = {"GET": None, "PATCH": {"mode": "enforce"}, "PUT": {"accepted": True}}


@pytest.mark.parametrize(("path", "method"), GUARDED)
@pytest.mark.parametrize("project_id", PROJECTS)
@pytest.mark.parametrize("role", TENANTS)
def test_a_foreign_project(path, method, role, project_id):
    api = Api()
    answer = api.ask(Persona(role, project_id), fill(path), method, BODIES[method])
    assert answer.status == FOREIGN[path, method]
    asked_for = fill(path).rsplit("/", 1)[-1]
    for word in FOREIGN_WORDS:
        assert word == asked_for or f'"{word}' not in answer.text
    assert api.agents.modes == {}
    assert api.agents.accepted == []


@pytest.mark.parametrize(("path", "method"), GUARDED)
@pytest.mark.parametrize(
    ("persona", "status"),
    [
        (None, 401),
        (Persona("admin", None), 403),
        (Persona("admin", None, system=True), 403),
    ],
    ids=["no token", "unscoped", "system scope"],
)
def test_a_token_that_is_not_project_scoped(path, method, persona, status):
    assert Api().ask(persona, fill(path), method, BODIES[method]).status == status


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
SHOWN = SUMMARY | {"sensitivity", "unmanaged", "last_known", "actions"}


def test_a_tenant_is_told_these_keys_and_no_more():
    reader = Persona("reader")
    (victim, sleeper) = Api().ask(reader, "/v1/vps").json["vps"]
    assert set(victim) == set(sleeper) == SUMMARY
    victim = Api().ask(reader, f"/v1/vps/{cloud.VICTIM}").json["vp"]
    assert set(victim) == SHOWN
    assert [set(action) for action in victim["actions"]] == [{"at", "what", "result"}]
    sleeper = Api().ask(reader, f"/v1/vps/{cloud.SLEEPER}").json["vp"]
    assert set(sleeper["last_known"]) == {"at", "state", "since", "hurt_by_neighbour"}
    assert set(sleeper["unmanaged"]) == {"reason", "detail"}


class Canaries:
    """Replaces leaves by values that stand nowhere else, valid by the report's schema."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.planted: list[str] = []

    def plant(self, value, at=(), *, kept):
        if isinstance(value, dict):
            return {k: self.plant(v, (*at, k), kept=kept) for k, v in value.items()}
        if isinstance(value, list):
            return [self.plant(v, (*at, n), kept=kept) for n, v in enumerate(value)]
        if kept(at) or value is None or isinstance(value, bool):
            return value
        canary = self._like(value)
        self.planted.append(str(canary))
        return canary

    def _like(self, value):
        if isinstance(value, int):
            return self._random.randrange(10**8, 10**9)
        if isinstance(value, float):
            return self._random.randrange(10**8, 10**9) + 0.5
        if len(value) == 36 and value.count("-") == 4:
            return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        return f"canary-{self._random.getrandbits(64):016x}"


ENUMS = {"mode", "isolation", "sensitivity", "kind", "v"}
"""Fields in which the schema has no room for anything else."""
OWN = {
    *(("uuid",), ("name",), ("project_id",), ("state",), ("since",)),
    *(("actions", 0, "at"), ("actions", 1, "at")),
    *(("actions", 0, "victim"), ("actions", 1, "uuid")),
}
"""Within the tenant's own VP: what the tenant is told, or what makes an action concern it."""


def kept(at):
    if ENUMS & set(at):
        return True
    return at[:2] == ("vps", 0) and at[2:] in OWN


def a_full_report():
    hurt = {
        "kind": "cache",
        "since": cloud.NOW_S,
        "suspects": [{"uuid": cloud.NOISY, "rise_per_s": 1.5e6}],
        "refused": [
            {"uuid": cloud.NOISY, "domain": 1, "why": "no-free-cpu", "hurt_ratio": 0.25},
        ],
    }
    own = cloud.a_vp(
        interference=hurt,
        unmanaged="changed-by-somebody-else",
        unmanaged_detail="who",
        incomplete="late",
        actions=[
            cloud.an_action(),
            cloud.an_action(uuid=cloud.VICTIM, victim=cloud.NOISY),
            cloud.an_action(uuid=cloud.NOISY, victim=cloud.GONE),
        ],
    )
    other = cloud.a_vp(
        uuid=cloud.NOISY,
        name="noisy",
        project_id=cloud.BETA,
        actions=[cloud.an_action()],
        interference=copy.deepcopy(hurt),
        state=None,
    )
    return cloud.a_report("lab-1", vps=[own, other], proposals=[cloud.an_action()])


def a_record_of_canaries(canaries, age_s):
    report = canaries.plant(a_full_report(), kept=kept)
    changes = {key: value for key, value in report.items() if key != "host"}
    record = cloud.a_record(report["host"], age_s=age_s, **changes)
    wire.decode(wire.REPORT_TOPIC, json.dumps(record.report))
    return record


CASES = list(itertools.product((3, 400), range(5)))


@pytest.mark.parametrize(("age_s", "seed"), CASES)
def test_no_canary_reaches_a_tenant(age_s, seed):
    canaries = Canaries(seed)
    api = Api([a_record_of_canaries(canaries, age_s)])
    for path in ("/v1/vps", f"/v1/vps/{cloud.VICTIM}"):
        answer = api.ask(Persona("member"), path)
        assert answer.status == 200
        told = answer.text + str(answer.headers)
        assert [canary for canary in canaries.planted if canary in told] == []
    assert len(answer.json["vp"]["actions"]) == 2


@pytest.mark.parametrize(("age_s", "seed"), CASES)
def test_the_canaries_are_alive(age_s, seed):
    """The operator is told nearly all of them: else the test above would prove nothing."""
    canaries = Canaries(seed)
    record = a_record_of_canaries(canaries, age_s)
    api = Api([record])
    paths = [f"/v1/hosts/{record.host}"]
    paths += [f"/v1/vps/{vp['uuid']}" for vp in record.report["vps"]]
    told = "".join(api.ask(Persona("admin"), path).text for path in paths)
    untold = [canary for canary in canaries.planted if canary not in told]
    # epoch, sequence, and times, which are told as dates.
    assert len(untold) < 12 < len(canaries.planted)


HIDDEN_FROM_TENANTS = {
    Unmanaged.NOT_NOVA,  # nobody's
    Unmanaged.MIGRATING,  # the host's affair
    Unmanaged.FOREIGN_CHANGE,  # the operator's
}


def test_every_reason_has_words_for_a_tenant_or_is_hidden():
    assert set(tenant.OWN_ACTIONS) == {reason.value for reason in Reason}
    assert set(tenant.UNMANAGED) == {u.value for u in set(Unmanaged) - HIDDEN_FROM_TENANTS}


def test_words_that_are_not_ours_are_unknown_to_a_tenant():
    action = cloud.an_action(reason="x-lab-1", result="y-noisy", uuid=cloud.VICTIM)
    record = cloud.a_record(vps=[cloud.a_vp(unmanaged="migrating", actions=[action])])
    vp = Api([record]).ask(Persona("reader"), f"/v1/vps/{cloud.VICTIM}").json["vp"]
    assert vp["unmanaged"] is None
    (told,) = vp["actions"]
    assert told["what"] == "this server was moved within its host"
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
