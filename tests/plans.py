# SPDX-License-Identifier: Apache-2.0
"""How MariaDB would answer what was asked of it: which tables it would read whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event, text

from nova_vp.db.models import Base


@contextmanager
def asked() -> Iterator[list[tuple[str, Any]]]:
    """Every statement of this process, with its parameters."""
    told: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        told.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield told
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def count_rows(engine: Engine) -> None:
    """So that it knows how large its tables are."""
    with engine.begin() as connection:
        connection.execute(text(f"ANALYZE TABLE {', '.join(Base.metadata.tables)}"))


def whole_reads(engine: Engine, told: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """The steps of their plans that read a table from one end to the other.

    `<derived2>` and the like are no tables, but what an earlier step has found.
    """
    found = []
    with engine.connect() as connection:
        for statement, parameters in told:
            if "FROM" in statement:
                plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
                found += [
                    {**step, "statement": statement}
                    for step in plan.mappings()
                    if step["type"] == "ALL" and not step["table"].startswith("<")
                ]
    return found
