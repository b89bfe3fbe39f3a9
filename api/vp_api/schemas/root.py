# SPDX-License-Identifier: Apache-2.0
"""Answers of / and /v1, and of the document that describes the rest."""

from vp_api.schemas.base import TEXT, list_of, obj

VERSION = obj(
    {
        "id": TEXT,
        "status": TEXT,
        "min_version": TEXT,
        "version": TEXT,
        "links": list_of(obj({"rel": TEXT, "href": TEXT})),
    },
    title="Version",
)
LIST_ANSWER = obj({"versions": list_of(VERSION)}, title="Versions")
SHOW_ANSWER = obj({"version": VERSION}, title="VersionAnswer")
OPENAPI = {
    "type": "object",
    "properties": {"openapi": {"type": "string", "pattern": r"^3\.1\."}},
    "required": ["openapi", "info", "paths", "components"],
}
