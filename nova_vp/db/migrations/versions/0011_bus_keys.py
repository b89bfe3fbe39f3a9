# SPDX-License-Identifier: Apache-2.0
"""The public keys of everybody on the bus."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "bus_keys",
        sa.Column("sender", _exact(255), primary_key=True),
        sa.Column("public_key", _exact(64), primary_key=True),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("retired_at", sa.DateTime),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )


def _exact(length: int) -> sa.String:
    """Capital letters differ from small ones."""
    exact = mysql.VARCHAR(length, collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")
