# SPDX-License-Identifier: Apache-2.0
"""vp-api's `/health`: of this process, for all, and nothing that a tenant must not know."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import webob

from nova_vp.conf import database
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.stored import holding
from tests.waiting import wait_until
from vp_api import deploy
from vp_api.services import Stored
from vp_api.testing import MemoryAgents

DEADLINE_S = 20


def stored_in(connection):
    conf = configuration()
    database.register_opts(conf)
    conf.set_override("connection", connection, "database")
    return Stored.open(conf)


@pytest.fixture
def away():
    """A port that is ours, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield stored_in(f"mysql+pymysql://nova-vp:s3cret@127.0.0.1:{taken.getsockname()[1]}/vp")


@pytest.fixture
def nobody_waits(monkeypatch):
    """For a database at its first use, as oslo.db does: that keeps the thread for minutes."""

    def sleep(seconds):
        assert not seconds, f"a request waits for {seconds} s"

    monkeypatch.setattr("oslo_db.sqlalchemy.engines.time", SimpleNamespace(sleep=sleep))


@pytest.fixture
def unsynced(tmp_path):
    """Made, and without our tables: nobody ran `vp-manage db sync`."""
    return stored_in(f"sqlite:///{tmp_path}/s3cret.sqlite")


@pytest.fixture
def well():
    return holding()


def refuse(application, conf):
    """In place of auth_token: nobody gets in."""
    return webob.exc.HTTPUnauthorized()


def build(stored, is_bus_reachable):
    return deploy.loadapp(
        configuration(),
        stored,
        MemoryAgents(),
        clock=lambda: cloud.NOW,
        is_bus_reachable=is_bus_reachable,
        authenticate=refuse,
    )


def get(application, path="/health", method="GET"):
    return webob.Request.blank(path, method=method).get_response(application)


def ask(stored, is_bus_reachable, path="/health", method="GET"):
    return get(build(stored, lambda: is_bus_reachable), path, method)


@pytest.mark.parametrize(
    ("stored", "is_bus_reachable", "status", "code"),
    [
        ("well", True, "pass", 200),
        ("well", False, "warn", 200),
        ("away", True, "fail", 503),
        ("unsynced", True, "fail", 503),
    ],
)
def test_it_is_as_well_as_what_it_needs(
    stored, is_bus_reachable, status, code, request, nobody_waits
):
    answer = ask(request.getfixturevalue(stored), is_bus_reachable)
    assert answer.status_int == code
    assert answer.content_type == "application/health+json"
    assert answer.json["status"] == status
    assert answer.json["checks"].keys() == {"bus:connection", "database:connection"}


def test_it_tells_no_secret_and_no_host(away, unsynced, well):
    told = "".join(ask(stored, False).text for stored in (away, unsynced, well))
    assert "s3cret" not in told
    assert "lab-1" not in told


def test_it_tells_neither_which_host_answers_nor_by_which_release(well):
    assert ask(well, True).json.keys() == {"status", "version", "description", "checks"}


def test_it_is_asked_only():
    assert ask(holding(), True, method="POST").status_int == 405
    assert ask(holding(), True, method="HEAD").status_int == 200


def test_all_else_goes_through_the_pipeline():
    assert ask(holding(), True, "/v1/vps").status_int == 401
    assert ask(holding(), True, "/health/").status_int == 401


def test_callers_do_not_queue_behind_one_that_looks(monkeypatch):
    """They are told of the look before, however long the bus keeps the one."""
    monkeypatch.setattr("nova_vp.service.last_look.FRESH_S", 0.0)
    looks, may_go_on = [], threading.Event()

    def is_bus_reachable():
        looks.append(None)
        is_first = len(looks) == 1
        assert is_first or may_go_on.wait(DEADLINE_S)
        return is_first

    application = build(holding(), is_bus_reachable)
    assert get(application).json["status"] == "pass"
    with ThreadPoolExecutor(4) as callers:
        first = callers.submit(get, application)
        wait_until(lambda: len(looks) == 2, "the second look")
        others = [callers.submit(get, application) for _ in range(3)]
        assert [one.result(DEADLINE_S).json["status"] for one in others] == ["pass"] * 3
        may_go_on.set()
        assert first.result(DEADLINE_S).json["status"] == "warn"
    assert len(looks) == 2
