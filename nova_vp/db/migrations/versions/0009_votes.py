# SPDX-License-Identifier: Apache-2.0
"""Profiles are counted by project and of running VPs: their index names both."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.drop_index("ix_profiles_flavor", "profiles")
    columns = ["flavor", "image", "project_id", "vp_class", "uuid"]
    op.create_index("ix_profiles_flavor", "profiles", columns)
