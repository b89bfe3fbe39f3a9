# SPDX-License-Identifier: Apache-2.0
"""A report as the rows that it leaves beside the host's own; pure.

Each row stands under a *fact*: what has to change for the row to be worth writing again. Most facts
of a report are known, so a row is made only when it is asked for.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import blake2b
from typing import Any
from zlib import crc32

from nova_vp.cloud_modes import source_text
from nova_vp.core.model.predict import newcomer_class
from nova_vp.core.types.sample import State
from nova_vp.db.column_types import minute_of, naive_utc, storable
from nova_vp.db.records import NAMES, concerned
from nova_vp.db.serialization import pack
from nova_vp.degradation import DIGITS, Degradation, degradation_of
from nova_vp.interference import is_degraded
from nova_vp.service_levels import service_of
from nova_vp.wire import compact

HOUR_S = 3600

DAY_S = 24 * HOUR_S

MOST_SOURCE = 255

UNKNOWN = -1
"""A state, a moment or a harm that nobody knows, in a column that lists are searched by."""


Row = Mapping[str, Any]


Facts = Mapping[Hashable, Callable[[], Row]]


@dataclass(frozen=True, slots=True)
class ReportRows:
    actions: Facts
    action_servers: Facts
    stays: Facts
    profiles: Facts
    vps: tuple[Row, ...]
    """All of the host's, news or not: `vps_mark` says whether any is."""
    vps_mark: int
    proposals: frozenset[str]
    """Ids of all that the host makes; `proposals_mark` as above, 0 if it makes none."""
    proposals_mark: int

    @property
    def facts(self) -> Facts:
        return {**self.actions, **self.action_servers, **self.stays, **self.profiles}


def history_row(report: Mapping[str, Any], received_at: datetime) -> Row:
    at = naive_utc(received_at)
    return {
        "day": at.date(),
        "host": report["host"],
        "minute": minute_of(at),
        "packed": pack(report),
    }


def rows_of(report: Mapping[str, Any], received_at: datetime) -> ReportRows:
    """Of a valid `wire.REPORT_TOPIC` message."""
    at = naive_utc(received_at)
    vps = tuple(_vp_row(report, vp) for vp in report["vps"])
    proposals = frozenset(storable(action["id"]) for action in report["proposals"])
    return ReportRows(
        actions=dict(_actions(report, at)),
        action_servers=dict(_action_servers(report, at)),
        stays=dict(_stays(report, at, _round(report["host"], received_at, DAY_S))),
        profiles=dict(_profiles(report, at, _round(report["host"], received_at, HOUR_S))),
        vps=vps,
        vps_mark=_mark([tuple(row.values()) for row in vps]),
        proposals=proposals,
        proposals_mark=_mark(sorted(proposals)) if proposals else 0,
    )


def _vp_row(report: Mapping[str, Any], vp: Mapping[str, Any]) -> Row:
    found, since = vp["interference"], vp["since"]
    hurt = is_degraded(vp["state"], found and found["kind"])
    return {
        "uuid": vp["uuid"].lower(),
        "host": report["host"],
        "project_id": storable(vp["project_id"]),
        "name": storable(vp["name"]),
        "isolation": vp["isolation"],
        "state": UNKNOWN if vp["state"] is None else vp["state"],
        "since": UNKNOWN if since is None else int(since),
        "incomplete": storable(vp["incomplete"] or ""),
        "is_hurt": UNKNOWN if hurt is None else int(hurt),
        "vp_group": vp.get("group", ""),
        **service_of(report, vp)._asdict(),
        **_degradation_row(degradation_of(report, vp)),
    }


def _degradation_row(found: Degradation | None) -> Row:
    if found is None:
        found = Degradation(ratio=None)
    return {
        "degradation": UNKNOWN if found.ratio is None else round(10**DIGITS * found.ratio),
        "degraded_by": found.kind or "",
        "degraded_since": UNKNOWN if found.since is None else found.since,
        "response": found.response or "",
    }


def mode_source_of(report: Mapping[str, Any]) -> str | None:
    """As `hosts` has it: an aggregate's name may be as long as the column."""
    source = source_text(report)
    return source and storable(source)[:MOST_SOURCE]


