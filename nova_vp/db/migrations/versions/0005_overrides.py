# SPDX-License-Identifier: Apache-2.0
"""Overrides of single servers: mode, opt-out, priority."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def upgrade() -> None:
    op.create_table(
        "vp_overrides",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("mode", sa.String(16)),
        sa.Column("opt_out", sa.Boolean, nullable=False),
        sa.Column("priority", sa.SmallInteger),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Index("ix_vp_overrides_project_id", "project_id"),
        sa.Index("ix_vp_overrides_version", "version"),
        **TABLE,
    )
    gate = op.create_table(
        "vp_version_gate",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        **TABLE,
    )
    op.bulk_insert(gate, [{"id": 1, "version": 0}])
