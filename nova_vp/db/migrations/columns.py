# SPDX-License-Identifier: Apache-2.0
"""Columns and indexes added by revisions that may be run again after they failed halfway."""

from typing import Any

import sqlalchemy as sa
from alembic import op


def add_missing_columns(table: str, *columns: "sa.Column[Any]") -> None:
    """MySQL keeps the first of several columns if a later one fails: each is a statement of its
    own, and no part of a transaction. `batch_alter_table` makes several statements as well."""
    present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
    for column in columns:
        if column.name not in present:
            op.add_column(table, column)


def add_missing_index(name: str, table: str, *columns: str) -> None:
    """As `add_missing_columns`."""
    present = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
    if name not in present:
        op.create_index(name, table, list(columns))
