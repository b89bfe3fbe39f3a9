# SPDX-License-Identifier: Apache-2.0
"""What a client sent, checked against a schema before a handler uses it."""

import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import webob

from vp_api.errors import ApiError, Code


def query_of(request: webob.Request, schema: Mapping[str, Any]) -> dict[str, str]:
    """Raises ApiError: an unknown parameter, one given twice, or not UTF-8."""
    try:
        pairs = list(request.GET.items())
    except UnicodeDecodeError as exc:
        raise ApiError(Code.BAD_REQUEST, "Send the query as percent-encoded UTF-8.") from exc
    query = dict(pairs)
    if len(query) != len(pairs):
        raise ApiError(Code.BAD_REQUEST, "Give each query parameter once.")
    _check(query, schema, "query")
    return query


def body_of(request: webob.Request, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ApiError: no JSON, or not of this shape."""
    if request.content_type != "application/json":
        raise ApiError(Code.BAD_REQUEST, "Send the body as Content-Type: application/json.")
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError) as exc:
        raise ApiError(Code.BAD_REQUEST, f"Send a JSON body: {exc}.") from exc
    _check(body, schema, "body")
    return body


def _check(value: object, schema: Mapping[str, Any], where: str) -> None:
    fault = next(jsonschema.Draft202012Validator(schema).iter_errors(value), None)
    if fault is not None:
        raise ApiError(
            Code.BAD_REQUEST, f"Correct the {where}: {fault.json_path}: {fault.message[:200]}."
        )
