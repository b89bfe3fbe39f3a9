# SPDX-License-Identifier: Apache-2.0
"""What people order of servers, the same on SQLite, MariaDB and PostgreSQL."""

import contextlib
import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp import wire
from nova_vp.core.types.policy import Mode
from nova_vp.db import schema
from nova_vp.db.gate import NEVER_WRITTEN
from nova_vp.db.models import ServerOverrideRow
from nova_vp.db.overrides import ChangedMeanwhile, ChangedTooOften, OverrideStore
from nova_vp.db.purge import Before, Step, purge
from nova_vp.db.records import StoredOverride
from nova_vp.server_override import ServerOverride

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
WEB = "11111111-1111-4111-8111-111111111111"
DB = "22222222-2222-4222-8222-222222222222"
PROJECT, USER = "f" * 32, "a" * 32


@pytest.fixture
def book(database_conf: cfg.ConfigOpts) -> OverrideStore:
    return OverrideStore(database_conf)


def put(book: OverrideStore, uuid: str = WEB, now: datetime = NOW, **asked: Any) -> StoredOverride:
    overrides = {"mode": None, "opt_out": False, "priority": None, "exempt": False, **asked}
    return book.put(uuid, PROJECT, by=USER, now=now, **overrides)


def test_what_is_ordered_is_read_back(book: OverrideStore) -> None:
    assert book.get(WEB) is None
    put(book, WEB.upper(), mode=Mode.ADVISE, opt_out=True, priority=0)
    expected = StoredOverride(WEB, PROJECT, Mode.ADVISE, True, 0, False, USER, NOW, NOW_MS)
    assert book.get(WEB.upper()) == expected
    assert book.list_of([DB, WEB.upper()]) == {WEB: expected}
    assert book.version() == NOW_MS


def test_an_order_replaces_the_one_before(book: OverrideStore) -> None:
    put(book, mode=Mode.ADVISE, priority=9)
    put(book, opt_out=True)
    stands = book.get(WEB)
    assert stands is not None
    assert (stands.mode, stands.opt_out, stands.priority) == (None, True, None)


def test_so_many_changes_are_made_in_any_hour_and_the_others_do_not_count(
    book: OverrideStore,
) -> None:
    def change(minute: int, uuid: str = WEB) -> None:
        put(book, uuid, NOW + timedelta(minutes=minute), changes_per_hour=2, opt_out=True)

    change(0)
    change(30)
    with pytest.raises(ChangedTooOften) as refused:
        change(40)
    assert refused.value.wait_s == 20 * 60
    put(book, now=NOW + timedelta(minutes=41), priority=1)
    change(42, DB)
    change(60)
    with pytest.raises(ChangedTooOften) as refused:
        change(61)
    assert refused.value.wait_s == 29 * 60
    stands = book.get(WEB)
    assert stands is not None
    assert stands.at == NOW + timedelta(minutes=60), "what is refused changes nothing"


def test_an_exemption_is_stored_and_told(book: OverrideStore) -> None:
    put(book, exempt=True)
    stands = book.get(WEB)
    assert stands is not None
    assert stands.override == ServerOverride(exempt=True)
    [told] = wire.decode(wire.OVERRIDES, book.message([WEB]))["servers"]
    assert told == {"uuid": WEB, "exempt": True}


def test_what_is_taken_back_is_gone_and_told(book: OverrideStore) -> None:
    assert not book.clear(WEB, by=USER, now=NOW)
    before = put(book, opt_out=True).version
    assert book.clear(WEB, by="b", now=NOW)
    assert book.get(WEB) is None
    assert book.list_of([WEB]) == {}
    changed = book.changed_since(before)
    assert changed.version == book.version() == before + 1
    assert [(one.uuid, one.is_empty, one.by) for one in changed.overrides] == [(WEB, True, "b")]
    assert not book.clear(WEB, by=USER, now=NOW)


def test_who_decided_from_older_orders_is_refused(book: OverrideStore) -> None:
    first = put(book, priority=1, expected=NEVER_WRITTEN).version
    second = put(book, priority=2, expected=first).version
    for expected in (first, NEVER_WRITTEN):
        with pytest.raises(ChangedMeanwhile):
            put(book, priority=3, expected=expected)
        with pytest.raises(ChangedMeanwhile):
            book.clear(WEB, by=USER, now=NOW, expected=expected)
    stands = book.get(WEB)
    assert stands is not None
    assert stands.priority == 2
    assert book.clear(WEB, by=USER, now=NOW, expected=second)
    with pytest.raises(ChangedMeanwhile):
        book.clear(WEB, by=USER, now=NOW, expected=second)
    put(book, priority=4, expected=NEVER_WRITTEN)


