# SPDX-License-Identifier: Apache-2.0
"""Queries of /v1/vps."""

LIST_QUERY = {
    "type": "object",
    "properties": {"host": {"type": "string", "minLength": 1, "maxLength": 255}},
    "additionalProperties": False,
}
