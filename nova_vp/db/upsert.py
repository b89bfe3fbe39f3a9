# SPDX-License-Identifier: Apache-2.0
"""Insert or replace, many rows in one statement, as each database says it."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from sqlalchemy import Table, func
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Session

Row = Mapping[str, Any]


def upsert(
    session: Session,
    into: type[DeclarativeBase],
    rows: Iterable[Row],
    replaced: Collection[str],
    largest: Collection[str] = (),
) -> None:
    """Of a row whose key is there already, only the columns `replaced` are written, and those of
    `largest` where the new value is larger.

    In the order of their keys, so that two processes never wait for each other's rows; of rows with
    the same key the last is taken, since PostgreSQL takes a key once per statement.
    """
    table = cast(Table, into.__table__)
    names = [column.name for column in table.primary_key]
    by_key = {tuple(row[name] for name in names): dict(row) for row in rows}
    if not by_key:
        return
    connection = session.connection()
    statement = _statement(connection.dialect.name, table, names, replaced, largest)
    connection.execute(statement, [by_key[key] for key in sorted(by_key)])


def _statement(
    dialect: str,
    table: Table,
    key: list[str],
    replaced: Collection[str],
    largest: Collection[str],
) -> Any:
    if dialect in ("mysql", "mariadb"):
        insert = mysql.insert(table)
        values = _written(table, insert.inserted, replaced, largest, func.greatest)
        return insert.on_duplicate_key_update(values)
    is_postgresql = dialect == "postgresql"
    made = postgresql.insert(table) if is_postgresql else sqlite.insert(table)
    larger_of = func.greatest if is_postgresql else func.max
    values = _written(table, made.excluded, replaced, largest, larger_of)
    return made.on_conflict_do_update(index_elements=key, set_=values)


def _written(
    table: Table, new: Any, replaced: Collection[str], largest: Collection[str], larger_of: Any
) -> dict[str, Any]:
    """What stands then in a row that was there."""
    kept = {name: larger_of(table.c[name], new[name]) for name in largest}
    return {**{name: new[name] for name in replaced}, **kept}
