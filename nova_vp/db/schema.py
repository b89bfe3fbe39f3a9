# SPDX-License-Identifier: Apache-2.0
"""Bringing the database to the newest schema, and asking which one it has."""

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from oslo_config import cfg
from sqlalchemy.engine import Engine

from nova_vp.db.facade import open_facade
from nova_vp.db.sqlite import let_readers_be


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
    config = _config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


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
