# SPDX-License-Identifier: Apache-2.0
"""The ledger of escalations: what was asked of the cluster, who is at it, what Nova was told.

Any number of vp-schedulers write here and none leads. Every write names the version of the row that
it was decided from, and changes nothing where another was faster; budgets are checked behind one
row that whoever begins an attempt writes first. No row or session leaves here.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from oslo_config import cfg
from oslo_db import exception as db_exception
from sqlalchemy import ColumnElement, CursorResult, func, insert, or_, select, update
from sqlalchemy.orm import Session

from nova_vp.db.column_types import aware_utc, naive_utc, storable
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.models import EscalationGate, EscalationRow, MigrationRow
from nova_vp.db.records import Attempt, Escalation
from nova_vp.db.retry import after_deadlock
from nova_vp.escalation_status import RUNNING, Status, follows
from nova_vp.service.outage import Outage

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


LISTED = 500
"""Rows that one look for work takes."""
MOST_DELAY = timedelta(minutes=15)
"""A row that asks for more was written by a clock that was ahead: nothing ever waits as long."""
PROPOSED_FOR = timedelta(days=7)
"""An older proposal says nothing of its host as it is now."""

_RUNNING = [status.value for status in RUNNING]


class Waiting(NamedTuple):
    """What a worker must know of a row to see whether it may take it."""

    id: str
    owner: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Budgets:
    running: int
    running_per_host: int
    per_host_hour: int
    per_vp_day: int
    per_victim_day: int
    """Of whichever servers, for one victim's sake."""
    per_project_day: int
    """The same, for all victims of one project."""
    hold: timedelta


class LostClaim(Exception):
    """Another worker has written the row since it was read. Leave it alone."""


class NotProposed(Exception):
    """It does not wait for an operator. The text says what it does."""


