# SPDX-License-Identifier: Apache-2.0
"""The one table of routes, and the few lines that find a handler in it."""

import json
from collections.abc import Callable
from typing import Any

import routes
import webob
import webob.dec

from vp_api.errors import JSON, ApiError, Code
from vp_api.handlers import hosts, root, vps
from vp_api.seams import Services

Handler = Callable[..., dict[str, Any]]

ROUTES: dict[str, dict[str, Handler]] = {
    "/": {"GET": root.list_versions},
    "/v1": {"GET": root.show_version},
    "/v1/hosts": {"GET": hosts.list_hosts},
    "/v1/hosts/{host}": {"GET": hosts.show_host, "PATCH": hosts.change_host},
    "/v1/hosts/{host}/proposals/{action_id}": {"PUT": hosts.accept_proposal},
    "/v1/vps": {"GET": vps.list_vps},
    "/v1/vps/{server_id}": {"GET": vps.show_vp},
}

PUBLIC = frozenset({"/", "/v1"})
"""Answered without a token: clients discover the version before they have one."""


def path_of(request: webob.Request) -> str:
    """The path as the table spells it; the same for deciding what is public and for dispatch."""
    try:
        return request.path_info.rstrip("/") or "/"
    except UnicodeDecodeError as exc:
        raise ApiError(Code.BAD_REQUEST, "Send the path as percent-encoded UTF-8.") from exc


class Dispatcher:
    """The innermost application."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._mapper = routes.Mapper()
        for path in ROUTES:
            self._mapper.connect(path, path)
        self._mapper.create_regs([])  # now: doing it on the first request would race

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        found = self._mapper.routematch(path_of(request))
        if not found:
            raise ApiError(Code.NOT_FOUND, "GET / and the API reference list what there is.")
        arguments, route = found
        handler = self._handler(ROUTES[route.name], request.method)
        body = handler(request, self._services, **arguments)
        return webob.Response(text=json.dumps(body), content_type=JSON, charset="utf-8")

    def _handler(self, methods: dict[str, Handler], method: str) -> Handler:
        if method not in methods:
            allowed = ", ".join(methods)
            error = ApiError(Code.METHOD_NOT_ALLOWED, f"Use one of: {allowed}.")
            error.headers["Allow"] = allowed
            raise error
        return methods[method]
