# SPDX-License-Identifier: Apache-2.0
"""Declared requests: who asks for what, and what must come back.

`answer` names what the body must contain at least: dicts are compared key by key, lists item by
item, so that a row says only what it is about.
"""

import io
import sys
from dataclasses import dataclass, replace
from typing import Any

import oslo_messaging
import pytest
from oslo_db import exception as db_exception
from sqlalchemy.exc import SQLAlchemyError

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from tests.unit.api.stored import holding

ADMIN = Persona("admin")
SERVICE = Persona("service")
READER = Persona("reader")
MEMBER = Persona("member")
MANAGER = Persona("manager")
NEIGHBOUR = Persona("reader", cloud.BETA)
STRANGER = Persona("reader", cloud.GAMMA)
STATE_8 = {"number": 8, "name": "bulldog, mf>0.6"}


@dataclass(frozen=True)
class Row:
    label: str
    persona: Persona | None
    path: str
    status: int
    answer: Any = None
    method: str = "GET"
    body: Any = None

    def __str__(self) -> str:
        return self.label


def error(code):
    return {"errors": [{"code": f"performance-isolation.{code}"}]}


def patch(mode):
    return {"method": "PATCH", "body": {"mode": mode}}


ACCEPT = {"method": "POST", "body": {}}
PROPOSAL = "/v1/actions/6f1c2d3e-2/accept"
V = f"/v1/vps/{cloud.VICTIM}"
ROWS = [
    Row("versions-without-a-token", None, "/", 200, {"versions": [{"id": "v1.0"}]}),
    Row("empty-path", None, "", 200, {"versions": [{"status": "CURRENT"}]}),
    Row("version-without-a-token", None, "/v1/", 200, {"version": {"id": "v1.0"}}),
    Row("no-token", None, "/v1/hosts", 401, error("unauthenticated")),
    Row("no-such-path", ADMIN, "/v1/nope", 404, error("not-found")),
    Row("no-such-path-without-a-token", None, "/v1/nope", 401, error("unauthenticated")),
    Row("bad-path", ADMIN, "/v1/hosts/%ff", 400, error("bad-request")),
    Row("no-such-method", ADMIN, "/v1/hosts", 405, error("method-not-allowed"), method="DELETE"),
    # hosts
    Row(
        "hosts-of-an-admin",
        ADMIN,
        "/v1/hosts",
        200,
        {
            "hosts": [
                {
                    "name": "lab-1",
                    "mode": "enforce",
                    "counters": {"source": "vpmu", "problems": []},
                    "vps_count": 3,
                    "hurt_count": 1,
                    "reported_at": "2026-01-02T03:04:02Z",
                    "age_s": 3,
                    "is_stale": False,
                },
                {
                    "name": "lab-2",
                    "mode": "observe",
                    "counters": {"problems": ["counters are multiplexed"]},
                    "age_s": 400,
                    "is_stale": True,
                    "hurt_count": None,
                },
            ]
        },
    ),
    Row("hosts-of-a-service", SERVICE, "/v1/hosts", 200, {"hosts": [{}, {}]}),
    Row("hosts-of-a-manager", MANAGER, "/v1/hosts", 403, error("forbidden")),
    Row("hosts-of-a-member", MEMBER, "/v1/hosts", 403, error("forbidden")),
    Row("hosts-of-a-reader", READER, "/v1/hosts", 403, error("forbidden")),
    Row(
        "hosts-of-a-system-admin",
        Persona("admin", None, system=True),
        "/v1/hosts",
        403,
        error("forbidden"),
    ),
    Row("hosts-with-a-filter", ADMIN, "/v1/hosts?mode=x", 400, error("bad-request")),
    Row(
        "host-of-an-admin",
        ADMIN,
        "/v1/hosts/lab-1",
        200,
        {
            "host": {
                "actuator": "kernel",
                "cells": [
                    {"id": 0, "domains": [{"id": 0, "cpus": "0-1", "free_cores": 1.5}]},
                    {"id": 1, "domains": [{"id": 1, "cpus": "2-3", "vcpus": 1.0}]},
                ],
                "vps": [
                    {"name": "victim", "state": STATE_8, "hurt_by_neighbour": True, "domains": [0]},
                    {"name": "noisy", "project_id": cloud.BETA, "hurt_by_neighbour": False},
                    {"name": "orphan", "state": None, "incomplete": "idle"},
                ],
                "proposals": [{"id": "6f1c2d3e-2", "server": {"name": "noisy"}}],
            }
        },
    ),
    Row(
        "stale-host",
        ADMIN,
        "/v1/hosts/lab-2",
        200,
        {"host": {"is_stale": True, "vps": [{"state": None}, {"state": None}]}},
    ),
    Row("unknown-host", ADMIN, "/v1/hosts/lab-9", 404, error("host-not-found")),
    Row("host-of-a-reader", READER, "/v1/hosts/lab-1", 403, error("forbidden")),
    Row("unknown-host-of-a-reader", READER, "/v1/hosts/lab-9", 403, error("forbidden")),
    # the mode of a host
    Row(
        "mode-set-by-an-admin",
        ADMIN,
        "/v1/hosts/lab-1",
        200,
        {"host": {"name": "lab-1", "mode": "advise"}},
        **patch("advise"),
    ),
    Row("mode-of-a-stale-host", ADMIN, "/v1/hosts/lab-2", 200, **patch("enforce")),
    Row(
        "mode-of-an-unknown-host",
        ADMIN,
        "/v1/hosts/lab-9",
        404,
        error("host-not-found"),
        **patch("observe"),
    ),
    Row(
        "mode-by-a-service", SERVICE, "/v1/hosts/lab-1", 403, error("forbidden"), **patch("observe")
    ),
    Row(
        "mode-by-a-manager", MANAGER, "/v1/hosts/lab-1", 403, error("forbidden"), **patch("observe")
    ),
    Row("no-such-mode", ADMIN, "/v1/hosts/lab-1", 400, error("bad-request"), **patch("aggressive")),
    Row(
        "another-key",
        ADMIN,
        "/v1/hosts/lab-1",
        400,
        error("bad-request"),
        method="PATCH",
        body={"mode": "observe", "x": 1},
    ),
    Row("no-body", ADMIN, "/v1/hosts/lab-1", 400, error("bad-request"), method="PATCH"),
    Row("not-json", ADMIN, "/v1/hosts/lab-1", 400, error("bad-request"), method="PATCH", body=b"{"),
    Row(
        "deep-json",
        ADMIN,
        "/v1/hosts/lab-1",
        400,
        error("bad-request"),
        method="PATCH",
        body=b"[" * 100_000,
    ),
    Row(
        "oversized",
        ADMIN,
        "/v1/hosts/lab-1",
        413,
        error("too-large"),
        method="PATCH",
        body=b" " * 200_000,
    ),
    # proposals
    Row(
        "proposal-accepted-by-an-admin",
        ADMIN,
        PROPOSAL,
        200,
        {"action": {"id": "6f1c2d3e-2", "host": "lab-1", "is_accepted": True}},
        **ACCEPT,
    ),
    Row("proposal-by-a-service", SERVICE, PROPOSAL, 403, error("forbidden"), **ACCEPT),
    Row(
        "proposal-of-an-unknown-host",
        ADMIN,
        f"{PROPOSAL}?host=lab-9",
        404,
        error("action-not-found"),
        **ACCEPT,
    ),
    Row(
        "proposal-declined",
        ADMIN,
        PROPOSAL,
        400,
        error("bad-request"),
        method="POST",
        body={"accepted": False},
    ),
    # virtual platforms
    Row(
        "vps-of-an-admin",
        ADMIN,
        "/v1/vps",
        200,
        {
            "vps": [
                {"name": "victim", "host": "lab-1", "state": STATE_8, "hurt_by_neighbour": True},
                {"name": "noisy", "host": "lab-1"},
                {"name": "orphan"},
                {"name": "sleeper", "host": "lab-2", "is_stale": True, "state": None},
            ]
        },
    ),
    Row("vps-of-a-host", ADMIN, "/v1/vps?host=lab-2", 200, {"vps": [{"server_id": cloud.SLEEPER}]}),
    Row("vps-of-an-unknown-host", ADMIN, "/v1/vps?host=lab-9", 200, {"vps": []}),
    Row("filter-twice", ADMIN, "/v1/vps?host=a&host=b", 400, error("bad-request")),
    Row("filter-not-utf8", ADMIN, "/v1/vps?host=%ff", 400, error("bad-request")),
    Row("vps-by-host-of-a-reader", READER, "/v1/vps?host=lab-1", 403, error("forbidden")),
    Row(
        "vps-of-a-reader",
        READER,
        "/v1/vps",
        200,
        {"vps": [{"server_id": cloud.VICTIM, "state": STATE_8}, {"server_id": cloud.SLEEPER}]},
    ),
    Row("vps-of-a-neighbour", NEIGHBOUR, "/v1/vps", 200, {"vps": [{"name": "noisy"}]}),
    Row("vps-of-a-stranger", STRANGER, "/v1/vps", 200, {"vps": []}),
    Row("vps-without-a-role", Persona("nobody"), "/v1/vps", 200, {"vps": []}),
    Row("vps-without-a-project", Persona("reader", None), "/v1/vps", 403, error("forbidden")),
    Row("vps-of-an-empty-project", Persona("reader", ""), "/v1/vps", 403, error("forbidden")),
    Row(
        "vp-of-an-admin",
        ADMIN,
        V,
        200,
        {
            "vp": {
                "host": "lab-1",
                "metrics": {"mpki": 20.5},
                "interference": {
                    "kind": "cache",
                    "since": "2026-01-02T03:03:55Z",
                    "suspects": [{"server_id": cloud.NOISY, "name": "noisy", "rise_per_s": 1.5e6}],
                    "refused": [{"server": {"name": "noisy"}, "why": "no-free-cpu"}],
                },
                "last_known": None,
                "actions": [
                    {
                        "at": "2026-01-02T03:03:05Z",
                        "server": {"server_id": cloud.NOISY, "name": "noisy"},
                        "victim": {"server_id": cloud.VICTIM, "name": "victim"},
                        "reason": "move-aggressor",
                        "result": "mended",
                        "evidence": {"memory_factor_now": 0.8},
                        "rejected": [
                            {"server": {"name": "victim"}, "why": "predicted-hurt-not-lower"},
                            {"why": "no-free-cpu", "hurt_ratio": None},
                        ],
                    }
                ],
                "proposals": [{"id": "6f1c2d3e-2"}],
            }
        },
    ),
    Row("vp-in-capitals", ADMIN, V.upper().replace("V1/VPS", "v1/vps"), 200, {"vp": {}}),
    Row(
        "unmanaged-vp",
        ADMIN,
        f"/v1/vps/{cloud.ORPHAN}",
        200,
        {"vp": {"unmanaged": {"reason": "no-nova-metadata", "detail": "not started by Nova"}}},
    ),
    Row(
        "stale-vp-of-an-admin",
        ADMIN,
        f"/v1/vps/{cloud.SLEEPER}",
        200,
        {
            "vp": {
                "state": None,
                "metrics": None,
                "last_known": {
                    "at": "2026-01-02T02:57:25Z",
                    "state": {"number": 0, "name": "pug, mf<0.25"},
                    "metrics": {"cpi": 2.5},
                },
            }
        },
    ),
    Row(
        "vp-of-its-tenant",
        READER,
        V,
        200,
        {
            "vp": {
                "name": "victim",
                "state": STATE_8,
                "since": "2026-01-02T03:03:00Z",
                "isolation": "soft",
                "sensitivity": ["cache"],
                "hurt_by_neighbour": True,
                "unmanaged": None,
                "actions": [
                    {
                        "at": "2026-01-02T03:03:00Z",
                        "what": "a neighbour was moved away",
                        "result": "mended",
                    }
                ],
            }
        },
    ),
    Row(
        "vp-of-the-one-who-was-moved",
        NEIGHBOUR,
        f"/v1/vps/{cloud.NOISY}",
        200,
        {
            "vp": {
                "hurt_by_neighbour": False,
                "actions": [
                    {"what": "this server was placed within its host"},
                    {"what": "this server was moved within its host"},
                ],
            }
        },
    ),
    Row(
        "stale-vp-of-its-tenant",
        READER,
        f"/v1/vps/{cloud.SLEEPER}",
        200,
        {
            "vp": {
                "is_stale": True,
                "state": None,
                "since": None,
                "hurt_by_neighbour": None,
                "unmanaged": {"reason": "numa-topology"},
                "last_known": {"at": "2026-01-02T02:57:00Z", "state": {"number": 0}},
            }
        },
    ),
    Row("vp-of-somebody-else", READER, f"/v1/vps/{cloud.NOISY}", 404, error("vp-not-found")),
    Row("vp-of-nobody", Persona("reader"), f"/v1/vps/{cloud.ORPHAN}", 404, error("vp-not-found")),
    Row("vp-without-a-role", Persona("nobody"), V, 404, error("vp-not-found")),
    Row("unknown-vp", ADMIN, f"/v1/vps/{cloud.UNKNOWN}", 404, error("vp-not-found")),
]


def assert_contains(actual, expected, where="answer"):
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in actual, f"{where}.{key}"
            assert_contains(actual[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), where
        for index, (item, value) in enumerate(zip(actual, expected, strict=True)):
            assert_contains(item, value, f"{where}[{index}]")
    else:
        assert actual == expected, where


NEEDS = {
    "vp-of-its-tenant": ("vp",),
    "vp-of-the-one-who-was-moved": ("initial_placement", "vp"),
}
"""Whose reasons are told there in words."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(r, marks=pytest.mark.needs_controllers(*NEEDS.get(str(r), ()))) for r in ROWS],
    ids=str,
)
def test_request(row):
    answer = Api().ask(row.persona, row.path, row.method, row.body)
    assert answer.status == row.status, answer.text
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["x-openstack-request-id"].startswith("req-")
    if row.answer is not None:
        assert_contains(answer.json, row.answer)
    if row.status >= 400:
        assert_is_error(answer)


def assert_is_error(answer):
    (fault,) = answer.json["errors"]
    assert set(fault) == {"status", "code", "title", "detail", "request_id", "links"}
    assert fault["status"] == answer.status
    assert fault["request_id"] == answer.headers["x-openstack-request-id"]
    assert fault["title"]
    assert fault["detail"]
    (help_link,) = fault["links"]
    assert help_link["rel"] == "help"
    page, _, pointer = help_link["href"].partition("#")
    told = Api().ask(None, page.removeprefix("http://localhost"))
    for name in pointer.split("/")[1:]:
        told = told[name] if isinstance(told, dict) else told.json[name]
    assert told == {"status": fault["status"], "title": fault["title"]}
    assert "Traceback" not in answer.text


def test_the_agent_is_told():
    api = Api()
    api.ask(ADMIN, "/v1/hosts/lab-1", "PATCH", {"mode": "advise"})
    api.ask(ADMIN, PROPOSAL, **ACCEPT)
    assert api.agents.modes == {"lab-1": "advise"}
    assert api.agents.accepted == [("lab-1", "6f1c2d3e-2")]


def test_nobody_without_the_right_reaches_the_agent():
    api = Api()
    for persona in (None, READER, MEMBER, MANAGER, SERVICE, Persona("nobody")):
        api.ask(persona, "/v1/hosts/lab-1", "PATCH", {"mode": "enforce"})
    assert api.agents.modes == {}


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (oslo_messaging.MessagingTimeout(), 504, "agent-silent"),
        (oslo_messaging.RemoteError("KeyError", "told-why", ["Traceback"]), 409, "agent-refused"),
        (oslo_messaging.MessageDeliveryFailure("no broker"), 503, "bus-unavailable"),
        (ValueError("a mistake of ours"), 500, "internal"),
    ],
)
def test_an_agent_that_fails(failure, status, code):
    api = Api()
    api.agents.failing["lab-1"] = failure
    for answer in (
        api.ask(ADMIN, "/v1/hosts/lab-1", "PATCH", {"mode": "observe"}),
        api.ask(ADMIN, PROPOSAL, **ACCEPT),
    ):
        assert answer.status == status
        assert_contains(answer.json, error(code))
        assert_is_error(answer)
        assert ("told-why" in answer.text) == (status == 409)
        assert ("former release" in answer.text) == (status == 504)


class Broken:
    """A database that fails whatever it is asked."""

    def __init__(self, failure):
        self._failure = failure

    def __getattr__(self, name):
        raise self._failure


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (db_exception.DBConnectionError("secret-dsn"), 503, "store-unavailable"),
        (SQLAlchemyError("secret-dsn"), 503, "store-unavailable"),
        (ZeroDivisionError("secret-internals"), 500, "internal"),
    ],
)
def test_failures_inside_keep_their_cause_inside(failure, status, code):
    answer = Api(stored=Broken(failure)).ask(ADMIN, "/v1/hosts")
    assert answer.status == status
    assert_contains(answer.json, error(code))
    assert_is_error(answer)
    assert "secret" not in answer.text


def test_an_acceptance_stands_though_the_database_does_not_keep_by_whom():
    away = Broken(db_exception.DBConnectionError("away"))
    api = Api(stored=replace(holding(), actions=away))
    accepted = api.latest(ADMIN, f"/v1/actions/{cloud.an_action()['id']}/accept", "POST", {})
    assert accepted.status == 200
    assert len(api.agents.accepted) == 1


def test_a_body_of_any_depth_is_refused():
    api, most = Api(), sys.getrecursionlimit()
    for depth in range(most - 200, most):
        body = b'{"mode": ' + b"[" * depth + b"]" * depth + b"}"
        assert api.latest(ADMIN, V, "PATCH", body).status == 400, depth


def test_a_body_that_ends_early_is_no_failure_of_ours():
    sent = {"wsgi.input": io.BytesIO(b"{"), "CONTENT_LENGTH": "2"}
    kind = "application/json"
    answer = Api().latest(ADMIN, V, "PATCH", environ=sent, content_type=kind)
    assert answer.status == 400
    assert_is_error(answer)


def test_a_method_that_is_missing_names_those_there_are():
    answer = Api().ask(ADMIN, "/v1/hosts/lab-1", "DELETE")
    assert answer.headers["Allow"] == "GET, PATCH"


def test_times_that_no_calendar_knows_are_no_times():
    record = cloud.a_record(vps=[cloud.a_vp(since=1e17)])
    answer = Api([record]).ask(READER, V)
    assert answer.json["vp"]["since"] is None


def test_a_store_clock_ahead_of_ours_is_no_negative_age():
    answer = Api([cloud.a_record(age_s=-30)]).ask(ADMIN, "/v1/hosts")
    assert answer.json["hosts"][0]["age_s"] == 0


@pytest.mark.parametrize(("age_s", "is_stale"), [(180, False), (181, True)])
def test_stale_begins_after_180_s(age_s, is_stale):
    answer = Api([cloud.a_record(age_s=age_s)]).ask(ADMIN, "/v1/hosts")
    assert answer.json["hosts"][0]["is_stale"] is is_stale