class Ledger:
    """The tables of escalations in `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts, outage: Outage | None = None) -> None:
        self._facade = open_facade(conf, outage)

    @after_deadlock
    def add(self, id: str, host: str, message: str, now: datetime) -> bool:
        """False: it was there already. Returns once it is committed."""
        row = {
            "id": id,
            "host": host,
            "status": Status.RECEIVED.value,
            "reason": "",
            "message": message,
            **_victim(message),
            "received_at": naive_utc(now),
            "changed_at": naive_utc(now),
            "version": 1,
        }
        try:
            with self._facade.writer.using(Context()) as session:
                session.execute(insert(EscalationRow), row)
        except db_exception.DBDuplicateEntry:
            return False
        return True

    def list_waiting(self, now: datetime) -> list[Waiting]:
        """What is due: hosts take turns, the oldest of each first. So neither those that wait for
        later nor the many of one host keep others from being listed. A proposal is due when it has
        waited too long for an operator."""
        row, now = EscalationRow, naive_utc(now)
        turn = func.row_number().over(partition_by=row.host, order_by=(row.received_at, row.id))
        due = (
            select(row.id, row.owner, row.version, row.received_at, turn.label("turn"))
            .where(
                row.settled_at.is_(None),
                or_(
                    row.status != Status.PROPOSED.value,
                    row.changed_at <= now - PROPOSED_FOR,
                ),
                or_(
                    row.not_before.is_(None),
                    row.not_before <= now,
                    row.not_before > now + MOST_DELAY,
                ),
            )
            .subquery()
        )
        found = (
            select(due.c.id, due.c.owner, due.c.version)
            .order_by(due.c.turn, due.c.received_at, due.c.id)
            .limit(LISTED)
        )
        with self._facade.reader.using(Context()) as session:
            return [Waiting(*one) for one in session.execute(found)]

    @after_deadlock
    def claim(self, waiting: Waiting, owner: str) -> Escalation | None:
        """None: another was faster."""
        with self._facade.writer.using(Context()) as session:
            if not _swap(session, waiting.id, waiting.version, {"owner": owner}):
                return None
            return _get(session, waiting.id)

    @after_deadlock
    def postpone(self, id: str, owner: str, until: datetime) -> None:
        """Gives the claim back, whatever is in the row; another worker's is left alone."""
        row = EscalationRow
        with self._facade.writer.using(Context()) as session:
            session.execute(
                update(row)
                .where(row.id == id, or_(row.owner.is_(None), row.owner == owner))
                .values(owner=None, not_before=naive_utc(until), version=row.version + 1)
            )

    @after_deadlock
    def save(
        self,
        escalation: Escalation,
        changes: Mapping[str, Any],
        attempt: Mapping[str, Any] | None = None,
        number: int | None = None,
    ) -> Escalation:
        """One transaction. `attempt`: what changes of the latest one, or of that `number`.

        Raises LostClaim, and ValueError for a state that cannot follow.
        """
        _check(escalation.status, changes.get("status", escalation.status))
        with self._facade.writer.using(Context()) as session:
            if not _swap(session, escalation.id, escalation.version, changes):
                raise LostClaim(escalation.id)
            if attempt:
                number = escalation.latest.attempt if number is None else number
                _change_attempt(session, escalation.id, number, attempt)
            return _require(session, escalation.id)

    @after_deadlock
    def begin(
        self,
        escalation: Escalation,
        attempt: Attempt,
        changes: Mapping[str, Any],
        budgets: Budgets,
    ) -> Escalation | str:
        """The escalation with one attempt more, or why the budgets do not allow it now.

        Raises LostClaim.
        """
        changes = {**changes, "status": Status.PREPARING}
        _check(escalation.status, Status.PREPARING)
        with self._facade.writer.using(Context()) as session:
            session.execute(
                update(EscalationGate)
                .where(EscalationGate.id == 1)
                .values(begun=EscalationGate.begun + 1)
            )
            if refusal := _over_budget(session, escalation, attempt, budgets):
                session.rollback()
                return refusal
            if not _swap(session, escalation.id, escalation.version, changes):
                raise LostClaim(escalation.id)
            row = {**_as_row(attempt), "escalation_id": escalation.id}
            session.execute(insert(MigrationRow), row)
            return _require(session, escalation.id)

    def moved_since(self, servers: Iterable[str], since: datetime) -> dict[str, Attempt]:
        """The latest attempt on each of these that Nova was asked for since then, or that runs."""
        row = MigrationRow
        found = (
            select(row)
            .where(
                row.server.in_(list(servers)),
                or_(
                    row.requested_at >= naive_utc(since),
                    row.status.in_(_RUNNING),
                ),
            )
            .order_by(row.started_at)
        )
        with self._facade.reader.using(Context()) as session:
            return {one.server: _attempt(one) for one in session.scalars(found)}

    @after_deadlock
    def accept(self, id: str, *, by: str, now: datetime) -> None:
        """An operator's yes to a proposal. Raises KeyError: no such; NotProposed."""
        with self._facade.writer.using(Context()) as session:
            accepted = session.execute(
                update(EscalationRow)
                .where(EscalationRow.id == id, EscalationRow.status == Status.PROPOSED.value)
                .values(
                    status=Status.RECEIVED.value,
                    accepted_at=naive_utc(now),
                    accepted_by=storable(by),
                    changed_at=naive_utc(now),
                    not_before=None,
                    owner=None,
                    version=EscalationRow.version + 1,
                )
            )
            if accepted.rowcount == 1:
                return
            row = session.get(EscalationRow, id)
            if row is None:
                raise KeyError(id)
            raise NotProposed(f"{id} is {row.status}; only proposed escalations can be accepted")

    def get(self, id: str) -> Escalation | None:
        with self._facade.reader.using(Context()) as session:
            return _get(session, id)


def _victim(message: str) -> dict[str, str]:
    """Who it is, and whose: columns by which it is found."""
    told = json.loads(message)
    victim = str(told.get("victim", "")).lower()
    candidates = told.get("candidates", ())
    projects = (c["project_id"] for c in candidates if c["uuid"].lower() == victim)
    return {"victim": victim, "project_id": storable(next(projects, ""))}


def _check(before: Status, after: Status) -> None:
    if not follows(before, after):
        raise ValueError(f"an escalation that is {before.value} cannot become {after.value}")


