# SPDX-License-Identifier: Apache-2.0
"""The application under test and the people who call it, without keystone."""

import json
from dataclasses import dataclass
from typing import Any

import webob
import webob.dec
from oslo_config import cfg

from tests.unit.api import cloud, contract
from tests.unit.api.stored import holding
from vp_api import deploy
from vp_api.testing import MemoryAgents

IMPLIED = {
    "admin": ["admin", "manager", "member", "reader"],
    "manager": ["manager", "member", "reader"],
    "member": ["member", "reader"],
    "reader": ["reader"],
    "service": ["service"],
    "nobody": [],
}
"""Roles as keystone puts them into a token: implied ones included."""


@dataclass(frozen=True, slots=True)
class Persona:
    role: str
    project_id: str | None = cloud.ALPHA
    system: bool = False

    @property
    def headers(self) -> dict[str, str]:
        headers = {"X-User-Id": f"user-{self.role}", "X-Roles": ",".join(IMPLIED[self.role])}
        if self.project_id is not None:
            headers["X-Project-Id"] = self.project_id
        if self.system:
            headers["OpenStack-System-Scope"] = "all"
        return headers


class ByPersona:
    """Stands where auth_token stands: the test says who is asking."""

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        persona = request.environ["test.persona"]
        if persona is None:
            return webob.Response(status=401, text="Authentication required")
        request.headers.update(persona.headers)
        return request.get_response(self._application)


def as_persona(persona: Persona) -> Any:
    """In place of auth_token, for clients that only speak HTTP: everybody is this one."""

    def authenticate(application: Any, conf: cfg.ConfigOpts) -> Any:
        inner = ByPersona(application)

        @webob.dec.wsgify
        def outer(request: webob.Request) -> webob.Response:
            request.environ["test.persona"] = persona
            return request.get_response(inner)

        return outer

    return authenticate


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str
    headers: Any

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def configuration(*files: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf([], project="nova-vp", default_config_files=list(files), default_config_dirs=[])
    return conf


LATEST = {"OpenStack-API-Version": "performance-isolation latest"}


class Api:
    """One stored cloud, asked by anybody. Every answer is held against what the routes table says
    of it."""

    def __init__(self, records=None, stored=None, agents=None, files=()) -> None:
        self.stored = stored or holding(records)
        self.agents = agents or MemoryAgents()
        self.application = deploy.loadapp(
            configuration(*files),
            self.stored,
            self.agents,
            clock=lambda: cloud.NOW,
            authenticate=lambda application, conf: ByPersona(application),
        )

    def ask(self, persona, path, method="GET", body=None, headers=None, **options) -> Answer:
        request = webob.Request.blank(path, method=method, headers=headers, **options)
        request.environ["test.persona"] = persona
        if body is not None:
            request.content_type = "application/json"
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = request.get_response(self.application)
        contract.check(request, response, persona)
        return Answer(response.status_int, response.text, response.headers)

    def latest(self, persona, path, method="GET", body=None, **options) -> Answer:
        """At the newest microversion."""
        return self.ask(persona, path, method, body, headers=LATEST, **options)
