# SPDX-License-Identifier: Apache-2.0
"""What a revision of the schema may change: services of the former release read and write while it
runs, and until they are upgraded. Judged by what each revision does to a database with rows.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from nova_vp.db import schema

EXPECTED = {
    "0004": "before the first release",
    "0006": "before the first release",
}
"""Revisions that take something away, with the release before which nothing used it any more."""
CONFIG = schema._config()
REVISIONS = [one.revision for one in ScriptDirectory.from_config(CONFIG).walk_revisions()][::-1]


class Column(NamedTuple):
    type: str
    is_nullable: bool
    has_default: bool


class Table(NamedTuple):
    columns: dict[str, Column]
    key: tuple[str, ...]
    rules: frozenset[str]
    """What refuses rows: unique indexes, checks, references."""
    rows: list[dict[str, Any]]


def tables(connection: sa.Connection) -> dict[str, Table]:
    inspector = sa.inspect(connection)
    return {
        name: _table(connection, inspector, name)
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }


def _table(connection: sa.Connection, inspector: sa.Inspector, name: str) -> Table:
    columns = {
        one["name"]: Column(str(one["type"]), one["nullable"], one["default"] is not None)
        for one in inspector.get_columns(name)
    }
    unique = [one["column_names"] for one in inspector.get_indexes(name) if one["unique"]]
    unique += [one["column_names"] for one in inspector.get_unique_constraints(name)]
    rules = [f"unique {names}" for names in unique]
    rules += [f"check {one['sqltext']}" for one in inspector.get_check_constraints(name)]
    rules += [f"reference {one['constrained_columns']}" for one in inspector.get_foreign_keys(name)]
    key = tuple(inspector.get_pk_constraint(name)["constrained_columns"])
    found = connection.execute(sa.text(f"SELECT * FROM {name}")).mappings()
    return Table(columns, key, frozenset(rules), [dict(row) for row in found])


def fill(connection: sa.Connection) -> None:
    """A row in each table that has none."""
    for name, table in tables(connection).items():
        if not table.rows:
            values = {name: _value(column) for name, column in table.columns.items()}
            names = ", ".join(f'"{name}"' for name in values)
            marks = ", ".join(f":{name}" for name in values)
            connection.execute(sa.text(f"INSERT INTO {name} ({names}) VALUES ({marks})"), values)


def _value(column: Column) -> object:
    return "2026-01-02 03:04:05" if "DATE" in column.type else b"7" if "LOB" in column.type else 7


def faults(before: dict[str, Table], after: dict[str, Table]) -> Iterator[str]:
    for name, old in before.items():
        if name not in after:
            yield f"{name} is gone"
        else:
            yield from (f"{name}{fault}" for fault in _faults_of(old, after[name]))


def _faults_of(old: Table, new: Table) -> Iterator[str]:
    for name, column in old.columns.items():
        if fault := _column_fault(column, new.columns.get(name)):
            yield f".{name} {fault}"
    for name in new.columns.keys() - old.columns.keys():
        if not (new.columns[name].is_nullable or new.columns[name].has_default):
            yield f".{name} is new, and may neither be null nor has a default"
    if new.key != old.key:
        yield f" has another primary key: {new.key}"
    for rule in sorted(new.rules - old.rules):
        yield f" refuses more: {rule}"
    kept = [{name: row.get(name) for name in old.columns} for row in new.rows]
    if any(row not in kept for row in old.rows):
        yield " has lost or changed a row"


def _column_fault(old: Column, new: Column | None) -> str:
    if new is None:
        return "is gone"
    if new.type != old.type:
        return f"was {old.type} and is {new.type}"
    if old.is_nullable and not new.is_nullable:
        return "may not be null any more"
    if old.has_default and not (new.has_default or new.is_nullable):
        return "has no default any more"
    return ""


def changed(change: Callable[[sa.Connection], None], before: str) -> list[str]:
    """The faults of what it does to a database of that revision."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        CONFIG.attributes["connection"] = connection
        command.upgrade(CONFIG, before)
        fill(connection)
        old = tables(connection)
        change(connection)
        found = [*faults(old, tables(connection))]
    engine.dispose()
    return found


