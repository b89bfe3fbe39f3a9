# SPDX-License-Identifier: Apache-2.0
"""Pages, sorting and ranges of time as queries say them, and the answer with the next page's link.

One way for all lists: a handler says how it is sorted unless asked otherwise, and gets a page to
read; what it answers with is made here. At 1.0 lists are whole, and have no links.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from nova_vp import timestamps
from nova_vp.db.filters import Span
from nova_vp.db.paging import BadMarker, Page
from vp_api.errors import ApiError, Code
from vp_api.operation import Answer, Call
from vp_api.versions import V1_1

DEFAULT_LIMIT = 100
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
MAX_SPAN = timedelta(days=31)
DEFAULT_SPAN = timedelta(hours=1)


def page_of(call: Call, default: str) -> Page:
    """`default`: `key:asc` or `key:desc`."""
    key, _, way = call.query.get("sort", default).partition(":")
    limit = call.query.get("limit", DEFAULT_LIMIT) if call.version >= V1_1 else None
    return Page(key, way == "desc", limit, call.query.get("marker"))


def answer(call: Call, resource: str, items: list[Any], marker: str | None) -> Answer:
    if call.version < V1_1:
        return {resource: items}
    links = [] if marker is None else [{"rel": "next", "href": _next(call, marker)}]
    return {resource: items, "links": links}


def span_of(call: Call) -> Span:
    """Raises ApiError: a moment that no calendar has."""
    begin, end = (moment_of(call, name) for name in ("begin", "end"))
    return Span(begin, end)


def moment_of(call: Call, name: str) -> datetime | None:
    if name not in call.query:
        return None
    return parse_moment(call.query[name], name)


def parse_moment(text: str, name: str) -> datetime:
    try:
        moment = timestamps.read(text)
    except ValueError:
        moment = None
    if moment is None or not EARLIEST < moment < LATEST:
        raise ApiError(
            Code.BAD_REQUEST,
            f"Correct the query: {name}: give a moment of UTC such as 2026-01-02T03:04:05Z.",
        )
    return moment


class Minutes:
    """The part of a history that one page tells: as many minutes of time as `limit` says, whether
    anything was recorded in them or not."""

    def __init__(self, call: Call) -> None:
        end = moment_of(call, "end") or _full_minute(call.services.clock()) + MINUTE
        begin = moment_of(call, "begin") or end - DEFAULT_SPAN
        if not begin <= end <= begin + MAX_SPAN:
            raise ApiError(
                Code.BAD_REQUEST,
                f"Let `end` be after `begin`, by {MAX_SPAN.days} days at most.",
            )
        if "marker" in call.query:
            marker = parse_moment(call.query["marker"], "marker")
            begin = min(max(begin, marker), end)  # Beyond the end nothing is left to tell.
        self.every = int(call.query.get("every", "1"))
        limit = call.query.get("limit", DEFAULT_LIMIT)
        self.begin = begin
        self.end = min(end, _full_minute(begin) + limit * self.every * MINUTE)
        self.marker = timestamps.write(self.end) if self.end < end else None
        self.whole = Span(begin, end)


def _full_minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


class Skipping:
    """Pages of what several rows of one moment may be told of, with a marker that names none:
    the moment, and how many of it were told. A moment is as long as the caller is told apart, since
    otherwise who asks often enough would find out the second."""

    _MARKER = re.compile(r"([^~]+)~(\d{1,6})", re.ASCII)

    def __init__(self, call: Call, length: timedelta) -> None:
        """`length`: SECOND or MINUTE."""
        self._length = length
        asked = span_of(call)
        begin, end = (moment and self._begin(moment) for moment in (asked.begin, asked.end))
        self.span = Span(begin, end)
        self.limit = call.query.get("limit", DEFAULT_LIMIT)
        self.offset = 0
        self._last: datetime | None = None
        if "marker" in call.query:
            found = self._MARKER.fullmatch(call.query["marker"])
            if found is None:
                raise BadMarker(call.query["marker"])
            self._last = self._begin(parse_moment(found[1], "marker"))
            self.offset = int(found[2])
            end = min(self._last, LATEST) + length
            self.span = Span(self.span.begin, min(self.span.end or end, end))

    def marker(self, told: list[datetime], is_more: bool) -> str | None:
        """`told`: when each item of this page was, as it was sorted."""
        if not is_more:
            return None
        last = self._begin(told[-1])
        count = sum(self._begin(moment) == last for moment in told)
        if last == self._last:
            count += self.offset
        return f"{timestamps.write(last)}~{count}"

    def _begin(self, moment: datetime) -> datetime:
        return _full_minute(moment) if self._length == MINUTE else moment.replace(microsecond=0)


def _next(call: Call, marker: str) -> str:
    query = {**dict(call.request.GET), "marker": marker}
    return f"{call.request.path_url}?{urlencode(query)}"
