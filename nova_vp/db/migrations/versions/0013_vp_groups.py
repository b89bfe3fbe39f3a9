# SPDX-License-Identifier: Apache-2.0
"""Which servers are one VP: lists tell its state. Each host tells it anew within a minute."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0013"
down_revision = "0012"

GROUP = sa.String(64).with_variant(mysql.VARCHAR(64, collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    op.add_column("vps", sa.Column("vp_group", GROUP, nullable=False, server_default=""))
    op.create_index("ix_vps_vp_group", "vps", ["vp_group", "project_id"])
