# SPDX-License-Identifier: Apache-2.0
"""Enough of keystone for auth_token and the CLI: password in, token out, token validated.

A user's name is its role, and every password is right: `admin` has the role admin with those it
implies. A token is readable: `USER.PROJECT`.
"""

from typing import Any

import webob
import webob.dec
from keystoneauth1 import fixture

ROLES = {
    "admin": ("admin", "manager", "member", "reader"),
    "member": ("member", "reader"),
    "service": ("service",),
}


class Keystone:
    """`endpoints`: service type to URL, for the catalog; may be filled once URLs are known."""

    def __init__(self) -> None:
        self.endpoints: dict[str, str] = {}

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        if request.path_info.rstrip("/") != "/v3/auth/tokens":
            version = fixture.V3Discovery(f"{request.application_url}/v3")
            return webob.Response(json={"version": version})
        if request.method == "POST":
            return self._issue(request)
        return self._validate(request)

    def _issue(self, request: webob.Request) -> webob.Response:
        auth = request.json["auth"]
        user = auth["identity"]["password"]["user"]["name"]
        project = auth["scope"]["project"]["name"]
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