def _mark(values: list[Any]) -> int:
    told = repr(values).encode("utf-8", "replace")
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "big", signed=True)


def _round(host: str, at: datetime, every_s: int) -> int:
    """Which repetition it is; hosts take turns, so that they do not all repeat at once."""
    return int(at.timestamp() + crc32(host.encode()) % every_s) // every_s


Told = Iterator[tuple[Hashable, Callable[[], Row]]]


def _told(report: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every action of the report, those that wait for an operator too; some of them twice."""
    for vp in report["vps"]:
        yield from vp["actions"]
    yield from report["proposals"]


def _actions(report: Mapping[str, Any], at: datetime) -> Told:
    for action in _told(report):
        yield (action["id"], action["result"]), partial(_action_row, report, action, at)


def _action_row(report: Mapping[str, Any], action: Mapping[str, Any], at: datetime) -> Row:
    uuid = action["uuid"].lower()
    return {
        "host": report["host"],
        "id": storable(action["id"]),
        "uuid": uuid,
        "project_id": _project(report, uuid),
        "at": _moment(action["at"], at),
        "controller": storable(action["controller"]),
        "reason": storable(action["reason"]),
        "result": storable(action["result"]),
        "detail": compact({**action, NAMES: _names(report, concerned(action))}),
        "stored_at": at,
    }


def _action_servers(report: Mapping[str, Any], at: datetime) -> Told:
    for action in _told(report):
        for uuid in concerned(action):
            made = partial(_action_server_row, report, action, uuid, at)
            yield (action["id"], action["result"], uuid), made


def _action_server_row(
    report: Mapping[str, Any], action: Mapping[str, Any], uuid: str, at: datetime
) -> Row:
    return {
        "uuid": uuid,
        "at": _moment(action["at"], at),
        "host": report["host"],
        "id": storable(action["id"]),
        "project_id": _project(report, uuid),
        "stored_at": at,
    }


def _names(report: Mapping[str, Any], uuids: frozenset[str]) -> dict[str, str]:
    """Of those that are still there; later nobody knows what they were called."""
    named = ((vp["uuid"].lower(), storable(vp["name"])) for vp in report["vps"])
    return {uuid: name for uuid, name in named if uuid in uuids}


def _project(report: Mapping[str, Any], uuid: str) -> str:
    """Empty: the server is not on this host any more."""
    projects = (vp["project_id"] for vp in report["vps"] if vp["uuid"].lower() == uuid)
    return storable(next(projects, ""))


def _stays(report: Mapping[str, Any], at: datetime, day: int) -> Told:
    for vp in report["vps"]:
        uuid = vp["uuid"].lower()
        project_id = storable(vp["project_id"])
        row = {"uuid": uuid, "host": report["host"], "first_at": at, "last_at": at}
        yield (uuid, project_id, day), partial(dict, row, project_id=project_id)


def _profiles(report: Mapping[str, Any], at: datetime, hour: int) -> Told:
    """Of those that were measured while nobody disturbed them: the others tell of neighbours."""
    for vp in report["vps"]:
        if vp["state"] is None or vp["incomplete"] is not None or vp["interference"] is not None:
            continue
        uuid, flavor, image = vp["uuid"].lower(), vp["flavor"], vp.get("image", "").lower()
        vp_class = _class(vp["state"], "cache" in vp["sensitivity"])
        project_id = vp["project_id"]
        row = {"uuid": uuid, "image": image, "vp_class": vp_class, "seen_at": at}
        texts = {"flavor": flavor, "project_id": project_id}
        fact = (uuid, flavor, image, vp_class, project_id, hour)
        yield fact, partial(_profile_row, row, texts)


def _profile_row(row: Row, texts: Mapping[str, str]) -> Row:
    return {**row, **{name: storable(text) for name, text in texts.items()}}


@cache
def _class(state: int, is_cache_sensitive: bool) -> int:
    return newcomer_class(State.from_number(state), is_cache_sensitive)


def _moment(epoch_s: float, otherwise: datetime) -> datetime:
    try:
        return naive_utc(datetime.fromtimestamp(epoch_s, UTC))
    except (OverflowError, OSError, ValueError):
        return otherwise  # the host's clock is beyond the calendar
