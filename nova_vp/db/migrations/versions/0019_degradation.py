# SPDX-License-Identifier: Apache-2.0
"""How much each server loses, and to what. Each host says it anew within a minute."""

import sqlalchemy as sa

from nova_vp.db.migrations.columns import add_missing_columns, add_missing_index

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    add_missing_columns(
        "vps",
        sa.Column("degradation", sa.SmallInteger, nullable=False, server_default="-1"),
        sa.Column("degraded_by", sa.String(32), nullable=False, server_default=""),
        sa.Column("degraded_since", sa.BigInteger, nullable=False, server_default="-1"),
        sa.Column("response", sa.String(16), nullable=False, server_default=""),
    )
    add_missing_index("ix_vps_degradation", "vps", "degradation", "uuid")
