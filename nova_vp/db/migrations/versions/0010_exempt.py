# SPDX-License-Identifier: Apache-2.0
"""Servers that are never acted on, and when tenants changed overrides of their servers."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def upgrade() -> None:
    exempt = sa.Column("exempt", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("vp_overrides", exempt)
    op.create_table(
        "vp_override_changes",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Index("ix_vp_override_changes_uuid", "uuid"),
        sa.Index("ix_vp_override_changes_at", "at"),
        **TABLE,
    )
