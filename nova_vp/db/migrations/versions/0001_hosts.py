# SPDX-License-Identifier: Apache-2.0
"""The latest report of each host."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "hosts",
        sa.Column(
            "host",
            sa.String(255).with_variant(
                mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb"
            ),
            primary_key=True,
        ),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("received_at", sa.DateTime, nullable=False),
        sa.Column(
            "report",
            sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"),
            nullable=False,
        ),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )
