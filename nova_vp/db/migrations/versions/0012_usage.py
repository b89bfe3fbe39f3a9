# SPDX-License-Identifier: Apache-2.0
"""What servers are billed for, and where Nova said that they are."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"

TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def upgrade() -> None:
    op.create_table(
        "usage_records",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("hour", sa.DateTime, primary_key=True),
        sa.Column("host", _exact(255), primary_key=True),
        sa.Column("meter", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("attribution", sa.String(16), primary_key=True),
        sa.Column("project_id", _exact(64), nullable=False),
        sa.Column("booked_s", sa.Double, nullable=False),
        sa.Column("over_s", sa.Double, nullable=False),
        sa.Column("permit_misses", sa.Double, nullable=False),
        sa.Column("pollution_misses", sa.Double, nullable=False),
        sa.Column("sure_misses", sa.Double, nullable=False),
        sa.Column("cpu_taken_core_s", sa.Double, nullable=False),
        **TABLE,
    )
    op.create_index("ix_usage_records_hour", "usage_records", ["hour"])
    op.create_index("ix_usage_records_project_id", "usage_records", ["project_id", "uuid", "hour"])
    op.create_table(
        "server_sightings",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("host", _exact(255), primary_key=True),
        sa.Column("project_id", _exact(64), nullable=False),
        sa.Column("seen_at", sa.DateTime, nullable=False),
        **TABLE,
    )
    op.create_index("ix_server_sightings_seen_at", "server_sightings", ["seen_at"])


def _exact(length: int) -> sa.String:
    """Capital letters differ from small ones."""
    exact = mysql.VARCHAR(length, collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")
