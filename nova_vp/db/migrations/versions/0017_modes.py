# SPDX-License-Identifier: Apache-2.0
"""The modes that are set for the cloud and for host aggregates, and where a host's comes from."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from nova_vp.db.migrations.columns import add_missing_columns, add_missing_index

revision = "0017"
down_revision = "0016"

NAME = sa.String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
GATE = sa.table("vp_version_gate", sa.column("id"), sa.column("version"))
TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def upgrade() -> None:
    add_missing_columns("hosts", sa.Column("mode_source", NAME))
    add_missing_index("ix_hosts_mode_source", "hosts", "mode_source")
    op.execute(sa.delete(GATE).where(GATE.c.id == 3))
    op.execute(sa.insert(GATE).values(id=3, version=0))
    op.create_table(
        "modes",
        sa.Column("level", sa.String(16), primary_key=True),
        sa.Column("name", NAME, primary_key=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        **TABLE,
    )
