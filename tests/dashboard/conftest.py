# SPDX-License-Identifier: Apache-2.0
"""A real Horizon, a real keystone, and vp-api with a stored cloud: one of each for all tests."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import requests
import webob
import webob.dec

from testbed.dashboard import serve
from tests.dashboard.dashboard import User
from tests.loopback import served
from tests.openstack_shell import Shell
from tests.rabbitmq import free_port
from tests.real_keystone import AUTH_CONFIGURATION, PASSWORD, RealKeystone, real_keystone
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.stored import filled_like_the_cloud, holding
from tests.waiting import wait_until
from vp_api import deploy
from vp_api.services import Stored
from vp_api.testing import MemoryAgents
from vp_client.transport import SERVICE_TYPE

HOSTILE = "<script>alert(1)</script><b style='color:red'>&\"'"
"""A name of a server, as its tenant chose it."""


@dataclass
class Door:
    """In front of vp-api: counts what is asked, and can answer as a broken proxy does."""

    application: Any
    asked: list[str] = field(default_factory=list)
    is_closed: bool = False

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        self.asked.append(f"{request.method} {request.path_qs}")
        if self.is_closed:
            return webob.Response(status=502, text="Bad gateway")
        return request.get_response(self.application)


@dataclass(frozen=True)
class Site:
    horizon: str
    keystone: RealKeystone
    door: Door
    agents: MemoryAgents
    shell: Shell
    project_id: str
    """Of the tenant."""
    api_of: Callable[[Stored], Any]
    """A vp-api with that stored."""

    def told(self, command: str) -> Any:
        """What the command line says of the same: `-f json`."""
        environment = self.keystone.environment("admin", "admin")
        return self.shell.run(f"vp {command} -f json", environment).json


@pytest.fixture(scope="session")
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKeystone]:
    with real_keystone(tmp_path_factory.mktemp("keystone")) as one:
        one.add_user("nova-vp", "service", "service")
        yield one


@pytest.fixture(scope="session")
def site(keystone: RealKeystone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    project_id = keystone.add_user("tenant", "shop", "member")
    conf = folder / "vp-api.conf"
    conf.write_text(AUTH_CONFIGURATION.format(url=keystone.url, password=PASSWORD))
    agents = MemoryAgents()
    reported = [_of(project_id, one) for one in cloud.records()]
    stored = filled_like_the_cloud([_hostile(), _earlier(reported[0]), *reported], project_id)

    def api_of(stored: Stored) -> Any:
        return deploy.loadapp(configuration(str(conf)), stored, agents, clock=lambda: cloud.NOW)

    door = Door(api_of(stored))
    shell = Shell()
    port = free_port()
    with served(door) as api, serve.running(folder, port, keystone.url) as url:
        keystone.add_service(SERVICE_TYPE, api)
        wait_until(lambda: _answers(url), "Horizon to answer", deadline_s=120)
        yield Site(url, keystone, door, agents, shell, project_id, api_of)
    shell.close()


def _answers(url: str) -> bool:
    with suppress(requests.ConnectionError):
        return requests.get(f"{url}/auth/login/", timeout=120).ok
    return False


def _of(project_id: str, record: Any) -> Any:
    """Its servers of project alpha belong to the tenant, and it reported twice more."""
    report = json.loads(json.dumps(record.report).replace(cloud.ALPHA, project_id))
    return _numbered(replace(record, report=report), report["seq"] + 2)


def _earlier(record: Any) -> Any:
    """The report before it, in a minute that a history of every fifth minute has."""
    before = record.received_at.replace(minute=record.received_at.minute // 5 * 5)
    return _numbered(replace(record, received_at=before), record.sequence - 1)


def _numbered(record: Any, sequence: int) -> Any:
    return replace(record, sequence=sequence, report={**record.report, "seq": sequence})


def _hostile() -> Any:
    vps = [cloud.a_vp(uuid=cloud.UNKNOWN, name=HOSTILE, project_id=cloud.BETA, state=3)]
    return cloud.a_record("lab-3", vps=vps)


@pytest.fixture(scope="session")
def user(site: Site) -> Iterator[Callable[[str], User]]:
    """Of a name; each logs in once."""
    users: dict[str, User] = {}
    links = []

    def log_in(name: str) -> User:
        if name not in users:
            links.append(requests.Session())
            users[name] = User(site.horizon, links[-1])
            users[name].log_in(name)
        return users[name]

    yield log_in
    for link in links:
        link.close()


@pytest.fixture
def admin(user: Callable[[str], User]) -> User:
    return user("admin")


@pytest.fixture
def tenant(user: Callable[[str], User]) -> User:
    return user("tenant")


@pytest.fixture
def closed_door(site: Site) -> Iterator[None]:
    """vp-api cannot be reached in this test."""
    site.door.is_closed = True
    yield
    site.door.is_closed = False


@pytest.fixture
def reported(site: Site) -> Iterator[Callable[..., None]]:
    """vp-api knows only what was reported in this test, in that order."""
    usual = site.door.application

    def report(*records: Any) -> None:
        told = [_of(site.project_id, one) for one in records]
        numbered = [_numbered(one, number) for number, one in enumerate(told, 1)]
        site.door.application = site.api_of(holding(numbered))

    yield report
    site.door.application = usual
