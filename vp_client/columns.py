# SPDX-License-Identifier: Apache-2.0
"""Cells that are a value to machines and words to people."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cliff.columns import FormattableColumn

from vp_client import formatters

Field = tuple[str, Callable[[Any], str]]
Table = tuple[tuple[str, ...], list[tuple[Any, ...]]]
WIDTH = 100
BORDERS = 3
"""What each column of a table takes on top; the table itself one more."""
NARROWEST = 6


class Cell(FormattableColumn[Any]):
    """`value` for -f json, yaml, csv and value; `text` in a table."""

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(value)
        self._text = text

    def human_readable(self) -> str:
        return self._text


class Flexible(Cell):
    """Wrapped to what its table has room for, so that a long name does not push it over the edge
    and a shorter one stays whole."""

    def __init__(
        self, value: Any, text: str, wrap: Callable[[str, int], str] = formatters.wrap
    ) -> None:
        super().__init__(value, text)
        self._wrap = wrap

    def wrapped(self, width: int) -> Cell:
        return Cell(self._value, self._wrap(self._text, width))


def flexible(text: str) -> Flexible:
    return Flexible(text, text)


def code(text: str) -> Flexible:
    """Words with hyphens between them."""
    return Flexible(text, text, formatters.wrap_code)


def server(told: Mapping[str, Any]) -> Flexible:
    """To machines the id."""
    return Flexible(told["server_id"], formatters.short_name(told))


def heading(parsed_args: argparse.Namespace, shown: str, key: str) -> str:
    """`shown` in a table; `key` for -f json, yaml, csv and value, whose names must not change."""
    return shown if parsed_args.formatter == "table" else key


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Within WIDTH: the flexible columns share what the others leave; none gets less than its
    header takes, and the narrow ones of them get all they need."""
    listed = [tuple(row) for row in rows]
    needs, least, rigid = {}, {}, 0
    for place, cells in enumerate(zip(*listed, strict=True)):
        need = max(map(_width, (headers[place], *cells)))
        if isinstance(cells[0], Flexible):
            needs[place], least[place] = need, len(headers[place])
        else:
            rigid += need
    widths = _shared(WIDTH - BORDERS * len(headers) - 1 - rigid, needs, least)
    return tuple(headers), [
        tuple(
            cell.wrapped(widths[place]) if isinstance(cell, Flexible) else cell
            for place, cell in enumerate(row)
        )
        for row in listed
    ]


def _width(cell: Any) -> int:
    text = cell.human_readable() if isinstance(cell, Cell) else str(cell)
    return max(map(len, text.split("\n")))


def _shared(room: int, needs: Mapping[int, int], least: Mapping[int, int]) -> dict[int, int]:
    """By place: what each gets. Where shares are narrower than a header, the others have less."""
    widths = _shared_evenly(room, needs)
    headers = {place: least[place] for place in needs if widths[place] < least[place]}
    if not headers:
        return widths
    others = {place: need for place, need in needs.items() if place not in headers}
    return headers | _shared(room - sum(headers.values()), others, least)


def _shared_evenly(room: int, needs: Mapping[int, int]) -> dict[int, int]:
    widths: dict[int, int] = {}
    for place, need in sorted(needs.items(), key=lambda item: item[1]):
        share = room // (len(needs) - len(widths))
        widths[place] = min(need, max(share, NARROWEST))
        room -= widths[place]
    return widths


def state(told: Mapping[str, Any] | None, is_stale: bool = False, is_short: bool = False) -> Cell:
    """To machines the number."""
    known = formatters.short_state(told) if is_short else formatters.state(told)
    text = "unknown (stale)" if is_stale else known
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


NEVER_UNKNOWN = ("unmanaged", "cap_floor_ratio")


def _cell(answer: Mapping[str, Any], key: str, told: Callable[[Any], str]) -> Cell:
    value = answer[key]
    if value is None and answer.get("is_stale") and key not in NEVER_UNKNOWN:
        return Cell(None, formatters.UNKNOWN)
    return state(value) if key == "state" else Cell(value, formatters.fitted(told(value)))