def _over_budget(
    session: Session, escalation: Escalation, attempt: Attempt, budgets: Budgets
) -> str:
    """Empty: it may begin."""
    row = MigrationRow
    begun_at = attempt.started_at
    here = or_(row.source_host == attempt.source_host, row.dest_host == attempt.source_host)
    same = row.server == attempt.server
    runs = row.status.in_(_RUNNING)

    def count(*where: Any) -> int:
        return int(session.scalar(select(func.count()).select_from(row).where(*where)) or 0)

    def asked_within(span: timedelta) -> Any:
        return row.requested_at >= naive_utc(begun_at - span)

    if count(same, runs):
        return "this server is being migrated for another escalation"
    if count(same, asked_within(budgets.hold)):
        return "this server was migrated too recently"
    if count(same, asked_within(DAY)) >= budgets.per_vp_day:
        return f"this server has had its {budgets.per_vp_day} migrations per day"
    if count(runs) >= budgets.running:
        return f"{budgets.running} migrations run in the cloud already"
    if count(here, runs) >= budgets.running_per_host:
        return f"{budgets.running_per_host} migrations run on this host already"
    left = row.source_host == attempt.source_host
    if count(left, asked_within(HOUR)) >= budgets.per_host_hour:
        return f"this host has had its {budgets.per_host_hour} migrations of an hour"
    return _over_budget_of_victim(session, escalation.id, begun_at, budgets)


def _over_budget_of_victim(session: Session, id: str, begun_at: datetime, budgets: Budgets) -> str:
    """A guest can act degraded: for its sake, and its project's, so many are moved in a day."""
    asked_for = session.get_one(EscalationRow, id)
    row, since = MigrationRow, naive_utc(begun_at - DAY)

    def count(whose: ColumnElement[bool]) -> int:
        found = (
            select(func.count())
            .select_from(row)
            .join(EscalationRow, EscalationRow.id == row.escalation_id)
            .where(whose, or_(row.requested_at >= since, row.status.in_(_RUNNING)))
        )
        return int(session.scalar(found) or 0)

    if count(EscalationRow.victim == asked_for.victim) >= budgets.per_victim_day:
        return f"its victim has had its {budgets.per_victim_day} migrations per day"
    if count(EscalationRow.project_id == asked_for.project_id) >= budgets.per_project_day:
        return f"the project of its victim has had its {budgets.per_project_day} migrations per day"
    return ""


def _swap(session: Session, id: str, version: int, changes: Mapping[str, Any]) -> bool:
    # It comes first in its transaction: SQLite cannot wait for a lock once it has read.
    written = session.execute(
        update(EscalationRow)
        .where(EscalationRow.id == id, EscalationRow.version == version)
        .values(version=version + 1, **_plain(changes))
    )
    return cast("CursorResult[Any]", written).rowcount == 1


def _change_attempt(session: Session, id: str, number: int, changes: Mapping[str, Any]) -> None:
    session.execute(
        update(MigrationRow)
        .where(MigrationRow.escalation_id == id, MigrationRow.attempt == number)
        .values(**_plain(changes))
    )


def _get(session: Session, id: str) -> Escalation | None:
    session.expire_all()
    row = session.get(EscalationRow, id)
    return escalation_of(row, _attempts_of(session, id)) if row else None


def _require(session: Session, id: str) -> Escalation:
    found = _get(session, id)
    if found is None:
        raise LostClaim(id)
    return found


def _attempts_of(session: Session, id: str) -> tuple[Attempt, ...]:
    rows = select(MigrationRow).where(MigrationRow.escalation_id == id)
    return tuple(map(_attempt, session.scalars(rows.order_by(MigrationRow.attempt))))


def escalation_of(row: EscalationRow, attempts: tuple[Attempt, ...] = ()) -> Escalation:
    fields = {name: _read(getattr(row, name)) for name in Escalation.__slots__ if name in _NAMES}
    return Escalation(**{**fields, "status": Status(row.status), "attempts": attempts})


def _attempt(row: MigrationRow) -> Attempt:
    fields = {name: _read(getattr(row, name)) for name in Attempt.__slots__}
    return Attempt(**{**fields, "status": Status(row.status)})


_NAMES = frozenset(EscalationRow.__table__.columns.keys())


def _as_row(attempt: Attempt) -> dict[str, Any]:
    return _plain({name: getattr(attempt, name) for name in Attempt.__slots__})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _written(value) for name, value in values.items()}


def _written(value: Any) -> Any:
    if isinstance(value, Status):
        return value.value
    if isinstance(value, str):
        return storable(value)
    return naive_utc(value) if isinstance(value, datetime) else value


def _read(value: Any) -> Any:
    return aware_utc(value) if isinstance(value, datetime) else value
