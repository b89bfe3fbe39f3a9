# SPDX-License-Identifier: Apache-2.0
"""Revisions of the schema that are run again after they failed halfway."""

import pytest
import sqlalchemy as sa
from alembic import command

from nova_vp.db import schema
from nova_vp.db.models import Base

HALFWAY = {
    ("0013", "vps"): "service_class VARCHAR(16) NOT NULL DEFAULT ''",
    ("0014", "vp_overrides"): "latency_target_ms FLOAT",
}


@pytest.mark.parametrize(
    ("revision", "table", "column"), [(*place, column) for place, column in HALFWAY.items()]
)
def test_a_revision_that_failed_after_its_first_column_is_run_again(
    revision: str, table: str, column: str, database_url: str
) -> None:
    engine = sa.create_engine(database_url)
    config = schema._config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column}"))
    schema.upgrade(engine)
    assert schema.current_revision(engine) == schema.newest_revision()
    found = {one["name"] for one in sa.inspect(engine).get_columns(table)}
    assert found == {one.name for one in Base.metadata.tables[table].columns}
    engine.dispose()


def test_tables_of_overlays_that_were_made_halfway_are_made_again(database_url: str) -> None:
    engine = sa.create_engine(database_url)
    config = schema._config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0015")
        connection.execute(sa.text("CREATE TABLE overlays (id VARCHAR(36))"))
    schema.upgrade(engine)
    assert schema.current_revision(engine) == schema.newest_revision()
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT id, version FROM vp_version_gate WHERE id = 2"))
        assert [tuple(row) for row in rows] == [(2, 0)]
    engine.dispose()
