# SPDX-License-Identifier: Apache-2.0
"""Bringing the database to the newest schema, and asking which one it has."""

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from oslo_config import cfg
from oslo_db.sqlalchemy import enginefacade
from sqlalchemy.engine import Engine

from nova_vp.conf import database


def open_engine(conf: cfg.ConfigOpts) -> Engine:
    database.register_opts(conf)
    facade = enginefacade.transaction_context()
    facade.configure(**database.engine_options(conf))
    return facade.writer.get_engine()


def upgrade(engine: Engine) -> None:
    """To the newest revision; a database that has it already is left alone."""
    config = Config()
    config.set_main_option("script_location", "nova_vp.db:migrations")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def current_revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()
