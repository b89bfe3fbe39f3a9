# SPDX-License-Identifier: Apache-2.0
"""The application under test and the people who call it, without keystone."""

import json
from dataclasses import dataclass
from typing import Any

import webob
import webob.dec
from oslo_config import cfg

from tests.unit.api import cloud
from vp_api import deploy
from vp_api.testing import MemoryAgents, MemoryStore

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

    def __init__(self, application: Any, persona: Persona | None) -> None:
        self._application = application
        self._persona = persona

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        if self._persona is None:
            return webob.Response(status=401, text="Authentication required")
        request.headers.update(self._persona.headers)
        return request.get_response(self._application)


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


class Api:
    """One stored cloud, asked by anybody."""

    def __init__(self, records=None, store=None, agents=None, files=()) -> None:
        self.store = store or MemoryStore(cloud.records() if records is None else records)
        self.agents = agents or MemoryAgents()
        self._conf = configuration(*files)

    def ask(self, persona, path, method="GET", body=None, **options) -> Answer:
        application = deploy.loadapp(
            self._conf,
            self.store,
            self.agents,
            clock=lambda: cloud.NOW,
            authenticate=lambda app, conf: ByPersona(app, persona),
        )
        request = webob.Request.blank(path, method=method, **options)
        if body is not None:
            request.content_type = "application/json"
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = request.get_response(application)
        return Answer(response.status_int, response.text, response.headers)
