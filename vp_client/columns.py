# SPDX-License-Identifier: Apache-2.0
"""Cells that are a value to machines and words to people."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cliff.columns import FormattableColumn

from vp_client import words

Field = tuple[str, Callable[[Any], str]]


class Cell(FormattableColumn):
    """`value` for -f json, yaml, csv and value; `text` in a table."""

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(value)
        self._text = text

    def human_readable(self) -> str:
        return self._text


def narrow(text: str, width: int) -> Cell:
    """Wrapped, so that one long name does not push a table over the edge."""
    return Cell(text, words.wrap(text, width))


def state(told: Mapping[str, Any] | None, is_stale: bool = False) -> Cell:
    """To machines the number."""
    text = "unknown (stale)" if is_stale else words.state(told)
    return Cell(None if told is None else told["number"], text)


def show(
    answer: Mapping[str, Any], fields: Iterable[Field]
) -> tuple[tuple[str, ...], tuple[Cell, ...]]:
    """The fields that this answer has: the API decides what the caller may see."""
    present = [(key, told) for key, told in fields if key in answer]
    return (
        tuple(key for key, _ in present),
        tuple(_cell(answer, key, told) for key, told in present),
    )


NEVER_UNKNOWN = ("unmanaged",)


def _cell(answer: Mapping[str, Any], key: str, told: Callable[[Any], str]) -> Cell:
    value = answer[key]
    if value is None and answer["is_stale"] and key not in NEVER_UNKNOWN:
        return Cell(None, words.UNKNOWN)
    return state(value) if key == "state" else Cell(value, told(value))
