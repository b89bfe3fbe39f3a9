# SPDX-License-Identifier: Apache-2.0
"""What lists are read from: a row per VP, whom each action concerned, and indexes for both.

Hosts go, as each tells its own again within a minute. Older rows of other tables belong to nobody
where no column said to whom.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"

NAME = sa.String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
PROJECT = sa.String(64).with_variant(mysql.VARCHAR(64, collation="utf8mb4_bin"), "mysql", "mariadb")
LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}
INDEXES = {
    "ix_hosts_received_at": ("hosts", "received_at"),
    "ix_hosts_mode": ("hosts", "mode", "host"),
    "ix_hosts_hurt_count": ("hosts", "hurt_count", "host"),
    "ix_hosts_vps_count": ("hosts", "vps_count", "host"),
    "ix_vps_host": ("vps", "host", "uuid"),
    "ix_vps_project_id": ("vps", "project_id", "uuid"),
    "ix_vps_name": ("vps", "name", "uuid"),
    "ix_vps_state": ("vps", "state", "uuid"),
    "ix_vps_since": ("vps", "since", "uuid"),
    "ix_vps_is_hurt": ("vps", "is_hurt", "uuid"),
    "ix_actions_id": ("actions", "id"),
    "ix_actions_at": ("actions", "at"),
    "ix_actions_host_at": ("actions", "host", "at"),
    "ix_actions_result_at": ("actions", "result", "at"),
    "ix_actions_project_id_at": ("actions", "project_id", "at"),
    "ix_action_servers_uuid_at": ("action_servers", "uuid", "at"),
    "ix_action_servers_stored_at": ("action_servers", "stored_at"),
    "ix_profiles_flavor": ("profiles", "flavor", "image", "vp_class"),
    "ix_escalations_received_at": ("escalations", "received_at"),
    "ix_escalations_status": ("escalations", "status", "received_at"),
    "ix_escalations_host": ("escalations", "host", "received_at"),
    "ix_escalations_project_id": ("escalations", "project_id", "received_at"),
}


def upgrade() -> None:
    _add_columns()
    _create_tables()
    for name, (table, *columns) in INDEXES.items():
        op.create_index(name, table, columns)
    op.execute(
        "INSERT INTO action_servers (uuid, at, host, id, project_id, stored_at) "
        "SELECT uuid, at, host, id, project_id, stored_at FROM actions"
    )


def _add_columns() -> None:
    op.execute("DELETE FROM hosts")
    with op.batch_alter_table("hosts") as hosts:
        hosts.add_column(sa.Column("counters", LONG_TEXT, nullable=False))
        hosts.add_column(sa.Column("vps_count", sa.BigInteger, nullable=False))
        hosts.add_column(sa.Column("hurt_count", sa.BigInteger, nullable=False))
        hosts.add_column(sa.Column("vps_mark", sa.BigInteger, nullable=False))
    for table in ("stays", "profiles", "escalations"):
        op.add_column(table, sa.Column("project_id", PROJECT, nullable=False, server_default=""))
    victim = sa.Column("victim", sa.String(36), nullable=False, server_default="")
    op.add_column("escalations", victim)


def _create_tables() -> None:
    op.create_table(
        "vps",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("host", NAME, primary_key=True),
        sa.Column("project_id", PROJECT, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("isolation", sa.String(16), nullable=False),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("incomplete", sa.String(255), nullable=False),
        sa.Column("is_hurt", sa.SmallInteger, nullable=False),
        **TABLE,
    )
    op.create_table(
        "action_servers",
        sa.Column("host", NAME, primary_key=True),
        sa.Column("id", NAME, primary_key=True),
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("project_id", PROJECT, nullable=False),
        sa.Column("stored_at", sa.DateTime, nullable=False),
        **TABLE,
    )
