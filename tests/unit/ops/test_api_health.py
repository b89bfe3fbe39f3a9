# SPDX-License-Identifier: Apache-2.0
"""vp-api's `/health`: of this process, for all, and nothing that a tenant must not know."""

import socket
from types import SimpleNamespace

import pytest
import webob

from nova_vp.conf import database
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.stored import holding
from vp_api import deploy
from vp_api.services import Stored
from vp_api.testing import MemoryAgents


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


def ask(stored, is_bus_reachable, path="/health", method="GET"):
    application = deploy.loadapp(
        configuration(),
        stored,
        MemoryAgents(),
        clock=lambda: cloud.NOW,
        is_bus_reachable=lambda: is_bus_reachable,
        authenticate=refuse,
    )
    return webob.Request.blank(path, method=method).get_response(application)


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


def test_it_is_asked_only():
    assert ask(holding(), True, method="POST").status_int == 405
    assert ask(holding(), True, method="HEAD").status_int == 200


def test_all_else_goes_through_the_pipeline():
    assert ask(holding(), True, "/v1/vps").status_int == 401
    assert ask(holding(), True, "/health/").status_int == 401
