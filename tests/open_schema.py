# SPDX-License-Identifier: Apache-2.0
"""A schema of ours as a release reads messages of the next one: an object may have more fields."""

from typing import Any


def opened(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: opened(one)
            for name, one in schema.items()
            if not (name == "additionalProperties" and one is False)
        }
    return [opened(one) for one in schema] if isinstance(schema, list) else schema
