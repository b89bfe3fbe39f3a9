# SPDX-License-Identifier: Apache-2.0
"""What a server did over time as coordinates of a drawing. Pure: the template draws it.

A minute without a record is a gap, never a line from its left to its right.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nova_vp import timestamps

Told = Mapping[str, Any]

WIDTH = 760
LEFT, RIGHT = 120, 750
TOP, TRACK_HEIGHT, TRACK_GAP = 20, 60, 26
SPANS = {1: 1, 6: 1, 24: 5, 24 * 7: 60}
"""Hours that a page may show, and how many minutes each of its records then stands for."""


def _metric(name: str) -> Callable[[Told], float | None]:
    return lambda row: row["metrics"][name] if row["metrics"] else None


def _state(row: Told) -> float | None:
    return row["state"]["number"] if row["state"] else None


TRACKS: Mapping[str, Callable[[Told], float | None]] = {
    "State": _state,
    "MPKI": _metric("mpki"),
    "CPI": _metric("cpi"),
    "CPU cores": _metric("cpu_cores"),
}


@dataclass(frozen=True, slots=True)
class Track:
    label: str
    top: int
    bottom: int
    highest: float
    lines: tuple[str, ...]
    """Each the points of a polyline."""


@dataclass(frozen=True, slots=True)
class Band:
    """A time in which it was degraded."""

    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    height: int
    begin: str
    end: str
    tracks: tuple[Track, ...]
    bands: tuple[Band, ...]
    marks: tuple[Mark, ...]


def chart(rows: Sequence[Told], actions: Iterable[tuple[str, str]], every_min: int) -> Chart | None:
    """`rows`: a history, the oldest first. `actions`: when and what. None: nothing is recorded."""
    if not rows:
        return None
    step = timedelta(minutes=every_min)
    axis = _Axis(timestamps.read(rows[0]["at"]), timestamps.read(rows[-1]["at"]) + step)
    tracks = tuple(_track(i, name, rows, axis, step) for i, name in enumerate(TRACKS))
    moments = [(timestamps.read(at), what) for at, what in actions]
    marks = [Mark(axis.x(at), timestamps.write(at), what) for at, what in moments if axis.has(at)]
    return Chart(
        height=tracks[-1].bottom + 30,
        begin=rows[0]["at"],
        end=rows[-1]["at"],
        tracks=tracks,
        bands=tuple(_bands(rows, axis, step)),
        marks=tuple(marks),
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    begin: datetime
    end: datetime

    def has(self, moment: datetime) -> bool:
        return self.begin <= moment <= self.end

    def x(self, moment: datetime) -> float:
        ratio = (moment - self.begin) / (self.end - self.begin)
        return round(LEFT + ratio * (RIGHT - LEFT), 1)


def _track(place: int, name: str, rows: Sequence[Told], axis: _Axis, step: timedelta) -> Track:
    read = TRACKS[name]
    top = TOP + place * (TRACK_HEIGHT + TRACK_GAP)
    highest = max((value for row in rows if (value := read(row)) is not None), default=0.0)
    lines: list[list[str]] = []
    last = None
    for row in rows:
        value, at = read(row), timestamps.read(row["at"])
        if value is not None:
            if last is None or at - last > step:
                lines.append([])
            y = round(top + TRACK_HEIGHT * (1 - value / (highest or 1.0)), 1)
            lines[-1] += [f"{axis.x(at)},{y}", f"{axis.x(at + step)},{y}"]
            last = at
    return Track(name, top, top + TRACK_HEIGHT, highest, tuple(map(" ".join, lines)))


def _bands(rows: Iterable[Told], axis: _Axis, step: timedelta) -> Iterable[Band]:
    for row in rows:
        if row["hurt_by_neighbour"]:
            x = axis.x(timestamps.read(row["at"]))
            yield Band(x, round(axis.x(timestamps.read(row["at"]) + step) - x, 1))
