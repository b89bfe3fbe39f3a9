# SPDX-License-Identifier: Apache-2.0
"""A payload made smaller, part by part, as long as the same is wrong with it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

MOST_TRIES = 200


def smaller(payload: Any, is_found: Callable[[Any], bool]) -> Any:
    tries = 0
    is_shrinking = True
    while is_shrinking:
        is_shrinking = False
        for candidate in _candidates(payload):
            tries += 1
            if tries > MOST_TRIES:
                return payload
            if is_found(candidate):
                payload, is_shrinking = candidate, True
                break
    return payload


def _candidates(value: Any) -> Iterator[Any]:
    """Those with much taken away first."""
    if isinstance(value, dict):
        for key in value:
            yield {name: part for name, part in value.items() if name != key}
        for key, part in value.items():
            yield from ({**value, key: less} for less in _candidates(part))
    elif isinstance(value, list):
        yield from (value[: len(value) // 2], value[len(value) // 2 :]) if len(value) > 3 else ()
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
        for at, part in enumerate(value):
            yield from (value[:at] + [less] + value[at + 1 :] for less in _candidates(part))
    elif isinstance(value, str) and value[:1] in ("{", "["):
        yield from _of_json(value)
    elif isinstance(value, str | bytes) and len(value) > 1:
        half = len(value) // 2
        yield from (value[:half], value[half:])


def _of_json(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
        yield from (json.dumps(less, separators=(",", ":")) for less in _candidates(value))
    except (ValueError, RecursionError):
        half = len(text) // 2
        yield from (text[:half], text[half:])
