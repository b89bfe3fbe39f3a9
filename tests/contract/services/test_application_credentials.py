# SPDX-License-Identifier: Apache-2.0
"""An application credential of a real keystone, made as the guide says, reports latency and does
nothing else."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from keystoneauth1 import session
from keystoneauth1.identity.v3 import ApplicationCredential

import vp_client
from nova_vp.latency_message import read_latency
from tests.loopback import served
from tests.openstack_shell import Shell
from tests.real_keystone import AUTH_CONFIGURATION, PASSWORD, RealKeystone, real_keystone
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.stored import holding
from vp_api import deploy
from vp_api.routes import PUBLIC, ROUTES
from vp_api.testing import MemoryAgents
from vp_client import connection
from vp_client import latency as module
from vp_client.errors import Refused
from vp_client.transport import SERVICE_TYPE

# openstacksdk says at each import of its configuration that it will do without InfluxDB.
pytestmark = pytest.mark.filterwarnings("ignore:Support for InfluxDB")

GUIDE = (Path(__file__).parents[3] / "doc/source/latency.md").read_text()
REPORT = "/v1/vps/{server_id}/latency"


@pytest.fixture(scope="module")
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKeystone]:
    with real_keystone(tmp_path_factory.mktemp("keystone")) as one:
        one.add_user("nova-vp", "service", "service")
        yield one


@pytest.fixture(scope="module")
def project_id(keystone: RealKeystone) -> str:
    """That of an application's developer."""
    return keystone.add_user("developer", "shop", "member")


@pytest.fixture(scope="module")
def agents() -> MemoryAgents:
    return MemoryAgents()


