# SPDX-License-Identifier: Apache-2.0
"""What hosts say of their LLC domains and NUMA nodes. Each host says it anew within a minute."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from nova_vp.db.migrations.columns import add_missing_columns

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    add_missing_columns("hosts", sa.Column("heat", text))
