# SPDX-License-Identifier: Apache-2.0
"""JSON Schema (2020-12) for what all resources share, and the few words to write more of it.

A schema with a title stands in the OpenAPI document under that name.
"""

from collections.abc import Mapping
from typing import Any

from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Isolation
from nova_vp.core.types.policy import Mode

Schema = dict[str, Any]


def obj(
    required: Mapping[str, Any],
    optional: Mapping[str, Any] | None = None,
    title: str | None = None,
) -> Schema:
    schema = {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }
    return {"title": title, **schema} if title else schema


def query(**parameters: Schema) -> Schema:
    return obj({}, parameters)


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


NULL: Schema = {"type": "null"}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}


def enum(*values: str) -> Schema:
    return {"enum": list(values)}


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
RATIO: Schema = {"type": "number", "minimum": 0, "maximum": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
COUNTS: Schema = {
    "type": "object",
    "propertyNames": {"maxLength": 64},
    "maxProperties": 16,
    "additionalProperties": COUNT,
}
"""By what is counted."""
YES_NO: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "pattern": r"^\d{4,5}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
MINUTE: Schema = {"type": "string", "pattern": r"^\d{4,5}-\d\d-\d\dT\d\d:\d\d:00Z$"}
"""All that tenants are told of when something was."""
MODE = enum(*(mode.value for mode in Mode))
ISOLATION = enum(*(isolation.value for isolation in Isolation))
KIND = enum(*(kind.value for kind in Kind))
NUMBERS: Schema = {"type": "object", "additionalProperties": NUMBER}

STATE = obj(
    {"number": {"type": "integer", "minimum": 0, "maximum": 8}, "name": TEXT}, title="State"
)
SERVER = obj({"server_id": TEXT, "name": nullable(TEXT)}, title="ServerName")

NOT_STORED = r"\u0000-\u001f\u007f\ud800-\udfff"
"""For a class of characters in a pattern: the databases do not take these. JSON says half a
surrogate, which has no form in UTF-8."""
END = r"$(?!\n)"
"""Of a text in a pattern: Python's `$` alone is also before a last line break."""
NAME: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": f"^[^{NOT_STORED}]+{END}",
}
"""What a client may write as a name."""
PROFILE_ID: Schema = {**NAME, "maxLength": 1412}
"""In base64: the id of an image, and a flavor's name of 255 characters of up to four bytes."""
PATH_ARGUMENTS: Mapping[str, Schema] = {
    **dict.fromkeys(("host", "server_id", "action_id", "escalation_id", "overlay_id"), NAME),
    "profile_id": PROFILE_ID,
}

LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": 1000}
MARKER: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 2000,
    "pattern": f"^[^{NOT_STORED}]+{END}",
}
LINKS = list_of(obj({"rel": TEXT, "href": TEXT}, title="Link"))


def sort(*keys: str) -> Schema:
    """Ascending where no direction is named."""
    return enum(*(f"{key}{way}" for key in keys for way in ("", ":asc", ":desc")))


def pages(**filters: Schema) -> Schema:
    """The query of a list."""
    return query(limit=LIMIT, marker=MARKER, **filters)


def page_of(resource: str, items: Schema, title: str) -> Schema:
    """The answer with a list: without links at 1.0."""
    return obj({resource: list_of(items)}, {"links": LINKS}, title)


ERRORS = obj(
    {
        "errors": list_of(
            obj(
                {
                    "status": {"type": "integer"},
                    "code": TEXT,
                    "title": TEXT,
                    "detail": TEXT,
                    "request_id": nullable(TEXT),
                    "links": LINKS,
                },
                {"min_version": TEXT, "max_version": TEXT},
            )
        )
    },
    title="Errors",
)
