# SPDX-License-Identifier: Apache-2.0
"""How many hosts report and how many escalations stand, counted by the database itself.

For whoever looks every few seconds: no row is fetched, and a cloud of ten thousand hosts is a
handful of numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from oslo_config import cfg
from sqlalchemy import func, select

from nova_vp.db.column_types import naive_utc
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.models import EscalationRow, Host

SETTLED_WITHIN = timedelta(days=1)


class HostKind(NamedTuple):
    mode: str
    is_heard: bool
    """Its last report is news still."""


@dataclass(frozen=True, slots=True)
class Stats:
    hosts: Mapping[HostKind, int]
    standing: Mapping[str, int]
    """Escalations that are not settled, by status."""
    settled: Mapping[str, int]
    """Those settled within the last day, by how they ended."""


class StatsReader:
    """Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._facade = open_facade(conf)
        self._stale_after = timedelta(seconds=conf.vp_scheduler.stale_after_s)

    def survey(self, now: datetime) -> Stats:
        """Raises `nova_vp.db.report_store.ERRORS`."""
        is_heard = Host.received_at >= naive_utc(now - self._stale_after)
        row, count = EscalationRow, func.count()
        with self._facade.reader.using(Context()) as session:
            hosts = session.execute(
                select(Host.mode, is_heard, count).group_by(Host.mode, is_heard)
            ).all()
            standing = session.execute(
                select(row.status, count).where(row.settled_at.is_(None)).group_by(row.status)
            ).all()
            settled = session.execute(
                select(row.status, count)
                .where(row.settled_at >= naive_utc(now - SETTLED_WITHIN))
                .group_by(row.status)
            ).all()
        return Stats(
            hosts={HostKind(mode, bool(heard)): found for mode, heard, found in hosts},
            standing={status: found for status, found in standing},
            settled={status: found for status, found in settled},
        )
