# SPDX-License-Identifier: Apache-2.0
"""The innermost application: finds the operation in the routes table and asks all that it says.

In this order: does it exist, at this microversion; may the caller; is the request valid. So nobody
learns from an error message what he may not ask.
"""

import json
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import orjson
import routes
import webob
import webob.dec

from vp_api.context import context_of
from vp_api.errors import JSON, ApiError, Code
from vp_api.operation import Answer, Call, Operation, Routes
from vp_api.requests import body_of, check_arguments, query_of
from vp_api.schemas import base
from vp_api.services import Services
from vp_api.versions import version_of

ROUTE_KEY = "nova_vp.route"
"""In the environ of a request, for those around us: the path as the table spells it."""

COMPACT = (",", ":")

READERS = 2
"""Threads that read and write answers at a time: while one waits for the database another computes.
More of them would spend their time on taking the interpreter's lock from each other."""


def path_of(request: webob.Request) -> str:
    """The path as the table spells it; the same for deciding what is public and for dispatch."""
    try:
        return request.path_info.rstrip("/") or "/"
    except UnicodeDecodeError as exc:
        raise ApiError(Code.BAD_REQUEST, "Send the path as percent-encoded UTF-8.") from exc


class Dispatcher:
    def __init__(self, services: Services, table: Routes) -> None:
        self._services = services
        self._table = table
        # Not around what waits for agents.
        self._turns = threading.BoundedSemaphore(READERS)
        self._mapper = routes.Mapper()
        for path in table:
            self._mapper.connect(path, path)
        self._mapper.create_regs([])  # now: doing it on the first request would race

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        version = version_of(request)
        found = self._mapper.routematch(path_of(request))
        if not found:
            raise _no_such()
        arguments, route = found
        request.environ[ROUTE_KEY] = route.name
        operation = _operation(self._table[route.name], request.method)
        if operation.since > version:
            raise _no_such()
        if operation.rule is not None and operation.operator_rule is None:
            self._services.policy.require(context_of(request), operation.rule)
        check_arguments(arguments, base.PATH_ARGUMENTS)
        query = query_of(request, operation.query_at(version))
        body = {} if operation.body is None else body_of(request, operation.body)
        call = Call(operation, request, self._services, version, query, body)
        with self._turns if request.method == "GET" else nullcontext():
            answer = _written(operation.handler(call, **arguments))
        return webob.Response(body=answer, content_type=JSON, charset="utf-8")


def _written(answer: Answer) -> bytes:
    try:
        return orjson.dumps(answer)
    except TypeError:
        # Hosts may report what JSON can say and orjson cannot: half a surrogate.
        return json.dumps(answer, separators=COMPACT).encode()


def _no_such() -> ApiError:
    return ApiError(
        Code.NOT_FOUND,
        "GET /v1/openapi.json and the API reference list what there is, and since which "
        "microversion.",
    )


def _operation(methods: Mapping[str, Operation], method: str) -> Any:
    if method not in methods:
        allowed = ", ".join(methods)
        error = ApiError(Code.METHOD_NOT_ALLOWED, f"Use one of: {allowed}.")
        error.headers["Allow"] = allowed
        raise error
    return methods[method]
