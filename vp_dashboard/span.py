# SPDX-License-Identifier: Apache-2.0
"""The time that a page shows, as its address says it, and the addresses of other times. Pure."""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from nova_vp import timestamps

SPANS = {1: 1, 6: 1, 24: 5, 24 * 7: 60}
"""Hours that a page may show, and how many minutes each of its records then stands for."""
FIRST_HOURS = 1
ASKED = ("hours", "end", "a", "b", "minutes")
"""Of an address, what `span_of` and `vp_dashboard.comparison` read."""
_SHOWN = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(?: ?UTC)?")
_CLOCK = re.compile(r"\d\d:\d\d(:\d\d)?")


@dataclass(frozen=True, slots=True)
class Span:
    hours: int
    end: str | None
    """As in the address; None: now."""

    @property
    def every_min(self) -> int:
        return SPANS[self.hours]

    @property
    def is_by_minute(self) -> bool:
        return self.every_min == 1

    @property
    def query(self) -> dict[str, str]:
        """The last hour is vp-api's own default: no clock but its own is asked."""
        if self.end is None and self.hours == FIRST_HOURS:
            return {}
        last = timestamps.read(self.end) if self.end else datetime.now(UTC)
        begin = last - timedelta(hours=self.hours)
        return {"begin": timestamps.write(begin), "end": timestamps.write(last)}

    @property
    def later(self) -> str | None:
        """The end of the time after this one; None: this one is the latest."""
        if self.end is None:
            return None
        return timestamps.write(timestamps.read(self.end) + timedelta(hours=self.hours))

    @property
    def closer_hours(self) -> int | None:
        """Of the next closer look; None: there is none."""
        return max((hours for hours in SPANS if hours < self.hours), default=None)


def span_of(asked: Mapping[str, str]) -> Span:
    """What is no time is as if it were absent."""
    text = asked.get("hours", "")
    is_known = text.isdecimal() and int(text) in SPANS
    return Span(int(text) if is_known else FIRST_HOURS, moment_of(asked.get("end", "")))


def earlier_end(
    history: Sequence[Mapping[str, Any]], span: Span, ask: Callable[..., Sequence[Any]]
) -> str | None:
    """The end of the time before the one that is shown; None: nothing is recorded of it. `history`:
    what is shown. `ask`: for a history, by its query."""
    if not history:
        return None
    first: str = history[0]["at"]
    return first if ask(every=str(span.every_min), **Span(span.hours, first).query) else None


def moment_of(text: str) -> str | None:
    """As `2026-01-02T03:04:05Z`, of that or of a time as pages show it: `2026-01-02 03:04 UTC`.
    None: that is no moment of a calendar."""
    if found := _SHOWN.fullmatch(text.strip()):
        text = f"{found[1]}T{found[2]}{found[3] or ':00'}Z"
    with contextlib.suppress(ValueError, OverflowError):
        return timestamps.write(timestamps.read(text))
    return None


def latest_moment(text: str, now: datetime) -> str | None:
    """As `moment_of`; of `14:10` the latest such moment."""
    if not _CLOCK.fullmatch(text.strip()):
        return moment_of(text)
    today = moment_of(f"{now:%Y-%m-%d} {text.strip()}")
    if today is None or timestamps.read(today) <= now:
        return today
    return timestamps.write(timestamps.read(today) - timedelta(days=1))


def around(moment: str, minutes: int) -> dict[str, str]:
    """That many minutes before it, and as many after it."""
    middle, half = timestamps.read(moment), timedelta(minutes=minutes)
    return {"begin": timestamps.write(middle - half), "end": timestamps.write(middle + half)}
