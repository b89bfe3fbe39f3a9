# SPDX-License-Identifier: Apache-2.0
"""History by host and minute, the ledger of actions, and what profiles are learned from."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"

NAME = sa.String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def upgrade() -> None:
    op.create_table(
        "history",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("host", NAME, primary_key=True),
        sa.Column("minute", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column(
            "packed",
            sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb"),
            nullable=False,
        ),
        **TABLE,
    )
    op.create_table(
        "actions",
        sa.Column("host", NAME, primary_key=True),
        sa.Column("id", NAME, primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("controller", sa.String(255), nullable=False),
        sa.Column("reason", sa.String(255), nullable=False),
        sa.Column("result", sa.String(255), nullable=False),
        sa.Column(
            "detail",
            sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"),
            nullable=False,
        ),
        sa.Column("stored_at", sa.DateTime, nullable=False),
        sa.Index("ix_actions_stored_at", "stored_at"),
        sa.Index("ix_actions_uuid_at", "uuid", "at"),
        **TABLE,
    )
    op.create_table(
        "stays",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("host", NAME, primary_key=True),
        sa.Column("first_at", sa.DateTime, nullable=False),
        sa.Column("last_at", sa.DateTime, nullable=False),
        sa.Index("ix_stays_last_at", "last_at"),
        **TABLE,
    )
    op.create_table(
        "profiles",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("flavor", sa.String(255), nullable=False),
        sa.Column("image", sa.String(36), nullable=False),
        sa.Column("vp_class", sa.SmallInteger, nullable=False),
        sa.Column("seen_at", sa.DateTime, nullable=False),
        sa.Index("ix_profiles_seen_at", "seen_at"),
        **TABLE,
    )
