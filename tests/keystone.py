# SPDX-License-Identifier: Apache-2.0
"""Enough of keystone for auth_token and the CLI: password in, token out, token validated.

A user's name is its role, and every password is right: `admin` has the role admin with those it
implies. A token is readable: `USER.PROJECT`.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import webob
import webob.dec
from keystoneauth1 import fixture
from waitress import serve

from tests.rabbitmq import free_port
from tests.waiting import answers_on, wait_until

DOMAIN = {"id": "default", "name": "Default"}
ROLES = {
    "admin": ("admin", "manager", "member", "reader"),
    "member": ("member", "reader"),
    "service": ("service",),
    "vp_escalation": ("vp_escalation",),
}


class Keystone:
    """`endpoints`: service type to URL, for the catalog; may be filled once URLs are known."""

    def __init__(self) -> None:
        self.endpoints: dict[str, str] = {}
        self.closed_projects: set[str] = set()
        """Of which nobody is a member."""
        self.tokens_given = 0
        self.projects: dict[str, str] = {}
        """Ids by name, for administrators."""

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        if request.path_info.startswith("/v3/projects"):
            return self._projects(request)
        if request.path_info.startswith("/v3/domains"):
            return self._domains(request)
        if request.path_info.rstrip("/") != "/v3/auth/tokens":
            version = fixture.V3Discovery(f"{request.application_url}/v3")
            return webob.Response(json={"version": version})
        if request.method == "POST":
            return self._issue(request)
        return self._validate(request)

    def _projects(self, request: webob.Request) -> webob.Response:
        if not request.headers["X-Auth-Token"].startswith("admin."):
            return webob.Response(status=403, json={"error": {"code": 403, "message": "no"}})
        if request.path_info != "/v3/projects":
            return webob.Response(status=404, json={"error": {"code": 404, "message": "no"}})
        wanted = request.params.get("name")
        is_here = request.params.get("domain_id", DOMAIN["id"]) == DOMAIN["id"]
        found = [{"id": i, "name": n} for n, i in self.projects.items() if is_here and n == wanted]
        return webob.Response(json={"projects": found, "links": {"next": None}})

    def _domains(self, request: webob.Request) -> webob.Response:
        """One, by id or name."""
        if request.path_info == f"/v3/domains/{DOMAIN['id']}":
            return webob.Response(json={"domain": DOMAIN})
        if request.path_info != "/v3/domains":
            return webob.Response(status=404, json={"error": {"code": 404, "message": "no"}})
        found = [DOMAIN] if request.params.get("name") == DOMAIN["name"] else []
        return webob.Response(json={"domains": found, "links": {"next": None}})

    def _issue(self, request: webob.Request) -> webob.Response:
        auth = request.json["auth"]
        user = auth["identity"]["password"]["user"]["name"]
        scope = auth["scope"]["project"]
        project = scope.get("id") or scope["name"]
        if project in self.closed_projects:
            return webob.Response(status=401, json={"error": {"code": 401, "message": "no role"}})
        self.tokens_given += 1
        response = webob.Response(status=201, json=self._token(request, user, project))
        response.headers["X-Subject-Token"] = f"{user}.{project}"
        return response

    def _validate(self, request: webob.Request) -> webob.Response:
        user, _, project = request.headers["X-Subject-Token"].partition(".")
        if user not in ROLES:
            return webob.Response(status=404, json={"error": {"code": 404, "message": "no token"}})
        return webob.Response(json=self._token(request, user, project))

    def _token(self, request: webob.Request, user: str, project: str) -> dict[str, Any]:
        token = fixture.V3Token(user_id=f"id-of-{user}", user_name=user)
        token.set_project_scope(id=project, name=project)
        for role in ROLES[user]:
            token.add_role(name=role)
        identity = {"identity": f"{request.application_url}/v3"}
        for service_type, url in {**identity, **self.endpoints}.items():
            token.add_service(service_type).add_standard_endpoints(
                public=url, internal=url, region="RegionOne"
            )
        return dict(token)


class Process(NamedTuple):
    url: str
    pid: int


@contextlib.contextmanager
def keystone_process() -> Iterator[Process]:
    """One in a process of its own, which can be stopped."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", __name__, str(port)])
    try:
        wait_until(lambda: answers_on(port), "keystone")
        yield Process(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    serve(Keystone(), host="127.0.0.1", port=int(sys.argv[1]))
