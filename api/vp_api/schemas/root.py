# SPDX-License-Identifier: Apache-2.0
"""Answers of / and /v1, and of the document that describes the rest."""

from vp_api.schemas.base import LINKS, TEXT, list_of, obj

VERSION = obj(
    {
        "id": TEXT,
        "status": TEXT,
        "min_version": TEXT,
        "version": TEXT,
        "links": LINKS,
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
