# SPDX-License-Identifier: Apache-2.0
"""Bringing the database to the newest schema, and asking which one it has.

Services read and write meanwhile. What a revision may change, `tests/unit/test_schema_changes.py`
says.
"""

import logging
import time

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from oslo_config import cfg
from oslo_db.exception import DBError
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

from nova_vp.db.facade import open_facade
from nova_vp.db.sqlite import let_readers_be

LOG = logging.getLogger(__name__)
GIVE_WAY = {
    "mysql": "SET SESSION lock_wait_timeout = 1",
    "mariadb": "SET SESSION lock_wait_timeout = 1",
    "postgresql": "SET LOCAL lock_timeout = '900ms'",
}
"""A change of a table waits for all transactions that have it open, and whoever comes later waits
behind it: so it gives up before vp-api does (`API_ANSWER_TIMEOUT_S`), and before PostgreSQL looks
for deadlocks (1 s) and ends a transaction of somebody else."""
GAVE_WAY = frozenset({"55P03", (1205,)})
"""PostgreSQL's code and MySQL's error number of a lock that was not got in time."""
PAUSE_S = 2.0
"""Between two tries: whoever waited is served."""
MOST_TRIES = 900
"""About an hour: a backup may have all tables open."""


def open_engine(conf: cfg.ConfigOpts) -> Engine:
    engine: Engine = open_facade(conf).writer.get_engine()
    return engine


def missing_driver(exc: ModuleNotFoundError) -> str:
    """What to tell of a connection that cannot even be tried."""
    return (
        f"[database] connection: the Python package {exc.name!r} of its driver is not installed: "
        "install it, or use another driver (mysql+pymysql://, postgresql+psycopg2://)"
    )


def upgrade(engine: Engine) -> None:
    """To the newest revision; a database that has it already is left alone."""
    let_readers_be(engine)
    for revision in _missing(engine):
        _give_way_until_done(engine, revision)


def _missing(engine: Engine) -> list[str]:
    """The next one first. Nobody uses a database without tables: it gets all at once."""
    if (present := current_revision(engine)) is None:
        return ["head"]
    script = ScriptDirectory.from_config(_config())
    return [one.revision for one in script.iterate_revisions("head", present)][::-1]


def _give_way_until_done(engine: Engine, revision: str) -> None:
    for _ in range(MOST_TRIES):
        try:
            _apply(engine, revision)
        except (SQLAlchemyError, DBError) as exc:
            if not _gave_way(exc):
                raise
            LOG.warning("revision %s waits: somebody has one of its tables open", revision)
        else:
            return
        time.sleep(PAUSE_S)
    _apply(engine, revision)


def _apply(engine: Engine, revision: str) -> None:
    config = _config()
    with engine.begin() as connection:
        if statement := GIVE_WAY.get(engine.dialect.name):
            connection.exec_driver_sql(statement)
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def _gave_way(exc: Exception) -> bool:
    """oslo.db wraps the driver's exception twice, SQLAlchemy once."""
    while (
        inner := getattr(exc, "inner_exception", None) or getattr(exc, "orig", None)
    ) is not None:
        exc = inner
    return getattr(exc, "pgcode", None) in GAVE_WAY or exc.args[:1] in GAVE_WAY


def current_revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str | None:
    """Which this release needs."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "nova_vp.db:migrations")
    return config
