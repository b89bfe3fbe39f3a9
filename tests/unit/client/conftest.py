# SPDX-License-Identifier: Apache-2.0
"""A cloud for the CLI: the real vp-api on a real database, a small keystone and a smaller Nova."""

import contextlib
import os
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
import webob
import webob.dec

from tests.keystone import Keystone
from tests.loopback import served
from tests.openstack_shell import Shell
from tests.unit.api import cloud
from tests.unit.api.stored import holding
from tests.unit.api.test_pipeline import configure
from vp_api import deploy
from vp_api.testing import MemoryAgents

RENAMED = "renamed-since-boot"


@dataclass
class Nova:
    """Answers what servers are called now; by id, in the project of whoever asks."""

    names: dict[str, str] = field(default_factory=dict)

    @webob.dec.wsgify
    def __call__(self, request):
        if request.path_info.startswith("/v2.1/flavors"):
            return self._flavors(request)
        if request.path_info == "/v2.1/os-aggregates":
            named = [{"id": i, "name": n} for i, n in enumerate(("ssd", "rack 7/b"))]
            return webob.Response(json={"aggregates": named})
        if not request.path_info.startswith("/v2.1/servers"):
            links = [{"rel": "self", "href": f"{request.application_url}/v2.1/"}]
            about = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1"}
            return webob.Response(json={"version": {**about, "links": links}})
        wanted = re.compile(request.params["name"])
        found = [{"id": i, "name": n} for i, n in self.names.items() if wanted.search(n)]
        return webob.Response(json={"servers": found if "marker" not in request.params else []})

    def _flavors(self, request):
        """One, by id or name, with what it asks of us."""
        one = {"id": "7", "name": "vp.strict", "vcpus": 2, "ram": 64, "disk": 0}
        one["extra_specs"] = {"vp:isolation": "strict", "vp:expects": "8"}
        asked = request.path_info.removeprefix("/v2.1/flavors").strip("/")
        if asked in ("", "detail"):
            return webob.Response(json={"flavors": [] if "marker" in request.params else [one]})
        if asked == "7":
            return webob.Response(json={"flavor": one})
        if asked == "7/os-extra_specs":
            return webob.Response(json={"extra_specs": one["extra_specs"]})
        return webob.Response(status=404, json={"itemNotFound": {"message": "none"}})


@dataclass
class Balancer:
    """Stands before vp-api, and answers in its own words where that is gone."""

    application: Any
    is_without_api: bool = False

    @webob.dec.wsgify
    def __call__(self, request):
        if self.is_without_api:
            return webob.Response(status=503, text="<html>Service Unavailable</html>")
        return request.get_response(self.application)


class Cloud:
    """`run` is an operator or a tenant at a shell."""

    def __init__(self, shell, keystone, keystone_url, agents, nova, balancer):
        self._shell = shell
        self.keystone = keystone
        self.agents = agents
        self.nova = nova
        self.balancer = balancer
        self._auth_url = f"{keystone_url}/v3"

    def environment(self, user="admin", project=cloud.ALPHA):
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "OS_AUTH_URL": self._auth_url,
            "OS_USERNAME": user,
            "OS_PASSWORD": "secret",
            "OS_PROJECT_NAME": project,
            "OS_USER_DOMAIN_NAME": "Default",
            "OS_PROJECT_DOMAIN_NAME": "Default",
            "OS_REGION_NAME": "RegionOne",
        }

    def run(self, command, user="admin", project=cloud.ALPHA):
        return self._shell.run(command, self.environment(user, project))


@pytest.fixture(scope="session")
def shell():
    one = Shell()
    yield one
    one.close()


@pytest.fixture(scope="module")
def stored():
    return holding()


@pytest.fixture(scope="module")
def lab(stored, shell, tmp_path_factory):
    with serving(stored, shell, tmp_path_factory.mktemp("etc")) as one:
        yield one


@contextlib.contextmanager
def serving(stored, shell, folder):
    keystone, agents, nova = Keystone(), MemoryAgents(), Nova({cloud.VICTIM: RENAMED})
    with served(keystone) as keystone_url:
        application = deploy.loadapp(
            configure(folder, keystone_url), stored, agents, clock=lambda: cloud.NOW
        )
        balancer = Balancer(application)
        with served(balancer) as url, served(nova) as nova_url:
            keystone.endpoints["performance-isolation"] = url
            keystone.endpoints["compute"] = f"{nova_url}/v2.1"
            yield Cloud(shell, keystone, keystone_url, agents, nova, balancer)
