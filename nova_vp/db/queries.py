# SPDX-License-Identifier: Apache-2.0
"""Everything that is asked of the database, in small frozen types: no row or session leaves here.

The newest (epoch, sequence) of a host wins inside the statement itself, so that any number of
vp-schedulers may store the reports of one host in any order. A report that is no news any more
gives way to any other, since an agent that lost its state folder may begin at a lower epoch.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from oslo_config import cfg
from oslo_db import api as db_api
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import enginefacade
from sqlalchemy import bindparam, insert, or_, select, update

from nova_vp.conf import database
from nova_vp.db.models import Host
from nova_vp.wire import EXPIRE_S, Order


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The latest report of one host."""

    host: str
    epoch: int
    sequence: int
    mode: str
    received_at: datetime
    """Aware, by the clock of the vp-scheduler that stored it."""
    report: Mapping[str, Any]
    """Per `wire.REPORT_SCHEMA`."""


@dataclass(frozen=True, slots=True)
class NewReport:
    """A valid report on its way into the store."""

    host: str
    order: Order
    mode: str
    received_at: datetime
    text: str

    def as_row(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "epoch": self.order.epoch,
            "sequence": self.order.sequence,
            "mode": self.mode,
            "received_at": _naive_utc(self.received_at),
            "report": self.text,
        }

    def as_update(self) -> dict[str, Any]:
        void_before = _naive_utc(self.received_at - timedelta(seconds=EXPIRE_S))
        return {**self.as_row(), "the_host": self.host, "void_before": void_before}


def _naive_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


@enginefacade.transaction_context_provider
class _Context:
    """What oslo.db keeps the current transaction on."""


_REPLACE_OLDER = (
    update(Host.__table__)
    .where(
        Host.__table__.c.host == bindparam("the_host"),
        or_(
            Host.__table__.c.epoch < bindparam("epoch"),
            (Host.__table__.c.epoch == bindparam("epoch"))
            & (Host.__table__.c.sequence < bindparam("sequence")),
            Host.__table__.c.received_at < bindparam("void_before"),
        ),
    )
    .values(
        {name: bindparam(name) for name in ("epoch", "sequence", "mode", "received_at", "report")}
    )
)


class Store:
    """The database named by `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        database.register_opts(conf)
        self._facade = enginefacade.transaction_context()
        self._facade.configure(**database.engine_options(conf))

    def list_hosts(self) -> list[HostRecord]:
        with self._facade.reader.using(_Context()) as session:
            return [_record(row) for row in session.scalars(select(Host).order_by(Host.host))]

    def get_host(self, name: str) -> HostRecord | None:
        with self._facade.reader.using(_Context()) as session:
            row = session.get(Host, name)
            return _record(row) if row else None

    def save_reports(self, reports: Iterable[NewReport]) -> None:
        """One transaction. A report that is not newer than the stored one changes nothing."""
        if newest := _newest(reports):
            self._save(newest)

    # Another vp-scheduler may insert the same host first, or lock the same rows: then again.
    @db_api.wrap_db_retry(
        max_retries=5,
        retry_on_deadlock=True,
        exception_checker=lambda exc: isinstance(exc, db_exception.DBDuplicateEntry),
    )
    def _save(self, newest: Mapping[str, NewReport]) -> None:
        with self._facade.writer.using(_Context()) as session:
            # The write comes first: SQLite cannot wait for a lock once it has read.
            session.connection().execute(_REPLACE_OLDER, [r.as_update() for r in newest.values()])
            known = set(session.scalars(select(Host.host).where(Host.host.in_(newest))))
            new = [report.as_row() for host, report in newest.items() if host not in known]
            if new:
                session.execute(insert(Host), new)


def _newest(reports: Iterable[NewReport]) -> dict[str, NewReport]:
    """One per host, by name: two vp-schedulers then lock rows in the same order."""
    newest: dict[str, NewReport] = {}
    for report in reports:
        seen = newest.get(report.host)
        if report.order.is_newer_than(seen.order if seen else None):
            newest[report.host] = report
    return dict(sorted(newest.items()))


def _record(row: Host) -> HostRecord:
    return HostRecord(
        host=row.host,
        epoch=row.epoch,
        sequence=row.sequence,
        mode=row.mode,
        received_at=row.received_at.replace(tzinfo=UTC),
        report=json.loads(row.report),
    )
