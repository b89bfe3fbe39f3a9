# SPDX-License-Identifier: Apache-2.0
"""No index for what nobody asks. Actions are found by all whom they concern: `action_servers`."""

from alembic import op

revision = "0007"
down_revision = "0006"

INDEXES = {
    "ix_actions_uuid_at": "actions",
    "ix_escalations_project_id": "escalations",
    "ix_vp_overrides_project_id": "vp_overrides",
}


def upgrade() -> None:
    for name, table in INDEXES.items():
        op.drop_index(name, table)
