# SPDX-License-Identifier: Apache-2.0
"""Latency targets, percentiles and largest loads that tenants set for single servers."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    for name in ("latency_target_ms", "latency_percentile", "max_load"):
        op.add_column("vp_orders", sa.Column(name, sa.Double))
