# SPDX-License-Identifier: Apache-2.0
"""Numbers of writes that appear in the order in which they were given: whoever has seen one needs
only what came after it.

Every write takes its number behind one row of a table, which is locked until it is there. They are
milliseconds since 1970 where that is more than the last one, so that a database which was lost does
not begin below what agents have obeyed.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import case, select, update
from sqlalchemy.orm import Session

from nova_vp.db.models import VersionGate
from nova_vp.server_override import POSSIBLE_AHEAD_MS

NEVER_WRITTEN = 0
"""Before the first write."""
OVERRIDES, OVERLAYS, MODES = 1, 2, 3
"""What has numbers of its own."""


def is_possible(version: int, now: datetime) -> bool:
    """Whether one of ours can have given it."""
    return version <= _milliseconds(now) + POSSIBLE_AHEAD_MS


def next_version(session: Session, gate: int, now: datetime) -> int:
    """It comes first in its transaction: SQLite cannot wait for a lock once it has read."""
    one_more = update(VersionGate).where(VersionGate.id == gate)
    session.execute(one_more.values(version=VersionGate.version + 1))
    raise_to(session, gate, _milliseconds(now))
    return version_of(session, gate)


def outbid(session: Session, gate: int, version: int, now: datetime) -> None:
    """The next numbers are larger. Nothing happens for one that nobody can have given."""
    if is_possible(version, now):
        raise_to(session, gate, version + 1)


def raise_to(session: Session, gate: int, least: int) -> None:
    higher: Any = case((VersionGate.version < least, least), else_=VersionGate.version)
    session.execute(update(VersionGate).where(VersionGate.id == gate).values(version=higher))


def version_of(session: Session, gate: int) -> int:
    """Of the latest write."""
    found = session.scalar(select(VersionGate.version).where(VersionGate.id == gate))
    return int(found or NEVER_WRITTEN)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
