# SPDX-License-Identifier: Apache-2.0
"""Holds an answer against the routes table: its schema, its error codes, its microversion."""

from functools import cache

import jsonschema
import routes
from microversion_parse import Version

from vp_api.errors import Code
from vp_api.routes import ROUTES
from vp_api.schemas import base

OPERATORS = ("admin", "service")


def check(request, response, persona) -> None:
    assert response.content_type == "application/json"
    assert response.headers["X-OpenStack-Request-Id"].startswith("req-")
    assert response.headers["Vary"] == "OpenStack-API-Version"
    if response.status_int < 400:
        _check_answer(request, response, persona)
    else:
        _check_error(request, response)


def _check_answer(request, response, persona) -> None:
    operation = operation_of(request)
    word, version = response.headers["OpenStack-API-Version"].split()
    assert word == "performance-isolation"
    assert operation.since <= Version(*map(int, version.split(".")))
    schema = operation.answer
    if operation.tenant_answer is not None and persona.role not in OPERATORS:
        schema = operation.tenant_answer
    jsonschema.Draft202012Validator(schema).validate(response.json)


def _check_error(request, response) -> None:
    jsonschema.validate(response.json, base.ERRORS)
    (told,) = response.json["errors"]
    code = next(code for code in Code if code.value[0] == told["code"])
    assert code.status == told["status"] == response.status_int
    assert told["request_id"] == response.headers["X-OpenStack-Request-Id"]
    assert ("Retry-After" in response.headers) is (response.status_int in (429, 503))
    operation = operation_of(request)
    if operation is not None and code is not Code.NOT_FOUND:
        assert code in operation.all_errors, f"{code} is not declared in the routes table"


def operation_of(request):
    """None: the table has none."""
    try:
        found = _mapper().routematch(request.path_info.rstrip("/") or "/")
    except UnicodeDecodeError:
        return None
    return ROUTES[found[1].name].get(request.method) if found else None


@cache
def _mapper():
    mapper = routes.Mapper()
    for path in ROUTES:
        mapper.connect(path, path)
    mapper.create_regs([])
    return mapper
