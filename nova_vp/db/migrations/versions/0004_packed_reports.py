# SPDX-License-Identifier: Apache-2.0
"""Reports are stored compressed. Those that are there go: each host tells its own every minute."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute("DELETE FROM hosts")
    packed = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    with op.batch_alter_table("hosts") as hosts:
        hosts.drop_column("report")
        hosts.add_column(sa.Column("packed", packed, nullable=False))
