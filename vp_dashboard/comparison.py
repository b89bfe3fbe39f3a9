# SPDX-License-Identifier: Apache-2.0
"""What a server did in two times, side by side: before and after an action, or any two. Pure.

Means of the minutes that were recorded. Operators are told exact shares, tenants coarse ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
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
PERCENT = 100


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
    return lambda row: row["metrics"][name] if row["metrics"] else None


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
    return [
        Line(key, label, mean(map(read, before)), mean(map(read, after)))
        for key, (label, read) in FIGURES.items()
    ]


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
    return bool(action["at"]) and action["result"] not in (*NEVER_DONE, Result.FAILED.value)


def effect(rows: Iterable[Told], action: Told, every_min: int) -> Effect | None:
    """By a history of around then. None: it was not done, or nothing is known of the time before,
    as of a server that has just arrived."""
    if not was_done(action):
        return None
    moment = timestamps.read(action["at"])
    window = timedelta(minutes=max(MINUTES[0], 2 * every_min))
    lost = [(timestamps.read(row["at"]), lost_percent(row)) for row in rows]
    begun = moment.replace(second=0, microsecond=0)
    before = mean(share for when, share in lost if begun - window <= when < begun)
    after = mean(share for when, share in lost if begun + SETTLES <= when <= begun + window)
    return None if before is None else Effect(before, after)


def around(at: str) -> Times:
    """The times before and after an action."""
    begun = timestamps.read(at).replace(second=0, microsecond=0)
    before = begun - timedelta(minutes=MINUTES[0])
    return Times(timestamps.write(before), timestamps.write(begun + SETTLES), MINUTES[0])