def test_one_of_two_who_decided_from_the_same_wins(book: OverrideStore) -> None:
    stands = put(book, priority=0).version
    start, won = threading.Barrier(4), []

    def order(priority: int) -> None:
        start.wait()
        with contextlib.suppress(ChangedMeanwhile):
            won.append(put(book, priority=priority, expected=stands).priority)

    threads = [threading.Thread(target=order, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = book.get(WEB)
    assert found is not None
    assert won == [found.priority]


def test_numbers_never_repeat_and_are_seen_in_order(book: OverrideStore) -> None:
    versions = [put(book, uuid, priority=n).version for n in range(3) for uuid in (WEB, DB)]
    assert versions == list(range(NOW_MS, NOW_MS + 6))
    assert put(book, now=NOW - timedelta(days=1), priority=1).version == NOW_MS + 6
    assert put(book, now=NOW + timedelta(days=1), priority=1).version == NOW_MS + 24 * 3600_000
    everything = book.changed_since(NEVER_WRITTEN)
    assert [one.uuid for one in everything.overrides] == [DB, WEB]
    assert book.changed_since(everything.version).overrides == []


def test_a_restored_database_outbids_what_agents_have_obeyed(book: OverrideStore) -> None:
    put(book, priority=1)
    book.outbid(NOW_MS + 1000, NOW)
    assert book.version() == NOW_MS + 1001
    book.outbid(NOW_MS, NOW)
    assert book.version() == NOW_MS + 1001
    book.outbid(2**53 - 1, NOW)  # nobody gave that one
    assert book.version() == NOW_MS + 1001
    assert put(book, priority=2).version == NOW_MS + 1002


def test_the_message_names_every_server_it_was_asked_for(book: OverrideStore) -> None:
    put(book, WEB, mode=Mode.OBSERVE, priority=3)
    message = wire.decode(wire.OVERRIDES, book.message([DB, WEB.upper(), DB]))
    assert message["version"] == NOW_MS
    assert message["servers"] == [{"uuid": WEB, "mode": "observe", "priority": 3}, {"uuid": DB}]
    put(book, WEB, opt_out=True)
    message = wire.decode(wire.OVERRIDES, book.message([WEB]))
    assert message["servers"] == [{"uuid": WEB, "opt_out": True}]


def test_more_servers_than_a_query_takes(book: OverrideStore) -> None:
    many = [f"{n:08x}-1111-4111-8111-111111111111" for n in range(4096)]
    put(book, many[-1], opt_out=True)
    assert len(wire.decode(wire.OVERRIDES, book.message(many))["servers"]) == 4096
    assert list(book.list_of(many)) == [many[-1]]


def test_only_what_was_taken_back_long_ago_is_purged(
    book: OverrideStore, database_conf: cfg.ConfigOpts
) -> None:
    third = WEB.replace("1", "3")
    put(book, WEB, opt_out=True)
    put(book, DB, priority=0)
    put(book, third, mode=Mode.OBSERVE)
    for uuid, days in ((DB, 2), (third, 0)):
        assert book.clear(uuid, by=USER, now=NOW - timedelta(days=days))
    before = Before.days_ago(NOW, history_days=1, ledger_days=1, usage_days=1)
    steps = purge(schema.open_engine(database_conf), before, NOW)
    assert [step for step in steps if step.table == "vp_overrides"] == [Step("vp_overrides", 1)]
    left = book.changed_since(NEVER_WRITTEN).overrides
    assert [(one.uuid, one.is_empty) for one in left] == [(WEB, False), (third, True)]


def test_every_column_of_an_order_is_kept() -> None:
    assert ServerOverrideRow.__table__.columns.keys() == list(StoredOverride.__slots__)


def test_levels_are_kept_and_taken_back(book: OverrideStore) -> None:
    level = {"latency_target_ms": 25.0, "latency_percentile": 90.0, "max_load": 5e5}
    put(book, **level)
    stands = book.get(WEB)
    assert stands is not None
    assert stands.override == ServerOverride(**level)
    [told] = json.loads(book.message([WEB]))["servers"]
    assert told == {"uuid": WEB, **level}
    assert book.clear(WEB, by=USER, now=NOW)
    assert book.get(WEB) is None
