# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI 3.1 document, made from the routes table: it cannot say anything else than that.

Schemas with a title become components, so that the document names each shape once. It describes
the newest microversion, which a client must ask for.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

from vp_api.errors import JSON, LISTED_ERRORS, Code
from vp_api.operation import Operation, Routes, Schema
from vp_api.schemas import base
from vp_api.versions import HEADER, NEWEST, SERVICE_TYPE

Json = dict[str, Any]

FILE = "openapi.json"

VERSION_PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": True,
    "description": "The microversion that this document describes.",
    "schema": {"const": f"{SERVICE_TYPE} {NEWEST}"},
}


def publish(routes: Routes, folder: Path) -> None:
    """For the documentation: a file that is made anew with every build."""
    folder.mkdir(exist_ok=True)
    text = json.dumps(document(routes), indent=2, ensure_ascii=False)
    (folder / FILE).write_text(f"{text}\n")


def document(routes: Routes) -> Json:
    components: Json = {}
    paths = {
        path: {
            method.lower(): _operation(path, method, operation, components)
            for method, operation in methods.items()
        }
        for path, methods in routes.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nova-vp",
            "version": str(NEWEST),
            "description": "Performance isolation between servers that share a host.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        LISTED_ERRORS: {
            name: {"status": status, "title": title}
            for name, status, title in (code.value for code in Code)
        },
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-Auth-Token",
                    "description": "A project-scoped token of keystone.",
                }
            },
        },
        "security": [{"token": []}],
    }


def _operation(path: str, method: str, operation: Operation, components: Json) -> Json:
    told: Json = {
        "operationId": operation.handler.__name__,
        "summary": operation.summary,
        "parameters": [
            VERSION_PARAMETER,
            *_path_parameters(path, components),
            *_query_parameters(operation, components),
        ],
        "responses": _responses(operation, components),
        "x-openstack-min-version": str(operation.since),
    }
    if operation.is_public:
        told["security"] = []
    else:
        told["x-openstack-policy"] = [
            rule for rule in (operation.rule, operation.operator_rule) if rule
        ]
    if operation.body is not None:
        content = {JSON: {"schema": _named(operation.body, components)}}
        is_required = not jsonschema.Draft202012Validator(operation.body).is_valid({})
        told["requestBody"] = {"required": is_required, "content": content}
    return told


def _path_parameters(path: str, components: Json) -> list[Json]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _named(base.PATH_ARGUMENTS[name], components),
        }
        for name in names
    ]


def _query_parameters(operation: Operation, components: Json) -> list[Json]:
    return [
        {
            "name": name,
            "in": "query",
            "required": name in operation.query.get("required", ()),
            "schema": _named(schema, components),
        }
        for name, schema in operation.query["properties"].items()
    ]


def _responses(operation: Operation, components: Json) -> Json:
    answers = [_named(operation.answer, components)]
    if operation.tenant_answer is not None:
        answers.append(_named(operation.tenant_answer, components))
    schema = answers[0] if len(answers) == 1 else {"anyOf": answers}
    return {
        "200": {"description": "Done.", "content": {JSON: {"schema": schema}}},
        **_errors(operation, components),
    }


def _errors(operation: Operation, components: Json) -> Json:
    by_status: dict[int, list[Code]] = defaultdict(list)
    for code in Code:
        if code in operation.all_errors:
            by_status[code.status].append(code)
    schema = _named(base.ERRORS, components)
    return {
        str(status): {
            "description": "; ".join(f"`{code.value[0]}`: {code.value[2]}" for code in codes),
            "content": {JSON: {"schema": schema}},
        }
        for status, codes in sorted(by_status.items())
    }


def _named(schema: Schema, components: Json) -> Json:
    """The schema, in which every one that has a title is a reference."""
    plain = {key: _inside(value, components) for key, value in schema.items()}
    title = schema.get("title")
    if not isinstance(title, str):
        return plain
    if components.setdefault(title, plain) != plain:
        raise ValueError(f"two schemas have the title {title}")
    return {"$ref": f"#/components/schemas/{title}"}


def _inside(value: Any, components: Json) -> Any:
    if isinstance(value, Mapping):
        return _named(value, components)
    if isinstance(value, list | tuple):
        return [_inside(item, components) for item in value]
    return value
