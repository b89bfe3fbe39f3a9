# SPDX-License-Identifier: Apache-2.0
"""vp-api beside a keystone and a memcached that are stopped in the middle of their work."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.freezing import frozen
from tests.keystone import keystone_process
from tests.loopback import served
from tests.memcached import memcached
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.stored import holding
from tests.waiting import wait_until
from vp_api import deploy
from vp_api.testing import MemoryAgents

CLIENTS = 20
THREADS = 8
"""Of our unit."""
DEADLINE_S = 10
"""What one after the other would exceed."""
CONFIGURATION = """
[keystone_authtoken]
auth_type = password
auth_url = {keystone}
www_authenticate_uri = {keystone}
username = service
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
memcached_servers = {memcached}
"""


@pytest.fixture(scope="module")
def keystone():
    with keystone_process() as process:
        yield process


@pytest.fixture(scope="module")
def cache():
    with memcached() as process:
        yield process


@pytest.fixture
def url(keystone, cache, tmp_path):
    path = tmp_path / "vp-api.conf"
    path.write_text(CONFIGURATION.format(keystone=keystone.url, memcached=cache.address))
    application = deploy.loadapp(
        configuration(str(path)), holding(), MemoryAgents(), clock=lambda: cloud.NOW
    )
    with served(application, THREADS) as url:
        yield url


@pytest.fixture
def clients():
    with ThreadPoolExecutor(CLIENTS) as pool:
        yield pool


_numbers = itertools.count()


def new_tokens():
    """That no cache knows."""
    return [f"admin.project{next(_numbers)}" for _ in range(CLIENTS)]


def asked(clients, url, tokens):
    def ask(token):
        headers = {"X-Auth-Token": token}
        return requests.get(f"{url}/v1/hosts", headers=headers, timeout=DEADLINE_S)

    return list(clients.map(ask, tokens))


def statuses(answers):
    return {answer.status_code for answer in answers}


def test_new_tokens_are_refused_while_keystone_hangs_and_known_ones_served(url, clients, keystone):
    known = new_tokens()
    assert statuses(asked(clients, url, known)) == {200}
    with frozen(keystone.pid):
        answers = asked(clients, url, new_tokens())
        assert statuses(answers) == {503}
        assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
        assert (
            answers[0].json()["errors"][0]["code"] == "performance-isolation.identity-unavailable"
        )
        assert statuses(asked(clients, url, known)) == {200}
    wait_until(lambda: statuses(asked(clients, url, new_tokens())) == {200}, "service as before")


def test_nobody_notices_that_memcached_hangs(url, clients, cache):
    known = new_tokens()
    assert statuses(asked(clients, url, known)) == {200}
    with frozen(cache.pid):
        assert statuses(asked(clients, url, known)) == {200}
        assert statuses(asked(clients, url, new_tokens())) == {200}
    assert statuses(asked(clients, url, known)) == {200}
