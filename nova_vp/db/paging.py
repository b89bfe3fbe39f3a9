# SPDX-License-Identifier: Apache-2.0
"""One way to read a long list in pages: each begins after the last row of the one before.

A marker is that row's values of the columns that the list is sorted by. The last of them is unique,
so that no row is missed or told twice, and each page is a range of an index, however far in it is.
The id of that row is a marker too, as clients of other APIs make them, while the list has the row.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Integer, and_, bindparam, or_

from nova_vp.db.column_types import naive_utc

Item = TypeVar("Item")
MAX_INTEGER = 2**62


class BadMarker(ValueError):
    """It was not made by this list with this sorting, and is the id of no row of it."""


class Listed(NamedTuple, Generic[Item]):
    items: list[Item]
    marker: str | None
    """Where the next page begins; None: this was the last one."""


@dataclass(frozen=True, slots=True)
class Page:
    key: str
    """Which sorting; each list says which ones it has."""
    is_descending: bool = False
    limit: int | None = None
    """None: all."""
    marker: str | None = None


Run = Callable[[Any, Mapping[str, Any]], Sequence[Any]]
"""A question with its values to the rows that answer it; these have the columns' names."""


class _Way(NamedTuple):
    """All that a question is made of besides values."""

    given: frozenset[str]
    key: str
    is_descending: bool
    is_after: bool
    is_limited: bool


def has_values(marker: str) -> bool:
    """Of a row, rather than its id."""
    return marker.startswith("[")


class Pages:
    """A list, what it may be filtered by, and how it may be sorted.

    `filters` hold a parameter of their own name. `id`: the column by whose values clients know
    rows; None: by none. Each way to ask is put together once: that takes longer than answering it.
    """

    def __init__(
        self,
        query: Any,
        filters: Mapping[str, Any],
        sorts: Mapping[str, Sequence[Any]],
        id: Any = None,
    ) -> None:
        self._query = query
        self._id = id
        self._filters = filters
        self.sorts = sorts
        self._put_together: dict[_Way, Any] = {}

    def read(self, run: Run, wanted: Mapping[str, Any], page: Page) -> Listed[Any]:
        """`wanted`: the values of filters; None: of no matter. Raises BadMarker."""
        columns = self.sorts[page.key]
        values = bound(wanted)
        is_after, is_limited = page.marker is not None, page.limit is not None
        way = _Way(frozenset(values), page.key, page.is_descending, is_after, is_limited)
        if page.marker is not None:
            after = self._after(run, page.marker, columns, values)
            values |= zip(map(_after_name, columns), after, strict=True)
        if page.limit is None:
            return Listed(list(run(self._question(way), values)), None)
        rows = list(run(self._question(way), {**values, "limit": page.limit + 1}))
        if len(rows) <= page.limit:
            return Listed(rows, None)
        rows = rows[: page.limit]
        return Listed(rows, _encoded([getattr(rows[-1], column.key) for column in columns]))

    def _after(
        self, run: Run, marker: str, columns: Sequence[Any], values: Mapping[str, Any]
    ) -> Sequence[Any]:
        if has_values(marker):
            return _decoded(marker, columns)
        if self._id is None or not _is_text(marker):
            raise BadMarker(marker)
        # With the filters: whether a row is there that the caller may not see is nobody's business.
        question = self._query.where(*self.conditions(values), self._id == bindparam("row_id"))
        rows = run(question, {**values, "row_id": marker})
        if len(rows) != 1:
            raise BadMarker(marker)
        return [getattr(rows[0], column.key) for column in columns]

    def conditions(self, given: Iterable[str]) -> list[Any]:
        return [self._filters[name] for name in sorted(given)]

    def _question(self, way: _Way) -> Any:
        # Two threads may put the same one together: either will do.
        if (question := self._put_together.get(way)) is None:
            question = self._put_together[way] = self._ask(way)
        return question

    def _ask(self, way: _Way) -> Any:
        columns = self.sorts[way.key]
        query = self._query.where(*self.conditions(way.given))
        if way.is_after:
            query = query.where(_after(columns, way.is_descending))
        query = query.order_by(*(c.desc() if way.is_descending else c for c in columns))
        return query.limit(bindparam("limit", type_=Integer)) if way.is_limited else query


def _after(columns: Sequence[Any], is_descending: bool) -> Any:
    """Written so that a database sees ranges of one index: beyond the value of a column, with the
    values of those before it."""
    values = [bindparam(_after_name(column), type_=column.type) for column in columns]
    ranges = []
    for number, (column, value) in enumerate(zip(columns, values, strict=True)):
        same = [columns[before] == values[before] for before in range(number)]
        beyond = column < value if is_descending else column > value
        ranges.append(and_(*same, beyond))
    return or_(*ranges)


def _after_name(column: Any) -> str:
    return f"after_{column.key}"


def bound(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are given, as columns have them."""
    return {name: _as_column(value) for name, value in wanted.items() if value is not None}


def _as_column(value: Any) -> Any:
    if isinstance(value, datetime):
        return naive_utc(value)
    return int(value) if isinstance(value, bool) else value


def _encoded(values: Sequence[Any]) -> str:
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


def _decoded(marker: str, columns: Sequence[Any]) -> list[Any]:
    try:
        values = json.loads(marker)
    except (ValueError, RecursionError) as exc:
        raise BadMarker(marker) from exc
    if not isinstance(values, list) or len(values) != len(columns):
        raise BadMarker(marker)
    wanted = [column.type.python_type for column in columns]
    if not all(map(_is_of, values, wanted)):
        raise BadMarker(marker)
    return [
        datetime.fromisoformat(value) if type_ is datetime else value
        for value, type_ in zip(values, wanted, strict=True)
    ]


def _is_of(value: Any, wanted: type) -> bool:
    if wanted is int:
        return type(value) is int and abs(value) < MAX_INTEGER
    return isinstance(value, str) and (_is_moment(value) if wanted is datetime else _is_text(value))


def _is_text(value: str) -> bool:
    """One that a database takes."""
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_moment(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is None
    except ValueError:
        return False
