# SPDX-License-Identifier: Apache-2.0
"""What servers are billed for, and on which hosts Nova said that they are.

Agents say amounts that only grow. The largest of each record stands, so that any number of
vp-schedulers may store any message any number of times, in any order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from oslo_config import cfg
from sqlalchemy import and_, bindparam, func, select

from nova_vp.core.types.usage import AMOUNTS, Usage, total
from nova_vp.db.column_types import aware_utc, naive_utc, storable
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.filters import UsageFilter, given
from nova_vp.db.models import ServerSighting, UsageRow
from nova_vp.db.paging import Listed, Page, Pages, bound
from nova_vp.db.retry import after_conflict
from nova_vp.db.upsert import upsert
from nova_vp.service.outage import Outage

_record = UsageRow.__table__.c
_FILTERS = {
    "project_id": _record.project_id == bindparam("project_id"),
    "uuid": _record.uuid == bindparam("uuid"),
    "begin": _record.hour >= bindparam("begin"),
    "end": _record.hour < bindparam("end"),
}
_SERVERS = Pages(
    select(_record.uuid, _record.project_id).group_by(_record.uuid, _record.project_id),
    filters=_FILTERS,
    sorts={
        "server_id": (_record.uuid, _record.project_id),
        "project_id": (_record.project_id, _record.uuid),
    },
    id=_record.uuid,
)
_SUMS = [func.sum(_record[name]).label(name) for name in AMOUNTS]


class Sighting(NamedTuple):
    """Nova said that this server of this project is on that host."""

    uuid: str
    project_id: str
    seen_at: datetime


class UsageRecord(NamedTuple):
    """All that one host has counted of one server in one hour with one attribution."""

    meter: int
    uuid: str
    project_id: str
    hour: datetime
    used: Usage


class ServerUsage(NamedTuple):
    """Of one server within a span of time."""

    uuid: str
    project_id: str
    hosts: tuple[str, ...]
    total: Usage
    pollution: Mapping[str, float]
    """LLC misses that it was charged, by how they were attributed."""


class UsageStore:
    """The tables of usage in `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts, outage: Outage | None = None) -> None:
        self._facade = open_facade(conf, outage)

    def sightings(self, host: str, uuids: Iterable[str]) -> dict[str, Sighting]:
        """By server, in lower case: the latest on that host."""
        asked = sorted({uuid.lower() for uuid in uuids})
        row = ServerSighting
        found = select(row).where(row.host == host, row.uuid.in_(asked))
        with self._facade.reader.using(Context()) as session:
            return {
                one.uuid: Sighting(one.uuid, one.project_id, aware_utc(one.seen_at))
                for one in session.scalars(found)
            }

    @after_conflict
    def note_sightings(self, host: str, sightings: Iterable[Sighting]) -> None:
        rows = (
            {
                "uuid": one.uuid.lower(),
                "host": host,
                "project_id": storable(one.project_id),
                "seen_at": naive_utc(one.seen_at),
            }
            for one in sightings
        )
        with self._facade.writer.using(Context()) as session:
            upsert(session, ServerSighting, rows, ("project_id", "seen_at"))

    @after_conflict
    def add(self, host: str, records: Iterable[UsageRecord]) -> None:
        """Returns once it is committed."""
        rows = (
            {
                "uuid": one.uuid.lower(),
                "hour": naive_utc(one.hour),
                "host": host,
                "meter": one.meter,
                "project_id": storable(one.project_id),
                **one.used._asdict(),
            }
            for one in records
        )
        with self._facade.writer.using(Context()) as session:
            upsert(session, UsageRow, rows, ("project_id",), largest=AMOUNTS)

    def list_usage(self, wanted: UsageFilter, page: Page) -> Listed[ServerUsage]:
        """Raises BadMarker."""
        # The span is told by its ends.
        values = {**given(wanted), **given(wanted.span), "span": None}
        with self._facade.reader.connection.using(Context()) as connection:

            def run(question: Any, values: Mapping[str, Any]) -> Sequence[Any]:
                rows: Sequence[Any] = connection.execute(question, values).all()
                return rows

            found = _SERVERS.read(run, values, page)
            details = run(*_details([row.uuid for row in found.items], values))
        told = _by_server(details)
        return Listed([_server_usage(row, told) for row in found.items], found.marker)


def _details(uuids: list[str], wanted: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """The question for all that was counted of these servers, and its values."""
    values = bound(wanted)
    key = (_record.uuid, _record.project_id, _record.host, _record.attribution)
    conditions = [_FILTERS[name] for name in sorted(values)]
    asked = and_(_record.uuid.in_(uuids), *conditions)
    return select(*key, *_SUMS).where(asked).group_by(*key), values


def _by_server(rows: Iterable[Any]) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in rows:
        found[row.uuid, row.project_id].append(row)
    return found


def _server_usage(row: Any, told: Mapping[tuple[str, str], list[Any]]) -> ServerUsage:
    parts = told.get((row.uuid, row.project_id), [])
    used, pollution = Usage(""), dict[str, float]()
    for one in _usages(parts):
        used = total(used, one)
        before = pollution.get(one.attribution, 0.0)
        pollution[one.attribution] = before + one.pollution_misses
    hosts = tuple(sorted({part.host for part in parts}))
    return ServerUsage(row.uuid, row.project_id, hosts, used, pollution)


def _usages(rows: Iterable[Any]) -> Iterator[Usage]:
    for row in rows:
        yield Usage(row.attribution, *(float(getattr(row, name)) for name in AMOUNTS))


def hour_of(epoch_s: int) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
