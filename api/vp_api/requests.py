# SPDX-License-Identifier: Apache-2.0
"""What a client sent, checked against a schema before a handler uses it."""

import json
import re
from collections.abc import Mapping
from typing import Any

import jsonschema
import webob

from vp_api.errors import JSON, ApiError, Code
from vp_api.schemas.base import NULL

_INTEGER = re.compile(r"-?\d{1,15}", re.ASCII)
_YES_NO = {"true": True, "false": False}


def query_of(request: webob.Request, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and booleans as such. Raises ApiError: an unknown parameter, one given twice, one of
    another shape, or not UTF-8."""
    try:
        pairs = list(request.GET.items())
    except UnicodeDecodeError as exc:
        raise ApiError(Code.BAD_REQUEST, "Send the query as percent-encoded UTF-8.") from exc
    properties = schema["properties"]
    query = {name: _value(text, properties.get(name, {})) for name, text in pairs}
    if len(query) != len(pairs):
        raise ApiError(Code.BAD_REQUEST, "Give each query parameter once.")
    _check(query, schema, "query")
    return query


def body_of(request: webob.Request, schema: Mapping[str, Any]) -> dict[str, Any]:
    """No body is an empty object. Raises ApiError: no JSON, or not of this shape."""
    try:
        sent = request.body
    except OSError as exc:
        raise ApiError(Code.BAD_REQUEST, "Send the whole body: it ended early.") from exc
    if sent and request.content_type != JSON:
        raise ApiError(Code.BAD_REQUEST, f"Send the body as Content-Type: {JSON}.")
    try:
        body: dict[str, Any] = json.loads(sent or "{}", parse_constant=_refuse)
        _check(body, schema, "body")  # It quotes the body, which may be too deep for that.
    except (ValueError, RecursionError) as exc:
        raise ApiError(Code.BAD_REQUEST, f"Send a JSON body: {exc}.") from exc
    return body


def _refuse(name: str) -> None:
    """JSON has no such number, and schemas let NaN pass wherever one is asked for."""
    raise ValueError(f"{name} is no number")


def check_arguments(arguments: Mapping[str, str], schemas: Mapping[str, Any]) -> None:
    """Raises ApiError: a part of the path that nothing can be called."""
    schema = {"properties": schemas}
    _check(dict(arguments), schema, "path")


def _value(text: str, schema: Mapping[str, Any]) -> Any:
    """As the schema wants it; what cannot be that stays text, and is refused as such."""
    if schema.get("type") == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if schema.get("type") == "boolean":
        return _YES_NO.get(text, text)
    return text


def _check(value: object, schema: Mapping[str, Any], where: str) -> None:
    fault = next(jsonschema.Draft202012Validator(schema).iter_errors(value), None)
    if fault is not None:
        fault = _branch(fault)
        raise ApiError(
            Code.BAD_REQUEST, f"Correct the {where}: {fault.json_path}: {fault.message[:200]}."
        )


def _branch(fault: jsonschema.ValidationError) -> jsonschema.ValidationError:
    """What a value may be other than null: "not valid under any" tells nobody what to send."""
    told = [one for one in fault.context or () if one.schema != NULL]
    return _branch(told[0]) if told else fault
