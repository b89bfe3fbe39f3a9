# SPDX-License-Identifier: Apache-2.0
"""Run by alembic; the connection is handed in by `nova_vp.db.schema`, never read from a file."""

from alembic import context

from nova_vp.db.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
