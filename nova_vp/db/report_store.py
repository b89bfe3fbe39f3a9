# SPDX-License-Identifier: Apache-2.0
"""What vp-schedulers store of reports, and the little that they ask themselves: `ReportStore`.

What people are shown is `read_api.py`'s. No row or session leaves here.

The newest (epoch, sequence) of a host wins while its row is locked, so that any number of
vp-schedulers may store the reports of one host in any order. A report that is no news any more
gives way to any other, since an agent that lost its state folder may begin at a lower epoch.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from oslo_config import cfg
from oslo_db import exception as db_exception
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from nova_vp.action_results import PROPOSED, WITHDRAWN
from nova_vp.db import statements
from nova_vp.db.column_types import aware_utc, naive_utc
from nova_vp.db.dedup_cache import DedupCache
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.heat import heat_text
from nova_vp.db.mapping import ReportRows, Row, history_row, mode_source_of, rows_of
from nova_vp.db.models import ActionServer, History, Host, Profile, Stay, StoredAction, VpRow
from nova_vp.db.purge import Before, Step, purge
from nova_vp.db.records import ClassCount, HostHead, HostRecord
from nova_vp.db.retry import after_conflict
from nova_vp.db.serialization import pack_text, unpack_text
from nova_vp.db.sqlite import write_first
from nova_vp.db.upsert import upsert
from nova_vp.wire import EXPIRE_S, MessageVersion, compact

ERRORS = (db_exception.DBError, SQLAlchemyError)
"""What a database that is away, or lacks our tables, raises: oslo.db does not translate all."""

HOST_COLUMNS = (
    *("epoch", "sequence", "mode", "mode_source", "received_at", "packed", "heat"),
    *("counters", "vps_count", "hurt_count", "vps_mark", "proposals_mark"),
)


VP_COLUMNS = (
    *("project_id", "name", "isolation", "state", "since", "incomplete", "is_hurt"),
    "vp_group",
    "service_class",
    "latency_target_ms",
    "latency_ms",
    *("degradation", "degraded_by", "degraded_since", "response"),
)


ACTION_COLUMNS = ("at", "reason", "result", "detail", "stored_at")


PROFILE_COLUMNS = ("flavor", "image", "vp_class", "project_id", "seen_at")


@dataclass(frozen=True, slots=True)
class NewReport:
    """A valid report on its way into the store."""

    host: str
    version: MessageVersion
    mode: str
    received_at: datetime
    text: str

    def as_row(self, message: Mapping[str, Any], rows: ReportRows) -> Row:
        return {
            "counters": compact(message["counters"]),
            "mode_source": mode_source_of(message),
            "heat": heat_text(message),
            "vps_count": len(rows.vps),
            "hurt_count": sum(vp["is_hurt"] == 1 for vp in rows.vps),
            "vps_mark": rows.vps_mark,
            "proposals_mark": rows.proposals_mark,
            "host": self.host,
            "epoch": self.version.epoch,
            "sequence": self.version.sequence,
            "mode": self.mode,
            "received_at": naive_utc(self.received_at),
            "packed": pack_text(self.text),
        }


class ReportStore:
    """The database named by `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts, *, keeps_history: bool = True) -> None:
        self._facade = open_facade(conf)
        self._keeps_history = keeps_history
        self._known = DedupCache()

    def list_heads(self) -> list[HostHead]:
        columns = (Host.host, Host.epoch, Host.sequence, Host.mode, Host.received_at)
        with self._facade.reader.using(Context()) as session:
            return [
                HostHead(host, MessageVersion(epoch, sequence), mode, aware_utc(received_at))
                for host, epoch, sequence, mode, received_at in session.execute(select(*columns))
            ]

    def get_host(self, name: str) -> HostRecord | None:
        with self._facade.reader.using(Context()) as session:
            row = session.get(Host, name)
            return record_of(row) if row else None

    def save_reports(self, reports: Iterable[NewReport]) -> None:
        """One transaction. A report that is not newer than the stored one changes nothing.

        Not from two threads at once.
        """
        if newest := _newest(reports):
            for host, rows in self._save(newest).items():
                self._known.remember(host, rows.facts)

    # Another vp-scheduler may insert the same host first, or lock the same rows.
    @after_conflict
    def _save(self, newest: Mapping[str, NewReport]) -> Mapping[str, ReportRows]:
        """What was taken."""
        with self._facade.writer.using(Context()) as session:
            orders = _lock(session, newest)
            taken = {name: r for name, r in newest.items() if _is_news(r, orders.get(name))}
            messages = {host: json.loads(report.text) for host, report in taken.items()}
            rows = {h: rows_of(messages[h], r.received_at) for h, r in taken.items()}
            _save_hosts(
                session,
                {h: r.as_row(messages[h], rows[h]) for h, r in taken.items()},
                orders,
            )
            _save_vps(session, rows, orders)
            if self._keeps_history:
                minutes = [history_row(messages[h], r.received_at) for h, r in taken.items()]
                upsert(session, History, minutes, ["packed"])
            self._save_news(session, rows)
            _settle_proposals(session, rows, orders)
            return rows

    def _save_news(self, session: Session, rows: Mapping[str, ReportRows]) -> None:
        def news(name: str) -> Iterator[Row]:
            for host, of_host in rows.items():
                for make in self._known.news(host, getattr(of_host, name)):
                    yield make()

        upsert(session, StoredAction, news("actions"), ACTION_COLUMNS)
        upsert(session, ActionServer, news("action_servers"), ["at", "stored_at"])
        upsert(session, Stay, news("stays"), ["project_id", "last_at"])
        upsert(session, Profile, news("profiles"), PROFILE_COLUMNS)

    def count_classes(self) -> list[ClassCount]:
        """What there is to learn from, of each flavor and image and of each flavor: every running
        VP counts once, and every project votes once."""
        with self._facade.reader.using(Context()) as session:
            of_images = session.execute(statements.CLASSES).all()
            of_flavors = session.execute(statements.CLASSES_OF_FLAVORS).all()
        return [
            *(ClassCount(*row) for row in of_images),
            *(ClassCount(flavor, None, *counted) for flavor, *counted in of_flavors),
        ]

    def purge(self, before: Before, now: datetime) -> Iterator[Step]:
        """Works as it is iterated: each step is a transaction of its own."""
        return purge(self._facade.writer.get_engine(), before, now)

    @after_conflict
    def forget_host(self, name: str) -> bool:
        """Whether it was there. Its history and actions stay until they are too old."""
        with self._facade.writer.using(Context()) as session:
            session.execute(delete(VpRow).where(VpRow.host == name))
            _let_stand(session, name, ())
            return bool(session.execute(delete(Host).where(Host.host == name)).rowcount)


def _newest(reports: Iterable[NewReport]) -> dict[str, NewReport]:
    """One per host, by name: two vp-schedulers then lock rows in the same order."""
    newest: dict[str, NewReport] = {}
    for report in reports:
        seen = newest.get(report.host)
        if report.version.is_newer_than(seen.version if seen else None):
            newest[report.host] = report
    return dict(sorted(newest.items()))


@dataclass(frozen=True, slots=True)
class _Stored:
    version: MessageVersion
    received_at: datetime
    vps_mark: int
    proposals_mark: int


def _lock(session: Session, names: Iterable[str]) -> dict[str, _Stored]:
    """What is stored of these hosts, which nobody else changes until the transaction ends."""
    write_first(session.connection())
    marks = (Host.vps_mark, Host.proposals_mark)
    columns = (Host.host, Host.epoch, Host.sequence, Host.received_at, *marks)
    query = select(*columns).where(Host.host.in_(names)).order_by(Host.host).with_for_update()
    return {
        host: _Stored(MessageVersion(epoch, sequence), received_at, *marked)
        for host, epoch, sequence, received_at, *marked in session.execute(query)
    }


def _is_news(report: NewReport, stored: _Stored | None) -> bool:
    if stored is None or report.version.is_newer_than(stored.version):
        return True
    return stored.received_at < naive_utc(report.received_at - timedelta(seconds=EXPIRE_S))


def _save_hosts(session: Session, taken: Mapping[str, Row], stored: Mapping[str, _Stored]) -> None:
    known = [row for host, row in taken.items() if host in stored]
    upsert(session, Host, known, HOST_COLUMNS)
    # Not an upsert: nobody could lock a row that was not there, so two may come to insert it.
    if new := [row for host, row in taken.items() if host not in stored]:
        session.execute(insert(Host), new)


def _save_vps(
    session: Session, taken: Mapping[str, ReportRows], stored: Mapping[str, _Stored]
) -> None:
    """Of hosts whose VPs are not as they were: what is new goes in, what is gone goes."""
    changed = [
        host
        for host, rows in taken.items()
        if host not in stored or stored[host].vps_mark != rows.vps_mark
    ]
    if not changed:
        return
    table = VpRow.__table__
    found = session.execute(select(table).where(table.c.host.in_(changed))).mappings()
    before = {(row["host"], row["uuid"]): dict(row) for row in found}
    now = {(row["host"], row["uuid"]): row for host in changed for row in taken[host].vps}
    upsert(session, VpRow, (row for at, row in now.items() if before.get(at) != row), VP_COLUMNS)
    for host, uuid in sorted(before.keys() - now.keys()):
        session.execute(delete(VpRow).where(VpRow.host == host, VpRow.uuid == uuid))


def _settle_proposals(
    session: Session, taken: Mapping[str, ReportRows], stored: Mapping[str, _Stored]
) -> None:
    """Of hosts whose proposals are not as they were: the others cannot be accepted any more."""
    for host, rows in taken.items():
        if host not in stored or stored[host].proposals_mark != rows.proposals_mark:
            _let_stand(session, host, rows.proposals)


def _let_stand(session: Session, host: str, proposals: Collection[str]) -> None:
    """These, and no others. One may come back under the id that it had."""
    row = StoredAction
    waiting = select(row.id).where(row.host == host, row.result == PROPOSED)
    withdrawn = select(row.id).where(
        row.host == host, row.result == WITHDRAWN, row.id.in_(proposals)
    )
    ended = set(session.scalars(waiting)) - set(proposals)
    results = {
        **dict.fromkeys(ended, WITHDRAWN),
        **dict.fromkeys(session.scalars(withdrawn), PROPOSED),
    }
    for id in sorted(results):
        changed = update(row).where(row.host == host, row.id == id)
        session.execute(changed.values(result=results[id]))


def record_of(row: Any) -> HostRecord:
    """Of one of `hosts`, or of its columns."""
    return HostRecord(
        host=row.host,
        epoch=row.epoch,
        sequence=row.sequence,
        mode=row.mode,
        received_at=aware_utc(row.received_at),
        report=json.loads(unpack_text(row.packed)),
    )