@pytest.fixture(scope="module")
def url(
    keystone: RealKeystone,
    project_id: str,
    agents: MemoryAgents,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Of vp-api, which knows servers of the developer's project, and of another one."""
    path = tmp_path_factory.mktemp("vp-api") / "vp-api.conf"
    path.write_text(AUTH_CONFIGURATION.format(url=keystone.url, password=PASSWORD))
    stored = holding(_of_project(one, project_id) for one in cloud.records())
    application = deploy.loadapp(configuration(str(path)), stored, agents, clock=lambda: cloud.NOW)
    with served(application) as url:
        keystone.add_service(SERVICE_TYPE, url)
        yield url


def _of_project(record: Any, project_id: str) -> Any:
    report = json.loads(json.dumps(record.report).replace(cloud.ALPHA, project_id))
    return replace(record, report=report)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    one = Shell()
    yield one
    one.close()


@pytest.fixture(scope="module")
def credential(shell: Shell, keystone: RealKeystone, project_id: str) -> dict[str, str]:
    """Made by the command of the guide."""
    [command] = re.findall(
        r"^\$ openstack (application credential create .*?[^\\])$", GUIDE, re.M | re.S
    )
    words = shlex.join(shlex.split(command.replace("\\\n", "")))
    made = shell.run(f"{words} -f json", keystone.environment("developer", "shop")).json
    return {name.lower(): value for name, value in made.items()}


@pytest.fixture
def application(
    keystone: RealKeystone,
    credential: dict[str, str],
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """This process, with the environment that the guide names."""
    told = dict(re.findall(r"^export (OS_\w+)=(\S+)$", GUIDE, re.M))
    assert told.pop("OS_AUTH_TYPE") == "v3applicationcredential"
    values = {
        "OS_AUTH_URL": keystone.url,
        "OS_APPLICATION_CREDENTIAL_ID": credential["id"],
        "OS_APPLICATION_CREDENTIAL_SECRET": credential["secret"],
        "OS_REGION_NAME": "RegionOne",
    }
    assert told.keys() == values.keys()
    monkeypatch.setenv("OS_AUTH_TYPE", "v3applicationcredential")
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module.time, "time", lambda: cloud.NOW_S)
    # keystone's first answers take seconds on a busy machine.
    monkeypatch.setattr(connection, "TIMEOUT_S", 60.0)
    yield
    if connection._client.cache_info().currsize:
        connection._client()._api._adapter.session._session.close()
    connection._client.cache_clear()


def test_it_reports_latency(application: None, agents: MemoryAgents) -> None:
    told = vp_client.report_latency(cloud.VICTIM, 8.5, load=120_000)
    assert told["measured_at"] == "2026-01-02T03:04:05Z"
    [(host, text)] = agents.latency
    sent = read_latency(text)
    assert (host, sent.server, sent.latency_ms) == ("lab-1", cloud.VICTIM, 8.5)


def test_it_reports_for_no_server_of_others(application: None, agents: MemoryAgents) -> None:
    before = list(agents.latency)
    for server in (cloud.ORPHAN, cloud.UNKNOWN):
        with pytest.raises(Refused) as refused:
            vp_client.report_latency(server, 8.5)
        assert refused.value.status == 404
    assert agents.latency == before


@pytest.fixture(scope="module")
def token(keystone: RealKeystone, credential: dict[str, str]) -> str:
    return _token(keystone, credential)


def _token(keystone: RealKeystone, credential: dict[str, str]) -> str:
    auth = ApplicationCredential(
        keystone.url,
        application_credential_id=credential["id"],
        application_credential_secret=credential["secret"],
    )
    with requests.Session() as link:
        return str(session.Session(auth=auth, session=link).get_token())


def _asked(method: str, url: str, token: str, **options: Any) -> requests.Response:
    headers = {"X-Auth-Token": token, "OpenStack-API-Version": "performance-isolation 1.2"}
    return requests.request(method, url, headers=headers, timeout=30, **options)


OTHERS = [
    (method, path)
    for path, operations in ROUTES.items()
    for method in operations
    if (method, path) != ("PUT", REPORT) and path not in PUBLIC
]


@pytest.mark.parametrize(("method", "path"), OTHERS)
def test_it_may_do_nothing_else_of_vp_api(method: str, path: str, url: str, token: str) -> None:
    there = re.sub(r"{\w+}", cloud.VICTIM, path)
    assert _asked(method, url + there, token, json={}).status_code == 401


def test_the_rule_is_for_that_method_and_path_alone(url: str, token: str) -> None:
    there = REPORT.format(server_id=cloud.VICTIM)
    assert _asked("GET", url + there, token).status_code == 401
    for path in (f"{there}/x", f"/v1/vps/a/{cloud.VICTIM}/latency", "/v1/vps//latency/.."):
        assert _asked("PUT", url + path, token, json={}).status_code == 401
    assert _asked("PUT", url + there, token, json={}).status_code == 400


def test_it_may_do_nothing_of_keystone(keystone: RealKeystone, token: str) -> None:
    for method, path in (("GET", "projects"), ("GET", "users"), ("POST", "users")):
        refused = _asked(method, f"{keystone.url}/{path}", token, json={})
        assert refused.status_code in {401, 403}
    user = keystone.id_of("users", "developer")
    refused = _asked(
        "POST",
        f"{keystone.url}/users/{user}/application_credentials",
        token,
        json={"application_credential": {"name": "more"}},
    )
    assert refused.status_code in {401, 403}


def test_once_it_is_deleted_it_reports_no_more(
    shell: Shell, keystone: RealKeystone, url: str, project_id: str
) -> None:
    """The token that it gave is worth nothing either."""
    environment = keystone.environment("developer", "shop")
    rules = json.dumps([{"service": SERVICE_TYPE, "method": "PUT", "path": "/v1/vps/*/latency"}])
    create = shlex.join(["application", "credential", "create", "gone", "--access-rules", rules])
    made = shell.run(f"{create} -f json", environment).json
    secret = {name.lower(): value for name, value in made.items()}
    # vp-api may believe for a while a token that it has seen.
    seen, unseen = (_token(keystone, secret) for _ in range(2))
    there = url + REPORT.format(server_id=cloud.VICTIM)
    assert _asked("PUT", there, seen, json={}).status_code == 400, "believed, and says nothing"
    assert shell.run("application credential delete gone", environment).rc == 0
    assert _asked("PUT", there, unseen, json={}).status_code == 401
