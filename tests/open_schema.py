# SPDX-License-Identifier: Apache-2.0
"""A schema of ours as a release reads messages of the next one: an object may have more fields, and
some enumerations more values."""

from typing import Any

from nova_vp.wire.validation import COUNTS_AS


def opened(schema: Any) -> Any:
    if isinstance(schema, list):
        return [opened(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if COUNTS_AS in schema:
        return {"type": "string"}
    return {
        name: opened(one)
        for name, one in schema.items()
        if not (name == "additionalProperties" and one is False)
    }
