# SPDX-License-Identifier: Apache-2.0
"""The modes that are set for the cloud and for host aggregates; no row or session leaves here.

A write takes a number (`nova_vp.db.gate`), so that agents tell a newer message from an older one.
"""

from datetime import datetime
from typing import NamedTuple

from oslo_config import cfg
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from nova_vp import wire
from nova_vp.cloud_modes import CloudModes, modes_text
from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.policy import Mode, known_mode
from nova_vp.db import gate
from nova_vp.db.column_types import aware_utc, naive_utc
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.models import Host, ModeRow
from nova_vp.db.retry import after_conflict
from nova_vp.db.upsert import upsert
from nova_vp.service.outage import Outage

_AGGREGATE = ModeLevel.AGGREGATE.value


class StoredMode(NamedTuple):
    mode: Mode
    level: ModeLevel
    name: str
    """Of the aggregate; empty for the cloud."""
    by: str
    """Id of the keystone user who set it."""
    at: datetime
    """Aware."""


class Changed(NamedTuple):
    version: int
    """Of the latest write."""
    modes: CloudModes


class TooManyAggregates(Exception):
    """More aggregates have a mode than an agent can be told of."""


class ModeStore:
    """The modes in `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts, outage: Outage | None = None) -> None:
        self._facade = open_facade(conf, outage)

    def list_modes(self) -> list[StoredMode]:
        """That of the cloud first, then those of aggregates by name."""
        with self._facade.reader.using(Context()) as session:
            rows = session.scalars(select(ModeRow)).all()
            found = [
                StoredMode(known_mode(r.mode), ModeLevel(r.level), r.name, r.by, aware_utc(r.at))
                for r in rows
            ]
        return sorted(found, key=lambda one: (one.level is not ModeLevel.CLOUD, one.name))

    def changed_since(self, version: int) -> Changed:
        """All that are set, since they are few. What is written meanwhile may be among them, and
        is then given once more."""
        with self._facade.reader.using(Context()) as session:
            newest = gate.version_of(session, gate.MODES)
        found = self.list_modes()
        cloud = next((one.mode for one in found if one.level is ModeLevel.CLOUD), None)
        named = {one.name: one.mode for one in found if one.level is ModeLevel.AGGREGATE}
        return Changed(newest, CloudModes(cloud, named))

    @after_conflict
    def put(self, level: ModeLevel, name: str, mode: Mode | None, *, by: str, at: datetime) -> None:
        """None: it is not set any more. Raises TooManyAggregates: nothing has changed then."""
        row, key = ModeRow, {"level": level.value, "name": name}
        with self._facade.writer.using(Context()) as session:
            gate.next_version(session, gate.MODES, at)
            if mode is None:
                session.execute(delete(row).where(row.level == level.value, row.name == name))
                return
            told = {**key, "mode": mode.value, "by": by, "at": naive_utc(at)}
            upsert(session, row, [told], ("mode", "by", "at"))
            if level is ModeLevel.AGGREGATE:
                _check_size(session)

    @after_conflict
    def outbid(self, version: int, now: datetime) -> None:
        """The next messages have a larger number: some agent obeys this one, which a database that
        was restored does not know."""
        with self._facade.writer.using(Context()) as session:
            gate.outbid(session, gate.MODES, version, now)

    def count_hosts_by_source(self) -> dict[str, int]:
        """By where their mode comes from, as `hosts.mode_source` has it."""
        query = select(Host.mode_source, func.count()).group_by(Host.mode_source)
        with self._facade.reader.using(Context()) as session:
            return {source: count for source, count in session.execute(query) if source}


def _check_size(session: Session) -> None:
    """Agents must be told all of them in one message, and a mode of the cloud with them. Raises
    TooManyAggregates."""
    rows = session.execute(select(ModeRow.name, ModeRow.mode).where(ModeRow.level == _AGGREGATE))
    named = {name: known_mode(mode) for name, mode in rows}
    try:
        modes_text(wire.MOST_COUNT, CloudModes(Mode.OBSERVE, named))
    except wire.BadMessage as exc:
        raise TooManyAggregates(len(named) - 1) from exc
    if len(named) > wire.MAX_AGGREGATES:
        raise TooManyAggregates(wire.MAX_AGGREGATES)
