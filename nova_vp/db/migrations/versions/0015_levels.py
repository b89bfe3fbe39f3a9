# SPDX-License-Identifier: Apache-2.0
"""Latency targets, percentiles and largest loads that tenants set for single servers."""

import sqlalchemy as sa

from nova_vp.db.migrations.columns import add_missing_columns

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    names = ("latency_target_ms", "latency_percentile", "max_load")
    add_missing_columns("vp_overrides", *(sa.Column(name, sa.Double) for name in names))
