# SPDX-License-Identifier: Apache-2.0
"""What servers are for and how they answer: lists tell it. Each host tells it within a minute."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column(
        "vps", sa.Column("service_class", sa.String(16), nullable=False, server_default="")
    )
    op.add_column("vps", sa.Column("latency_target_ms", sa.Double))
    op.add_column("vps", sa.Column("latency_ms", sa.Double))
