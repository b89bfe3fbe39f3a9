# SPDX-License-Identifier: Apache-2.0
"""The ledger of escalations and of the migrations that were tried for them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"

NAME = sa.String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def upgrade() -> None:
    op.create_table(
        "escalations",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("host", NAME, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", LONG_TEXT, nullable=False),
        sa.Column("message", LONG_TEXT, nullable=False),
        sa.Column("choice", LONG_TEXT),
        sa.Column("received_at", sa.DateTime, nullable=False),
        sa.Column("accepted_at", sa.DateTime),
        sa.Column("changed_at", sa.DateTime, nullable=False),
        sa.Column("not_before", sa.DateTime),
        sa.Column("owner", sa.String(255)),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("settled_at", sa.DateTime),
        sa.Index("ix_escalations_settled_at", "settled_at"),
        **TABLE,
    )
    op.create_table(
        "escalation_migrations",
        sa.Column("escalation_id", sa.String(36), primary_key=True),
        sa.Column("attempt", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("server", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("memory_kib", sa.BigInteger, nullable=False),
        sa.Column("timeout_s", sa.BigInteger, nullable=False),
        sa.Column("source_host", NAME, nullable=False),
        sa.Column("dest_host", NAME),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("detail", LONG_TEXT, nullable=False),
        sa.Column("nova_floor", sa.BigInteger),
        sa.Column("nova_id", sa.BigInteger),
        sa.Column("nova_uuid", sa.String(36)),
        sa.Column("nova_status", sa.String(36)),
        sa.Column("asked", sa.SmallInteger, nullable=False),
        sa.Column("started_at", sa.DateTime, nullable=False),
        sa.Column("requested_at", sa.DateTime),
        sa.Column("abort_asked_at", sa.DateTime),
        sa.Column("ended_at", sa.DateTime),
        sa.Column("told_at", sa.DateTime),
        sa.Index("ix_escalation_migrations_server", "server", "started_at"),
        sa.Index("ix_escalation_migrations_started_at", "started_at"),
        **TABLE,
    )
    gate = op.create_table(
        "escalation_gate",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("begun", sa.BigInteger, nullable=False),
        **TABLE,
    )
    op.bulk_insert(gate, [{"id": 1, "begun": 0}])
