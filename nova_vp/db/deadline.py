# SPDX-License-Identifier: Apache-2.0
"""No wait for the database is without end, on connecting, on using a connection of the pool, or on
any statement.

The waiting ends on this side, in the driver: a server that is frozen enforces no timeout of its
own, and its kernel goes on to acknowledge keepalives. SQLite waits for nobody but the holder of its
lock, for 5 s.
"""

import select
from typing import Any

from oslo_db import exception as db_exception
from sqlalchemy import Engine, event, text

from nova_vp.service.outage import Outage

MYSQL_WAITS = ("connect_timeout", "read_timeout", "write_timeout")
MYSQL_DRIVERS = ("pymysql", "mysqldb")


class DatabaseHangs(db_exception.DBConnectionError):  # type: ignore[misc]
    """It was not even asked: somebody else waits for it already."""


def set_deadline(engine: Engine, answer_timeout_s: int) -> None:
    """Of connections that are opened from now on. What the connection's URL says takes precedence,
    where the driver knows such options (MariaDB, MySQL)."""
    if engine.driver in MYSQL_DRIVERS:
        _set_mysql_deadline(engine, answer_timeout_s)
    elif engine.driver == "psycopg2":
        _set_psycopg2_deadline(answer_timeout_s)


def _set_mysql_deadline(engine: Engine, answer_timeout_s: int) -> None:
    def bound(_dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]) -> None:
        for name in MYSQL_WAITS:
            options.setdefault(name, answer_timeout_s)

    event.listen(engine, "do_connect", bound)


def _set_psycopg2_deadline(answer_timeout_s: int) -> None:
    """Of all its connections in this process: it has one function that waits, or waits in libpq,
    which knows a timeout for connecting alone."""
    from psycopg2 import OperationalError, extensions  # Late: not everybody has this driver.

    events = {extensions.POLL_READ: select.POLLIN, extensions.POLL_WRITE: select.POLLOUT}

    def wait(connection: Any) -> None:
        while (state := connection.poll()) != extensions.POLL_OK:
            waiting = select.poll()
            waiting.register(connection.fileno(), events[state])
            if not waiting.poll(answer_timeout_s * 1000):
                # By these words of libpq SQLAlchemy knows that the connection is lost.
                raise OperationalError(
                    f"could not receive data from server: no answer within {answer_timeout_s} s"
                ) from TimeoutError()

    extensions.set_wait_callback(wait)


def watch(engine: Engine, outage: Outage) -> None:
    """While the outage is on nobody connects, and of the pool nothing is used: SQLAlchemy throws it
    away with the first connection that fails."""

    def reach() -> None:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def refuse(*_: Any) -> None:
        if outage.is_on:
            raise DatabaseHangs()

    def note(failed: Any) -> None:
        outage.note(failed.original_exception, reach)

    event.listen(engine, "do_connect", refuse)
    event.listen(engine, "handle_error", note)
