# SPDX-License-Identifier: Apache-2.0
"""Deleting what is too old, in steps small enough that nobody waits for one of them.

Each step is a transaction of its own that looks anew for what is there, so that it may be stopped
at any moment, run again, and run by several processes at once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, and_, delete, or_, select, true

from nova_vp.db.column_types import naive_utc
from nova_vp.db.models import (
    ActionServer,
    EscalationRow,
    History,
    Host,
    MigrationRow,
    OverlayRow,
    Profile,
    ServerOverrideRow,
    ServerSighting,
    Stay,
    StoredAction,
    UsageRow,
    VpRow,
)
from nova_vp.db.overrides import nothing_overridden
from nova_vp.db.retry import after_deadlock
from nova_vp.db.sqlite import write_first

STEP_ROWS = 2000
BUDGETED = timedelta(days=2)
"""Escalations younger than this are counted by budgets and hold times, whatever is asked."""


@dataclass(frozen=True, slots=True)
class Before:
    """What is older goes."""

    history: datetime
    ledger: datetime
    """Actions, escalations, profiles, overrides that were taken back, overlays that were deleted,
    and hosts and VPs that were not heard since."""
    usage: datetime
    """What servers are billed for."""

    @classmethod
    def days_ago(
        cls, now: datetime, history_days: int, ledger_days: int, usage_days: int
    ) -> "Before":
        history, ledger, usage = map(timedelta, (history_days, ledger_days, usage_days))
        return cls(now - history, now - ledger, now - usage)


class Step(NamedTuple):
    table: str
    rows: int


def purge(
    engine: Engine, before: Before, now: datetime, step_rows: int = STEP_ROWS
) -> Iterator[Step]:
    """Works as it is iterated; yields what each step has deleted."""
    ledger, usage = naive_utc(before.ledger), naive_utc(before.usage)
    settled = min(ledger, naive_utc(now - BUDGETED))
    tasks: list[tuple[str, Callable[[Connection], int | None]]] = [
        ("history", lambda c: _history(c, naive_utc(before.history).date(), step_rows)),
        ("actions", lambda c: _aged(c, StoredAction.stored_at, ledger, step_rows)),
        ("action_servers", lambda c: _aged(c, ActionServer.stored_at, ledger, step_rows)),
        ("escalations", lambda c: _escalations(c, settled, step_rows)),
        ("profiles", lambda c: _aged(c, Profile.seen_at, ledger, step_rows)),
        ("stays", lambda c: _aged(c, Stay.last_at, ledger, step_rows)),
        ("hosts", lambda c: _hosts(c, ledger, step_rows)),
        ("usage_records", lambda c: _aged(c, UsageRow.hour, usage, step_rows)),
        ("server_sightings", lambda c: _aged(c, ServerSighting.seen_at, usage, step_rows)),
        ("vp_overrides", lambda c: _taken_back(c, ledger, step_rows)),
        ("overlays", lambda c: _deleted_overlays(c, ledger, step_rows)),
    ]
    for table, task in tasks:
        while (rows := _step(engine, task)) is not None:
            yield Step(table, rows)


@after_deadlock
def _step(engine: Engine, task: Callable[[Connection], int | None]) -> int | None:
    with engine.begin() as connection:
        write_first(connection)
        return task(connection)


def _history(connection: Connection, first: date, rows: int) -> int | None:
    """In the order of its key: by day, host, minute. None: nothing is left."""
    key = (History.day, History.host, History.minute)
    query = select(*key).where(History.day < first).order_by(*key)
    if (oldest := connection.execute(query.limit(1)).first()) is None:
        return None
    of_day = query.where(History.day == oldest.day)
    last = connection.execute(of_day.offset(rows - 1).limit(1)).first()
    wanted = [History.day == oldest.day]
    if last is not None:
        up_to = and_(History.host == last.host, History.minute <= last.minute)
        wanted.append(or_(History.host < last.host, up_to))
    return connection.execute(delete(History).where(*wanted)).rowcount


def _aged(connection: Connection, column: Any, before: datetime, rows: int) -> int | None:
    """By the index on the moment, and all of one moment together."""
    query = select(column).where(column < before).order_by(column)
    if connection.execute(query.limit(1)).first() is None:
        return None
    last = connection.scalar(query.offset(rows - 1).limit(1))
    wanted = column < before if last is None else column <= last
    return connection.execute(delete(column.class_).where(wanted)).rowcount


def _escalations(connection: Connection, before: datetime, rows: int) -> int | None:
    """With their attempts; what is not settled stays."""
    query = select(EscalationRow.id).where(EscalationRow.settled_at < before).limit(rows)
    if not (ids := connection.scalars(query).all()):
        return None
    connection.execute(delete(MigrationRow).where(MigrationRow.escalation_id.in_(ids)))
    return connection.execute(delete(EscalationRow).where(EscalationRow.id.in_(ids))).rowcount


def _hosts(connection: Connection, before: datetime, rows: int) -> int | None:
    query = select(Host.host).where(Host.received_at < before).limit(rows)
    if not (names := connection.scalars(query).all()):
        return None
    # One may have spoken in between.
    still = and_(Host.host.in_(names), Host.received_at < before)
    old = select(Host.host).where(still)
    connection.execute(delete(VpRow).where(VpRow.host.in_(old)))
    return connection.execute(delete(Host).where(still)).rowcount


def _taken_back(connection: Connection, before: datetime, rows: int) -> int | None:
    """What stands stays: a server may come back after years. Of deleted ones vp-scheduler takes it
    back."""
    row = ServerOverrideRow
    old = and_(row.at < before, nothing_overridden())
    if not (uuids := connection.scalars(select(row.uuid).where(old).limit(rows)).all()):
        return None
    # Somebody may have set one anew in between.
    return connection.execute(delete(row).where(row.uuid.in_(uuids), old)).rowcount


def _deleted_overlays(connection: Connection, before: datetime, rows: int) -> int | None:
    """Whoever has read them has had time to read that they are deleted."""
    row = OverlayRow
    old = and_(row.is_deleted == true(), row.at < before)
    if not (ids := connection.scalars(select(row.id).where(old).limit(rows)).all()):
        return None
    return connection.execute(delete(row).where(row.id.in_(ids))).rowcount
