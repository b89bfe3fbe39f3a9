# SPDX-License-Identifier: Apache-2.0
"""Who accepted an escalation's proposal. Of those accepted before, nobody wrote it down."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("escalations", sa.Column("accepted_by", sa.String(255)))
