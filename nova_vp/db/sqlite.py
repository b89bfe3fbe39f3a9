# SPDX-License-Identifier: Apache-2.0
"""What SQLite needs and the others do not: it has one lock for all that is written.

Whoever holds it may be frozen in the middle; then nobody else writes, but everybody still reads.
"""

import sqlite3
from contextlib import closing, suppress

from sqlalchemy import Connection, Engine, delete, false

from nova_vp.db.models import Host


def is_sqlite(engine: Engine | Connection) -> bool:
    return engine.dialect.name == "sqlite"


def let_readers_be(engine: Engine) -> None:
    """Those who read do not wait for those who write, nor they for them. The file remembers it."""
    if not is_sqlite(engine):
        return
    # Locked now: whatever follows says so, and the next time does it.
    with closing(engine.raw_connection()) as connection, suppress(sqlite3.OperationalError):
        connection.cursor().execute("PRAGMA journal_mode=WAL")


def write_first(connection: Connection) -> None:
    """Of a transaction that reads before it writes: it cannot wait for the lock once it has read.

    Raises oslo.db's exceptions: somebody holds the lock for longer than a writer waits.
    """
    if is_sqlite(connection):
        connection.execute(delete(Host).where(false()))
