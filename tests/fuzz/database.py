# SPDX-License-Identifier: Apache-2.0
"""The SQLite database of a run, emptied for every round, and whose each of its rows is."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.conf import database
from nova_vp.db import schema
from nova_vp.db.models import (
    Base,
    BusKeyRow,
    EscalationGate,
    ModeRow,
    OverlayRow,
    OverlayServer,
    VersionGate,
)
from tests.fuzz.oracle import check_rows, expect

_NOBODYS = tuple(
    model.__tablename__
    for model in (EscalationGate, VersionGate, BusKeyRow, OverlayRow, OverlayServer, ModeRow)
)
"""Nothing that comes in gets there."""
_TABLES = {name: table for name, table in Base.metadata.tables.items() if name not in _NOBODYS}
_OWNERS = ("host", "source_host", "uuid")
"""Columns that say whose a row is, the first first."""
Rows = Mapping[str, Mapping[str, frozenset[tuple[object, ...]]]]
"""By table and owner."""


class Database:
    def __init__(self, folder: Path) -> None:
        self.conf = cfg.ConfigOpts()
        self.conf([], default_config_files=[], default_config_dirs=[])
        options.register_all(self.conf)
        database.register_opts(self.conf)
        path = folder / "fuzz.sqlite"
        self.conf.set_override("connection", f"sqlite:///{path}", "database")
        self._engine = schema.open_engine(self.conf)
        schema.upgrade(self._engine)

    def clear(self, tables: Collection[str] = _TABLES) -> None:
        with self._engine.begin() as connection:
            for name in tables:
                connection.execute(_TABLES[name].delete())

    def rows(self, tables: Collection[str] = _TABLES) -> Rows:
        """As SQLite has them: it stores anything in any column."""
        found = {}
        with closing(self._engine.raw_connection()) as connection:
            for name in tables:
                names = _TABLES[name].columns.keys()
                at = next(names.index(column) for column in _OWNERS if column in names)
                by_owner = defaultdict(set)
                for row in connection.cursor().execute(_select(name, names)).fetchall():
                    by_owner[row[at]].add(tuple(row))
                found[name] = {owner: frozenset(rows) for owner, rows in by_owner.items()}
        return found


def _select(table: str, columns: list[str]) -> str:
    quoted = ", ".join(f'"{column}"' for column in columns)
    return f"SELECT {quoted} FROM {table}"


def check_change(
    before: Rows, after: Rows, senders: frozenset[str], shared: frozenset[str]
) -> None:
    """That only rows of the senders have changed, and that these can be stored anywhere. `shared`:
    tables whose rows are nobody's."""
    for table, now in after.items():
        was = before[table]
        for owner in now.keys() | was.keys():
            new, old = now.get(owner, frozenset()), was.get(owner, frozenset())
            if new != old:
                is_own = owner in senders or table in shared
                expect(is_own, f"{table}: rows of {owner!r} changed by a message of {senders}")
                check_rows(_TABLES[table], new - old)
