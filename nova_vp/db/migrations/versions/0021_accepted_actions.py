# SPDX-License-Identifier: Apache-2.0
"""Who accepted an action. Of those accepted before, nobody wrote it down."""

import sqlalchemy as sa

from nova_vp.db.migrations.columns import add_missing_columns

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    add_missing_columns("actions", sa.Column("accepted_by", sa.String(255)))
