# SPDX-License-Identifier: Apache-2.0
"""Overlays: the servers of one application, and what its project says of them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0016"
down_revision = "0015"

TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}
GATE = sa.table("vp_version_gate", sa.column("id"), sa.column("version"))


def upgrade() -> None:
    """May be run again after it failed halfway: MySQL keeps the tables that were made."""
    for table in ("overlay_servers", "overlays"):
        op.drop_table(table, if_exists=True)
    op.create_table(
        "overlays",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("project_id", _exact(64), nullable=False),
        sa.Column("name", _exact(255), nullable=False),
        sa.Column("priority", sa.SmallInteger, nullable=False),
        sa.Column("arbitration", sa.String(16), nullable=False),
        sa.Column("target", sa.Double),
        sa.Column("target_unit", sa.String(32), nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("is_deleted", sa.Boolean, nullable=False),
        sa.Index("ix_overlays_project_id", "project_id", "name", unique=True),
        sa.Index("ix_overlays_version", "version"),
        sa.Index("ix_overlays_is_deleted", "is_deleted", "at"),
        **TABLE,
    )
    op.create_table(
        "overlay_servers",
        sa.Column("server_id", sa.String(36), primary_key=True),
        sa.Column("overlay_id", sa.String(36), nullable=False),
        sa.Column("added_at", sa.DateTime, nullable=False),
        sa.Index("ix_overlay_servers_overlay_id", "overlay_id", "server_id"),
        **TABLE,
    )
    op.execute(sa.delete(GATE).where(GATE.c.id == 2))
    op.execute(sa.insert(GATE).values(id=2, version=0))


def _exact(length: int) -> sa.String:
    """Capital letters differ from small ones."""
    exact = mysql.VARCHAR(length, collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")
