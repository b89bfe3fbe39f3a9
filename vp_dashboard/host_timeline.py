# SPDX-License-Identifier: Apache-2.0
"""What a host and its servers did over time, as rows and events for a drawing. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from vp_client import degradation_formatters, formatters
from vp_dashboard import comparison

Told = Mapping[str, Any]
Names = Mapping[str, str]


def worst_performance(row: Told) -> float | None:
    return min(_known(row, comparison.performance_percent), default=None)


def worst_waiting(row: Told) -> float | None:
    return max(_known(row, comparison.waiting_percent), default=None)


def misses_per_s(row: Told) -> float | None:
    found = _known(row, comparison.metric("misses_per_s"))
    return sum(found) if found else None


def degraded(row: Told) -> float | None:
    """None: none of its servers was measured."""
    is_measured = any(vp["hurt_by_neighbour"] is not None for vp in row["vps"])
    return float(row["hurt_count"]) if is_measured or not row["vps"] else None


def _known(row: Told, read: Callable[[Told], float | None]) -> list[float]:
    return [value for vp in row["vps"] if (value := read(vp)) is not None]


def names_of(host: Told, actions: Iterable[Told]) -> Names:
    """Of servers, by id: as the host says now, else as actions do."""
    told = [server for one in actions for server in (one["server"], one["victim"]) if server]
    return {one["server_id"]: one["name"] for one in (*told, *host["vps"]) if one["name"]}


def minutes(history: Iterable[Told], names: Names) -> list[dict[str, Any]]:
    """Each with its worst server, for a table."""
    return [{**row, "worst": _worst(row, names)} for row in history]


def _worst(row: Told, names: Names) -> dict[str, Any] | None:
    known = [vp for vp in row["vps"] if comparison.lost_percent(vp)]
    if not known:
        return None
    worst = max(known, key=lambda vp: comparison.lost_percent(vp) or 0.0)
    text = degradation_formatters.recorded_text(worst)
    return {"server_id": worst["server_id"], "name": _name(worst["server_id"], names), "text": text}


class Move(NamedTuple):
    """A server that came or went between two records: by a migration, a boot or a deletion."""

    at: str
    server: str
    """Its name, or the beginning of its id."""
    has_come: bool


def moves(history: Iterable[Told], names: Names) -> Iterator[Move]:
    for before, now in pairwise(history):
        was, is_now = ({vp["server_id"] for vp in row["vps"]} for row in (before, now))
        for server_id in sorted(is_now ^ was):
            yield Move(now["at"], _name(server_id, names), server_id in is_now)


def done(
    actions: Iterable[Told], minutes: Sequence[Told] | None, now: datetime
) -> list[dict[str, Any]]:
    """Each with what the server lost before and after that it was for. `minutes`: the history;
    None: it is not by minute."""
    actions = list(actions)
    return [_done(action, actions, minutes, now) for action in actions]


def _done(
    action: Told, actions: Sequence[Told], minutes: Sequence[Told] | None, now: datetime
) -> dict[str, Any]:
    helped = comparison.helped(action)
    own = None if minutes is None else _rows_of(minutes, helped["server_id"])
    others = comparison.concerning(actions, helped["server_id"])
    measured = comparison.measured(own, action, now, others)
    return {**action, "text": formatters.deed(action), "measured": measured, "helped": helped}


def _rows_of(minutes: Iterable[Told], server_id: str) -> list[Told]:
    return [
        {**vp, "at": row["at"]}
        for row in minutes
        for vp in row["vps"]
        if vp["server_id"].lower() == server_id.lower()
    ]


def _name(server_id: str, names: Names) -> str:
    return formatters.short_name({"name": names.get(server_id), "server_id": server_id})
