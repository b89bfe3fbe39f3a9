# SPDX-License-Identifier: Apache-2.0
"""What a server did in two times, side by side: before and after an action, or any two. Pure.

Means of the minutes that were recorded. Operators are told exact shares, tenants coarse ones.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from nova_vp import timestamps
from nova_vp.action_results import NEVER_DONE
from nova_vp.core.types.action import Result
from vp_client import degradation_formatters, formatters
from vp_dashboard.span import moment_of

Told = Mapping[str, Any]

MINUTES = (10, 30, 60)
"""That each of two times may be long."""
SETTLES = timedelta(minutes=1)
"""After an action: its minute is neither before nor after."""
RECORD = timedelta(minutes=1)
"""That one record of a history by minute is of."""
PERCENT = 100
UNCOUNTED = ("cpu_cores",)
"""Metrics that need no counter of the CPU."""
NOT_DONE = (*NEVER_DONE, Result.FAILED.value)
"""Results of actions that changed nothing."""


def lost_percent(row: Told) -> float | None:
    """Of its performance, in a minute."""
    lost = degradation_formatters.recorded(row)
    return None if lost is None else PERCENT * lost


def performance_percent(row: Told) -> float | None:
    """Against undisturbed."""
    lost = lost_percent(row)
    return None if lost is None else PERCENT - lost


def waiting_percent(row: Told) -> float | None:
    waited = row.get("waiting_ratio")
    return None if waited is None else PERCENT * float(waited)


def metric(name: str) -> Callable[[Told], float | None]:
    """None: it was not measured. Where no cycle was counted, nothing that is counted was."""
    is_counted = name not in UNCOUNTED

    def read(row: Told) -> float | None:
        found = row["metrics"]
        is_missing = not found or (is_counted and found.get("cpi") == 0)
        return None if is_missing else found[name]

    return read


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of both times; None: it was not recorded."""

    key: str
    label: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Times:
    """Two times that are to be compared."""

    a: str
    b: str
    minutes: int

    def query(self, begin: str) -> dict[str, str]:
        end = timestamps.read(begin) + timedelta(minutes=self.minutes)
        return {"begin": begin, "end": timestamps.write(end), "every": "1"}


RECORDED = "recorded_minutes"
FIGURES: Mapping[str, tuple[str, Callable[[Told], float | None]]] = {
    "performance_percent": ("Performance in % of undisturbed", performance_percent),
    "waiting_percent": ("Waiting for CPU in %", waiting_percent),
    "mpki": ("MPKI", metric("mpki")),
    "cpi": ("CPI", metric("cpi")),
    "cpu_cores": ("CPU cores", metric("cpu_cores")),
}


def times_of(asked: Mapping[str, str]) -> Times | None:
    """None: no two times are asked for."""
    a, b = (moment_of(asked.get(name, "")) for name in ("a", "b"))
    if a is None or b is None:
        return None
    minutes = asked.get("minutes", "")
    is_known = minutes.isdecimal() and int(minutes) in MINUTES
    return Times(a, b, int(minutes) if is_known else MINUTES[0])


def compare(before: Sequence[Told], after: Sequence[Told]) -> list[Line]:
    """Histories of both times."""
    recorded = Line(RECORDED, "Minutes recorded", len(before), len(after))
    return [
        recorded,
        *(
            Line(key, label, mean(map(read, before)), mean(map(read, after)))
            for key, (label, read) in FIGURES.items()
        ),
    ]


def younger_since(times: Times, before: Sequence[Told], history: Sequence[Told]) -> str | None:
    """When the first record of the server is, where the first of the times is before it.
    `history`: all that is recorded of it; empty: that is not known."""
    if before or not history or times.a >= history[0]["at"]:
        return None
    return str(history[0]["at"])


def mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a server lost before and after an action, in percent; None: not recorded yet."""

    before: float
    after: float | None

    def __str__(self) -> str:
        return f"{_percent(self.before)} → {_percent(self.after)}"


def _percent(value: float | None) -> str:
    return formatters.UNKNOWN if value is None else f"{value:.3g}%"


def was_done(action: Told) -> bool:
    """What was only proposed, or failed, changed nothing."""
    return bool(action["at"]) and action["result"] not in NOT_DONE


def effect(rows: Iterable[Told], action: Told, others: Iterable[str] = ()) -> Effect | None:
    """By a history by minute of around then. `others`: when actions changed something for the
    server.

    Neither time reaches beyond one of them. Of the time before count the last minutes in which the
    server was degraded, or those in which it was not. None: it was not done, or nothing is known of
    the time before, as of a server that has just arrived."""
    if not was_done(action):
        return None
    begun = _minute_of(action["at"])
    window = timedelta(minutes=MINUTES[0])
    minutes = [_minute_of(at) for at in others]
    begin = max([begun - window, *(at + SETTLES for at in minutes if at < begun)])
    end = min([begun + SETTLES + window, *(at for at in minutes if at > begun)])
    lost = [(timestamps.read(row["at"]), lost_percent(row)) for row in rows]
    before = mean(_latest_run([share for when, share in lost if begin <= when < begun]))
    after = mean(share for when, share in lost if begun + SETTLES <= when < end)
    return None if before is None else Effect(before, after)


def _minute_of(at: str) -> datetime:
    return timestamps.read(at).replace(second=0, microsecond=0)


def _latest_run(shares: Sequence[float | None]) -> list[float]:
    """In which the server lost something all the time, or nothing."""
    known = [share for share in shares if share is not None]
    return list(takewhile(lambda share: bool(share) == bool(known[-1]), reversed(known)))


class Measurement(enum.Enum):
    """Whether what a server lost before and after an action is known."""

    KNOWN = "known"
    WAITING = "waiting"
    """For the first record after it."""
    NOT_BEFORE = "not-before"
    """Nothing is recorded of the time before."""
    NOT_AFTER = "not-after"
    TOO_CLOSE = "too-close"
    """Only of times in which another action changed something for the server, too."""
    UNDONE = "undone"
    """What was recorded after it is of the action and of the time without it."""
    NOT_DONE = "not-done"


@dataclass(frozen=True, slots=True)
class Measured:
    kind: Measurement
    effect: Effect | None = None
    known_at: str | None = None
    """Where it waits."""

    @property
    def code(self) -> str:
        """For a template."""
        return self.kind.value

    @property
    def before(self) -> str:
        return _percent(self.effect.before if self.effect else None)

    @property
    def after(self) -> str:
        return _percent(self.effect.after if self.effect else None)


def measured(
    rows: Iterable[Told] | None, action: Told, now: datetime, others: Iterable[str] = ()
) -> Measured | None:
    """As `effect`, with the reason where it is not known. None: no history by minute is at hand,
    which might tell."""
    if action["result"] in NOT_DONE:
        return Measured(Measurement.NOT_DONE)
    if action["result"] == Result.UNDONE.value:
        return Measured(Measurement.UNDONE)
    if rows is None:
        return None
    rows = list(rows)
    found = effect(rows, action, others)
    if found and found.after is not None:
        return Measured(Measurement.KNOWN, found)
    without_others = effect(rows, action)
    if without_others and without_others.after is not None:
        return Measured(Measurement.TOO_CLOSE)
    if found is None:
        return Measured(Measurement.NOT_BEFORE)
    known_at = _minute_of(action["at"]) + SETTLES + RECORD
    if now < known_at:
        return Measured(Measurement.WAITING, found, timestamps.write(known_at))
    return Measured(Measurement.NOT_AFTER, found)


def is_measurable(action: Told) -> bool:
    """What was recorded around it tells whether it helped."""
    return was_done(action) and action["result"] != Result.UNDONE.value


def helped(action: Told) -> Told:
    """The server that it was for."""
    found: Told = action["victim"] or action["server"]
    return found


def concerning(actions: Iterable[Told], server_id: str) -> list[str]:
    """When those were done that changed this server, or another one for it."""
    return [
        one["at"]
        for one in actions
        if was_done(one)
        and server_id.lower()
        in [one[role]["server_id"].lower() for role in ("server", "victim") if one.get(role)]
    ]


def around(at: str) -> Times:
    """The times before and after an action."""
    begun = _minute_of(at)
    before = begun - timedelta(minutes=MINUTES[0])
    return Times(timestamps.write(before), timestamps.write(begun + SETTLES), MINUTES[0])


def query_around(first: str, last: str) -> dict[str, str]:
    """Of all that `effect` looks at, of actions between these times."""
    times = around(last)
    return {"begin": around(first).a, "end": times.query(times.b)["end"]}
