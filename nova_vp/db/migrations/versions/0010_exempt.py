# SPDX-License-Identifier: Apache-2.0
"""Servers that are never acted on, and when tenants changed what is ordered of their servers."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def upgrade() -> None:
    exempt = sa.Column("exempt", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("vp_orders", exempt)
    op.create_table(
        "vp_orders_changes",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Index("ix_vp_orders_changes_uuid", "uuid"),
        sa.Index("ix_vp_orders_changes_at", "at"),
        **TABLE,
    )
