# SPDX-License-Identifier: Apache-2.0
"""A dashboard against Grafana's own schema, as grafana-foundation-sdk has it."""

import enum
import json
import typing
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

OF_PROMETHEUS = {"step", "titleFormat", "textFormat", "tagKeys"}
"""Of an annotation: its data source defines them, and the schema is open there."""


def faults(dashboard: dict[str, Any]) -> list[str]:
    """Fields that Grafana does not have there, and words that it does not know."""
    register_default_plugins()
    taken = Dashboard.from_json(dashboard)
    again = json.loads(json.dumps(taken, cls=JSONEncoder))
    return [*_unknown_fields(dashboard, again, ""), *_unknown_words(taken, "")]


def _unknown_fields(given: Any, taken: Any, where: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(taken, dict):
        for key, value in given.items():
            if key in taken:
                yield from _unknown_fields(value, taken[key], f"{where}.{key}")
            elif not (where.startswith(".annotations") and key in OF_PROMETHEUS):
                yield f"{where}.{key}"
    elif isinstance(given, list) and isinstance(taken, list) and len(given) == len(taken):
        for number, (one, other) in enumerate(zip(given, taken, strict=True)):
            yield from _unknown_fields(one, other, f"{where}[{number}]")
    elif given != taken:
        yield f"{where}: {given!r}"


def _unknown_words(taken: Any, where: str) -> Iterator[str]:
    if isinstance(taken, list):
        for number, one in enumerate(taken):
            yield from _unknown_words(one, f"{where}[{number}]")
    elif isinstance(taken, dict):
        for key, value in taken.items():
            yield from _unknown_words(value, f"{where}.{key}")
    elif hasattr(taken, "to_json"):
        for name, hint in typing.get_type_hints(type(taken)).items():
            value = getattr(taken, name)
            words = {one.value for kind in _enums(hint) for one in kind}
            if words and value is not None and value not in words:
                yield f"{where}.{name}: {value!r}"
            yield from _unknown_words(value, f"{where}.{name}")


def _enums(hint: Any) -> Iterator[type[enum.Enum]]:
    for kind in (hint, *typing.get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            yield kind
