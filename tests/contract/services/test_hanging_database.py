# SPDX-License-Identifier: Apache-2.0
"""vp-api beside a database server that is stopped in the middle of its work: its kernel still takes
connections and acknowledges whatever is sent, and nobody answers.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from nova_vp.conf import database
from nova_vp.db.report_store import ERRORS, ReportStore
from tests.freezing import frozen
from tests.loopback import served
from tests.unit.api import cloud
from tests.unit.api.client import Persona, as_persona, configuration
from tests.waiting import wait_until
from vp_api import deploy
from vp_api.services import Stored
from vp_api.testing import MemoryAgents

CLIENTS = 20
THREADS = 8
"""Of our unit."""
DEADLINE_S = 20
"""Several times what a client waits for, and far less than one after the other would."""
HOSTS = "/v1/hosts"


@pytest.fixture(params=["mariadb", "postgresql"])
def database_kind(request):
    """Those that are servers."""
    return request.param


@pytest.fixture
def server(database_kind, request):
    return request.getfixturevalue(database_kind)


@pytest.fixture
def url(synced_url):
    conf = configuration()
    database.register_opts(conf)
    conf.set_override("connection", synced_url, database.GROUP)
    application = deploy.loadapp(
        conf,
        Stored.open(conf),
        MemoryAgents(),
        clock=lambda: cloud.NOW,
        authenticate=as_persona(Persona("admin")),
    )
    with served(application, THREADS) as url:
        yield url


@pytest.fixture
def clients():
    with ThreadPoolExecutor(CLIENTS) as pool:
        yield pool


def ask(url):
    return requests.get(url, timeout=DEADLINE_S)


def statuses(clients, url):
    return [answer.status_code for answer in clients.map(ask, [url] * CLIENTS)]


def test_all_clients_are_told_that_it_hangs_and_served_once_it_is_back(url, clients, server):
    assert set(statuses(clients, url + HOSTS)) == {200}
    with frozen(server.pid):
        answers = list(clients.map(ask, [url + HOSTS] * CLIENTS))
        assert {answer.status_code for answer in answers} == {503}
        assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
        assert answers[0].json()["errors"][0]["code"] == "performance-isolation.store-unavailable"
        assert set(statuses(clients, url + "/health")) == {503}
        assert set(statuses(clients, url + "/v1")) == {200}
    wait_until(lambda: set(statuses(clients, url + HOSTS)) == {200}, "service as before")
    wait_until(lambda: ask(url + "/health").status_code == 200, "health")


def test_it_may_hang_from_the_first_connection_on(url, clients, server):
    with frozen(server.pid):
        assert set(statuses(clients, url + HOSTS)) == {503}
    wait_until(lambda: set(statuses(clients, url + HOSTS)) == {200}, "service as before")


def test_connections_that_the_server_has_ended_are_no_outage(url, clients, server):
    """As after its restart: what was in the pool is opened anew, and nobody notices."""
    assert set(statuses(clients, url + HOSTS)) == {200}
    server.end_connections()
    assert set(statuses(clients, url + HOSTS)) == {200}


def test_who_stores_reports_does_not_wait_for_ever(database_conf, server):
    database.register_opts(database_conf)
    database_conf.set_override("answer_timeout_s", 1, database.GROUP)
    store = ReportStore(database_conf)
    assert store.list_heads() == []
    with frozen(server.pid), pytest.raises(ERRORS):
        store.list_heads()
    assert store.list_heads() == []
