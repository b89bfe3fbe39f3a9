# SPDX-License-Identifier: Apache-2.0
"""Databases with all our tables and nothing in them, made once and emptied for each test.

The migrations take longer than most of the tests that need their result. What is about the
migrations themselves starts from a database without tables, not from here.
"""

from pathlib import Path

from oslo_config import cfg
from sqlalchemy import MetaData

from nova_vp.conf import database
from nova_vp.db import schema


class Synced:
    """One database on a server, for one test after the other."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = schema.open_engine(_options(url))
        schema.upgrade(self._engine)
        self._tables = MetaData()
        self._tables.reflect(self._engine)
        with self._engine.connect() as connection:
            self._first_rows = {
                table: [row._asdict() for row in connection.execute(table.select())]
                for table in self._tables.sorted_tables
            }

    def empty(self) -> None:
        """As the migrations left it."""
        with self._engine.begin() as connection:
            for table, rows in self._first_rows.items():
                connection.execute(table.delete())
                if rows:
                    connection.execute(table.insert(), rows)

    def close(self) -> None:
        self._engine.dispose()


def make_file(path: Path) -> None:
    """An SQLite database to be copied."""
    engine = schema.open_engine(_options(f"sqlite:///{path}"))
    schema.upgrade(engine)
    engine.dispose()


def _options(url: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", url, group="database")
    return conf
