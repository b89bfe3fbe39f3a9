# SPDX-License-Identifier: Apache-2.0
"""What people have overridden of single servers, and who and when; no row or session leaves here.

Every write takes a number: see `gate.py`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from oslo_config import cfg
from sqlalchemy import ColumnElement, and_, delete, exists, false, select
from sqlalchemy.orm import Session

from nova_vp.core.types.policy import Mode, known_mode
from nova_vp.db import gate
from nova_vp.db.column_types import aware_utc, naive_utc
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.gate import NEVER_WRITTEN
from nova_vp.db.models import OverrideChange, ServerOverrideRow, VpRow
from nova_vp.db.records import StoredOverride
from nova_vp.db.retry import after_conflict
from nova_vp.db.upsert import upsert
from nova_vp.server_override import NO_OVERRIDE, ServerOverride, overrides_text
from nova_vp.service.outage import Outage
from nova_vp.wire.schema_types import LEVELS

IN_A_QUERY = 500
HOUR = timedelta(hours=1)

_COLUMNS = ("project_id", *ServerOverride._fields, "by", "at", "version")


class Changed(NamedTuple):
    """What was overridden or taken back since a version."""

    version: int
    """Ask with this one next time."""
    overrides: list[StoredOverride]
    """Empty ones too: those were taken back."""


class Unseen(NamedTuple):
    project_id: str
    server_id: str
    version: int


class ChangedMeanwhile(Exception):
    """Somebody else has written this server's overrides. Read them again, and decide again."""