@pytest.mark.parametrize("revision", REVISIONS[1:])
def test_the_former_release_works_on_while_and_after_a_revision_is_applied(revision: str) -> None:
    def upgrade(connection: sa.Connection) -> None:
        command.upgrade(CONFIG, revision)

    found = changed(upgrade, REVISIONS[REVISIONS.index(revision) - 1])
    assert bool(found) == (revision in EXPECTED), found


def _batch(table: str, *change: Any) -> Callable[[Operations], None]:
    """`change`: a method of alembic's batch operations, and its arguments."""

    def apply(op: Operations) -> None:
        name, *arguments = change
        given = arguments.pop() if isinstance(arguments[-1], dict) else {}
        with op.batch_alter_table(table) as batch:
            getattr(batch, name)(*arguments, **given)

    return apply


def _add_mandatory_column(op: Operations) -> None:
    """SQLite refuses it for a table with rows."""
    op.execute("DELETE FROM hosts")
    with op.batch_alter_table("hosts", recreate="always") as hosts:
        hosts.add_column(sa.Column("rack", sa.Text, nullable=False))


def _copy_without_key(op: Operations) -> None:
    op.execute("CREATE TABLE copied AS SELECT * FROM modes")
    op.drop_table("modes")
    op.rename_table("copied", "modes")


REFUSED = {
    "modes is gone": lambda op: op.drop_table("modes"),
    "overlays is gone": lambda op: op.rename_table("overlays", "applications"),
    "hosts.heat is gone": _batch("hosts", "drop_column", "heat"),
    "hosts.mode is gone": _batch("hosts", "alter_column", "mode", {"new_column_name": "level"}),
    "modes.mode was VARCHAR(16) and is BIGINT": _batch(
        "modes", "alter_column", "mode", {"type_": sa.BigInteger()}
    ),
    "hosts.heat may not be null any more": _batch(
        "hosts", "alter_column", "heat", {"nullable": False}
    ),
    "vps.service_class has no default any more": _batch(
        "vps", "alter_column", "service_class", {"server_default": None}
    ),
    "hosts.rack is new, and may neither be null nor has a default": _add_mandatory_column,
    "modes has another primary key: ()": _copy_without_key,
    "modes refuses more: unique ['by']": lambda op: op.create_index(
        "one", "modes", ["by"], unique=True
    ),
    "overlays refuses more: check version > 0": _batch(
        "overlays", "create_check_constraint", "positive", sa.text("version > 0")
    ),
    "overlay_servers refuses more: reference ['overlay_id']": _batch(
        "overlay_servers", "create_foreign_key", "f", "overlays", ["overlay_id"], ["id"]
    ),
    "modes has lost or changed a row": lambda op: op.execute("DELETE FROM modes"),
    "hosts has lost or changed a row": lambda op: op.execute("UPDATE hosts SET mode = 'x'"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_the_former_release_could_not_bear_is_refused(fault: str) -> None:
    assert fault in _applied(REFUSED[fault])


ALLOWED = {
    "a column that may be null": _batch("hosts", "add_column", sa.Column("rack", sa.Text)),
    "a column with a default": _batch(
        "hosts", "add_column", sa.Column("rack", sa.Text, nullable=False, server_default="")
    ),
    "a table": lambda op: op.create_table("racks", sa.Column("id", sa.Text, primary_key=True)),
    "an index": lambda op: op.create_index("one_more", "modes", ["by"]),
    "a row": lambda op: op.execute("INSERT INTO vp_version_gate (id, version) VALUES (9, 0)"),
    "what may be null from now on": _batch("modes", "alter_column", "by", {"nullable": True}),
}


@pytest.mark.parametrize("change", ALLOWED)
def test_what_only_adds_is_allowed(change: str) -> None:
    assert _applied(ALLOWED[change]) == []


def _applied(change: Callable[[Operations], None]) -> list[str]:
    def apply(connection: sa.Connection) -> None:
        change(Operations(MigrationContext.configure(connection)))

    return changed(apply, REVISIONS[-1])
