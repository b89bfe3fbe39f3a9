# SPDX-License-Identifier: Apache-2.0
"""What happened over time as coordinates of a drawing. Pure: the template draws it.

A minute without a record is a gap, never a line from its left to its right.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nova_vp import timestamps

Told = Mapping[str, Any]

LEFT, RIGHT = 150, 750
TOP, TRACK_HEIGHT, TRACK_GAP = 20, 60, 26
TICKS_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440)
"""Minutes from one time that is written below a drawing to the next."""
MOST_TICKS = 7
DAY_MIN = 1440


@dataclass(frozen=True, slots=True)
class Series:
    """One track of a drawing."""

    label: Any
    """Text, or what is made one where it is shown: in the reader's language."""
    read: Callable[[Told], float | None]
    """Of one record; None: unknown."""
    most: float | None = None
    """At the top of the track; None: the highest value."""


@dataclass(frozen=True, slots=True)
class Track:
    label: Any
    top: int
    bottom: int
    highest: float
    lines: tuple[str, ...]
    """Each the points of a polyline."""


@dataclass(frozen=True, slots=True)
class Band:
    """A time in which somebody was degraded."""

    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A time that is written below a drawing."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Zoom:
    """A part of the drawing that a closer look shows."""

    x: float
    width: float
    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class Chart:
    height: int
    begin: str
    end: str
    tracks: tuple[Track, ...]
    bands: tuple[Band, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    zooms: tuple[Zoom, ...]


def chart(
    rows: Sequence[Told],
    series: Sequence[Series],
    events: Iterable[tuple[str, str]],
    every_min: int,
    now: datetime,
    closer_hours: int | None = None,
) -> Chart | None:
    """`rows`: a history, the oldest first. `events`: when and what. `closer_hours`: what a closer
    look shows; None: there is none. Without curves of which nothing is recorded, and not beyond
    `now`, but for the minute that is recorded last. None: nothing is recorded."""
    if not rows:
        return None
    step = timedelta(minutes=every_min)
    last = timestamps.read(rows[-1]["at"])
    end = min(last + step, max(now, last + timedelta(minutes=1)))
    axis = _Axis(timestamps.read(rows[0]["at"]), end)
    known = [one for one in series if any(one.read(row) is not None for row in rows)]
    tracks = tuple(_track(i, one, rows, axis, step) for i, one in enumerate(known))
    moments = [(timestamps.read(at), what) for at, what in events]
    marks = [Mark(axis.x(at), timestamps.write(at), what) for at, what in moments if axis.has(at)]
    return Chart(
        height=(tracks[-1].bottom if tracks else TOP) + 30,
        begin=rows[0]["at"],
        end=rows[-1]["at"],
        tracks=tracks,
        bands=tuple(_bands(rows, axis, step)),
        marks=tuple(marks),
        ticks=tuple(_ticks(axis)),
        zooms=tuple(_zooms(axis, closer_hours)) if closer_hours else (),
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    begin: datetime
    end: datetime

    def has(self, moment: datetime) -> bool:
        return self.begin <= moment <= self.end

    def x(self, moment: datetime) -> float:
        ratio = (min(moment, self.end) - self.begin) / (self.end - self.begin)
        return round(LEFT + ratio * (RIGHT - LEFT), 1)


def _track(place: int, one: Series, rows: Sequence[Told], axis: _Axis, step: timedelta) -> Track:
    top = TOP + place * (TRACK_HEIGHT + TRACK_GAP)
    values = (value for row in rows if (value := one.read(row)) is not None)
    highest = max(values, default=0.0) if one.most is None else one.most
    lines: list[list[str]] = []
    last = None
    for row in rows:
        value, at = one.read(row), timestamps.read(row["at"])
        if value is not None:
            if last is None or at - last > step:
                lines.append([])
            y = round(top + TRACK_HEIGHT * (1 - value / (highest or 1.0)), 1)
            lines[-1] += [f"{axis.x(at)},{y}", f"{axis.x(at + step)},{y}"]
            last = at
    return Track(one.label, top, top + TRACK_HEIGHT, highest, tuple(map(" ".join, lines)))


def _bands(rows: Iterable[Told], axis: _Axis, step: timedelta) -> Iterable[Band]:
    for row in rows:
        if row.get("hurt_by_neighbour") or row.get("hurt_count"):
            x = axis.x(timestamps.read(row["at"]))
            yield Band(x, round(axis.x(timestamps.read(row["at"]) + step) - x, 1))


def _ticks(axis: _Axis) -> Iterable[Tick]:
    """At full minutes, hours or days."""
    minutes = (axis.end - axis.begin) / timedelta(minutes=1)
    every = next((one for one in TICKS_MIN if minutes / one <= MOST_TICKS), DAY_MIN)
    day = axis.begin.replace(hour=0, minute=0, second=0, microsecond=0)
    number = -(-(axis.begin - day) // timedelta(minutes=every))
    while axis.has(at := day + number * timedelta(minutes=every)):
        yield Tick(axis.x(at), f"{at:%m-%d}" if every == DAY_MIN else f"{at:%H:%M}")
        number += 1


def _zooms(axis: _Axis, hours: int) -> Iterable[Zoom]:
    """The latest first: each as long as a closer look, but for the first of the drawing."""
    end = axis.end
    while end > axis.begin:
        begin = max(end - timedelta(hours=hours), axis.begin)
        x = axis.x(begin)
        width = round(axis.x(end) - x, 1)
        yield Zoom(x, width, timestamps.write(begin), timestamps.write(end))
        end = begin