class ChangedTooOften(Exception):
    """The server's tenant has used up its changes of this hour."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"the next change may be made in {wait_s} s")
        self.wait_s = wait_s


class OverrideStore:
    """The overrides in `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts, outage: Outage | None = None) -> None:
        self._facade = open_facade(conf, outage)

    def get(self, uuid: str) -> StoredOverride | None:
        """None: nothing is overridden."""
        return self.list_of([uuid]).get(uuid.lower())

    def list_of(self, uuids: Iterable[str]) -> dict[str, StoredOverride]:
        """What is overridden of these servers, by UUID in lower case; the others are absent."""
        with self._facade.reader.using(Context()) as session:
            return {one.uuid: one for one in _list(session, uuids) if not one.is_empty}

    @after_conflict
    def put(
        self,
        uuid: str,
        project_id: str,
        *,
        mode: Mode | None,
        opt_out: bool,
        priority: int | None,
        exempt: bool,
        latency_target_ms: float | None = None,
        latency_percentile: float | None = None,
        max_load: float | None = None,
        by: str,
        now: datetime,
        expected: int | None = None,
        changes_per_hour: int | None = None,
    ) -> StoredOverride:
        """All that is overridden of the server from now on. `expected`: the version that it was
        decided from, NEVER_WRITTEN for none; None: whatever stands there. `changes_per_hour`: so
        many are made of this server, whichever process makes them; None: it does not count.

        Raises ChangedMeanwhile and ChangedTooOften.
        """
        with self._facade.writer.using(Context()) as session:
            version = gate.next_version(session, gate.OVERRIDES, now)
            _check(session, uuid.lower(), expected)
            if changes_per_hour is not None:
                _count(session, uuid.lower(), version, now, changes_per_hour)
            stored = StoredOverride(
                uuid=uuid.lower(),
                project_id=project_id,
                mode=mode,
                opt_out=opt_out,
                priority=priority,
                exempt=exempt,
                latency_target_ms=latency_target_ms,
                latency_percentile=latency_percentile,
                max_load=max_load,
                by=by,
                at=now.replace(microsecond=0),
                version=version,
            )
            upsert(session, ServerOverrideRow, [_row(stored)], _COLUMNS)
        return stored

    def clear(self, uuid: str, *, by: str, now: datetime, expected: int | None = None) -> bool:
        """Nothing is overridden of it any more; whether anything was. Raises ChangedMeanwhile."""
        stands = self.get(uuid)
        if stands is None:
            if expected:
                raise ChangedMeanwhile(uuid)
            return False
        self.put(
            uuid,
            stands.project_id,
            **NO_OVERRIDE._asdict(),
            by=by,
            now=now,
            expected=expected,
        )
        return True

    def unseen(self, set_before: datetime, after: str, most: int) -> Sequence[Unseen]:
        """Servers with overrides that no host reports: they are stopped, on a host without an
        agent, or gone. `after`: whose ids are larger."""
        row, vp = ServerOverrideRow, VpRow
        found = (
            select(row.project_id, row.uuid, row.version)
            .where(row.at < naive_utc(set_before), row.uuid > after, ~nothing_overridden())
            .where(~exists(select(vp.uuid).where(vp.uuid == row.uuid)))
            .order_by(row.uuid)
            .limit(most)
        )
        with self._facade.reader.using(Context()) as session:
            return [Unseen(*one) for one in session.execute(found)]

    def changed_since(self, version: int) -> Changed:
        row = ServerOverrideRow
        # Before the rows: whatever is written meanwhile is then given once more, and not missed.
        with self._facade.reader.using(Context()) as session:
            newest = gate.version_of(session, gate.OVERRIDES)
            found = select(row).where(row.version > version).order_by(row.version)
            return Changed(newest, [_override(one) for one in session.scalars(found)])

    def version(self) -> int:
        """Of the latest write."""
        with self._facade.reader.using(Context()) as session:
            return gate.version_of(session, gate.OVERRIDES)

    @after_conflict
    def outbid(self, version: int, now: datetime) -> None:
        """The next messages have a larger number: some agent has obeyed this one, which a database
        that was restored does not know. Nothing happens for a number that nobody can have given."""
        with self._facade.writer.using(Context()) as session:
            gate.outbid(session, gate.OVERRIDES, version, now)

    def message(self, uuids: Iterable[str]) -> str:
        """For `rpcapi.AgentAPI.set_overrides`: all that is overridden of these servers, which
        should be all of one host."""
        asked = sorted({uuid.lower() for uuid in uuids})
        with self._facade.reader.using(Context()) as session:
            version = gate.version_of(session, gate.OVERRIDES)
            stand = {one.uuid: one for one in _list(session, asked)}
        overrides = {uuid: stand[uuid].override if uuid in stand else NO_OVERRIDE for uuid in asked}
        return overrides_text(version, overrides)


def nothing_overridden() -> ColumnElement[bool]:
    """Of a row that tells of overrides that were taken back."""
    row = ServerOverrideRow
    return and_(
        row.mode.is_(None),
        row.opt_out == false(),
        row.priority.is_(None),
        row.exempt == false(),
        *(getattr(row, name).is_(None) for name in LEVELS),
    )


def _check(session: Session, uuid: str, expected: int | None) -> None:
    if expected is None:
        return
    stands = session.get(ServerOverrideRow, uuid)
    is_free = stands is None or _override(stands).is_empty
    if expected != (NEVER_WRITTEN if is_free or stands is None else stands.version):
        raise ChangedMeanwhile(uuid)


def _count(session: Session, uuid: str, version: int, now: datetime, at_most: int) -> None:
    row = OverrideChange
    session.execute(delete(row).where(row.at <= naive_utc(now - HOUR)))
    made = session.scalars(select(row.at).where(row.uuid == uuid).order_by(row.at)).all()
    if len(made) >= at_most:
        free_at = aware_utc(made[-at_most]) + HOUR
        raise ChangedTooOften(math.ceil((free_at - now).total_seconds()))
    session.add(OverrideChange(version=version, uuid=uuid, at=naive_utc(now)))


def _list(session: Session, uuids: Iterable[str]) -> list[StoredOverride]:
    asked = sorted({uuid.lower() for uuid in uuids})
    row = ServerOverrideRow
    return [
        _override(one)
        for begin in range(0, len(asked), IN_A_QUERY)
        for one in session.scalars(
            select(row).where(row.uuid.in_(asked[begin : begin + IN_A_QUERY]))
        )
    ]


def _override(row: ServerOverrideRow) -> StoredOverride:
    return StoredOverride(
        uuid=row.uuid,
        project_id=row.project_id,
        mode=known_mode(row.mode) if row.mode else None,
        opt_out=row.opt_out,
        priority=row.priority,
        exempt=row.exempt,
        **{name: getattr(row, name) for name in LEVELS},
        by=row.by,
        at=aware_utc(row.at),
        version=row.version,
    )


def _row(stored: StoredOverride) -> Mapping[str, Any]:
    row = {name: getattr(stored, name) for name in ("uuid", *_COLUMNS)}
    mode = stored.mode.value if stored.mode else None
    return {**row, "mode": mode, "at": naive_utc(stored.at)}
