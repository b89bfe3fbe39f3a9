# SPDX-License-Identifier: Apache-2.0
"""Modes of the cloud and of aggregates, the same on SQLite, MariaDB and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from oslo_config import cfg

from nova_vp.cloud_modes import CloudModes
from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.policy import Mode
from nova_vp.db.gate import NEVER_WRITTEN
from nova_vp.db.modes import ModeStore
from nova_vp.db.overrides import OverrideStore
from nova_vp.server_override import POSSIBLE_AHEAD_MS

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
AGGREGATE = ModeLevel.AGGREGATE


@pytest.fixture
def store(database_conf: cfg.ConfigOpts) -> ModeStore:
    return ModeStore(database_conf)


def test_what_is_set_replaces_what_was_and_what_is_unset_is_gone(store: ModeStore) -> None:
    store.put(ModeLevel.CLOUD, "", Mode.ENFORCE, by="u", at=NOW)
    for name, mode in (("ssd", Mode.OBSERVE), ("SSD", Mode.ENFORCE), ("ssd", Mode.ADVISE)):
        store.put(AGGREGATE, name, mode, by="u2", at=NOW)
    modes = CloudModes(Mode.ENFORCE, {"ssd": Mode.ADVISE, "SSD": Mode.ENFORCE})
    assert store.changed_since(NEVER_WRITTEN) == (NOW_MS + 3, modes)
    [cloud, *_] = store.list_modes()
    assert cloud == (Mode.ENFORCE, ModeLevel.CLOUD, "", "u", NOW)
    store.put(ModeLevel.CLOUD, "", None, by="u", at=NOW)
    store.put(AGGREGATE, "ssd", None, by="u", at=NOW)
    assert store.changed_since(NEVER_WRITTEN) == (
        NOW_MS + 5,
        CloudModes(None, {"SSD": Mode.ENFORCE}),
    )


def test_modes_and_overrides_have_numbers_of_their_own(
    store: ModeStore, database_conf: cfg.ConfigOpts
) -> None:
    book = OverrideStore(database_conf)
    before = book.version()
    store.put(ModeLevel.CLOUD, "", Mode.ADVISE, by="u", at=NOW)
    assert book.version() == before
    store.outbid(NOW_MS + 10, NOW)
    assert store.changed_since(NEVER_WRITTEN)[0] == NOW_MS + 11
    store.outbid(NOW_MS + 2 * POSSIBLE_AHEAD_MS, NOW)
    assert store.changed_since(NEVER_WRITTEN)[0] == NOW_MS + 11, "nobody can have given that one"


def test_operators_who_set_modes_at_once_lose_no_write(store: ModeStore) -> None:
    """The last one holds, and each is news for agents."""
    before = store.changed_since(NEVER_WRITTEN).version
    asked = [(f"rack {number % 3}", mode) for number in range(6) for mode in Mode]

    def put(one: tuple[str, Mode]) -> None:
        store.put(AGGREGATE, one[0], one[1], by=one[1].value, at=NOW)
        store.put(ModeLevel.CLOUD, "", one[1], by=one[1].value, at=NOW)

    with ThreadPoolExecutor(3) as operators:
        list(operators.map(put, asked))
    version, modes = store.changed_since(NEVER_WRITTEN)
    assert version >= max(before, NOW_MS) + 2 * len(asked) - 1
    assert modes.aggregates.keys() == {name for name, _ in asked}
    assert all(one.by == one.mode.value for one in store.list_modes()), "no row is of two writes"
