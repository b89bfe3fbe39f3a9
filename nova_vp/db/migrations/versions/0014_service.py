# SPDX-License-Identifier: Apache-2.0
"""What servers are for and how they answer: lists tell it. Each host tells it within a minute."""

import sqlalchemy as sa

from nova_vp.db.migrations.columns import add_missing_columns

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    add_missing_columns(
        "vps",
        sa.Column("service_class", sa.String(16), nullable=False, server_default=""),
        sa.Column("latency_target_ms", sa.Double),
        sa.Column("latency_ms", sa.Double),
    )
