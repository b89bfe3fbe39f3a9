# SPDX-License-Identifier: Apache-2.0
"""Which proposals a host makes: with its next report those that it made before are withdrawn."""

import sqlalchemy as sa

from nova_vp.db.migrations.columns import add_missing_columns

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    mark = sa.Column("proposals_mark", sa.BigInteger, nullable=False, server_default="-1")
    add_missing_columns("hosts", mark)
