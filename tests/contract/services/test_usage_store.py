# SPDX-License-Identifier: Apache-2.0
"""What servers are billed for, the same on SQLite, MariaDB and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp.core.types.usage import Usage
from nova_vp.db import schema
from nova_vp.db.filters import Span, UsageFilter
from nova_vp.db.paging import BadMarker, Page
from nova_vp.db.purge import Before, purge
from nova_vp.db.usage import ServerUsage, Sighting, UsageRecord, UsageStore
from tests.messages import AGGRESSOR, VICTIM

NOON = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
BY_SERVER = Page("server_id")
ONE = Usage("plain", 10.0, 4.0, 9e6, 2e7, 1e7, 2.5)
TWICE = Usage("plain", 20.0, 8.0, 18e6, 4e7, 2e7, 5.0)


@pytest.fixture
def store(database_conf: cfg.ConfigOpts) -> UsageStore:
    return UsageStore(database_conf)


def a_record(used: Usage = ONE, hour: datetime = NOON, **fields: Any) -> UsageRecord:
    values = {"meter": 7, "uuid": VICTIM, "project_id": "p1", **fields}
    return UsageRecord(hour=hour, used=used, **values)


def listed(store: UsageStore, page: Page = BY_SERVER, **wanted: Any) -> list[ServerUsage]:
    return store.list_usage(UsageFilter(**wanted), page).items


def test_what_was_added_is_listed(store: UsageStore) -> None:
    store.add("vp1", [a_record()])
    [found] = listed(store)
    assert (found.uuid, found.project_id, found.hosts) == (VICTIM, "p1", ("vp1",))
    assert found.total[1:] == ONE[1:]
    assert found.pollution == {"plain": 2e7}


def test_a_message_that_comes_again_changes_nothing(store: UsageStore) -> None:
    for _ in range(3):
        store.add("vp1", [a_record()])
    [found] = listed(store)
    assert found.total[1:] == ONE[1:]


def test_of_a_record_the_largest_amounts_stand(store: UsageStore) -> None:
    store.add("vp1", [a_record(TWICE)])
    store.add("vp1", [a_record(ONE)])
    [found] = listed(store)
    assert found.total[1:] == TWICE[1:]


def test_hosts_hours_meters_and_attributions_add_up(store: UsageStore) -> None:
    store.add("vp1", [a_record(), a_record(hour=NOON + HOUR), a_record(meter=8)])
    store.add("vp1", [a_record(ONE._replace(attribution="estimate"))])
    store.add("vp2", [a_record()])
    [found] = listed(store)
    assert found.hosts == ("vp1", "vp2")
    assert found.total.booked_s == 50.0
    assert found.pollution == {"plain": 8e7, "estimate": 2e7}


def test_servers_that_add_at_once(store: UsageStore) -> None:
    records = [a_record(uuid=f"{number:08x}-{VICTIM[9:]}") for number in range(50)]

    def add(number: int) -> None:
        store.add("vp1", records if number % 2 else records[::-1])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))
    assert [one.total.booked_s for one in listed(store)] == [10.0] * 50


def test_large_amounts_are_kept_exactly(store: UsageStore) -> None:
    large = Usage("plain", 3599.123456789, 0.1, 1e18, 123456789012345.0, 2.0**52 + 1, 1e-9)
    store.add("vp1", [a_record(large)])
    assert listed(store)[0].total[1:] == large[1:]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [(VICTIM, 20.0), (AGGRESSOR, 10.0)]),
        ({"project_id": "p1"}, [(VICTIM, 20.0)]),
        ({"project_id": "P1"}, []),
        ({"project_id": "nobody"}, []),
        ({"uuid": AGGRESSOR}, [(AGGRESSOR, 10.0)]),
        ({"span": Span(NOON + HOUR, None)}, [(VICTIM, 10.0)]),
        ({"span": Span(None, NOON + HOUR)}, [(VICTIM, 10.0), (AGGRESSOR, 10.0)]),
        ({"span": Span(NOON, NOON)}, []),
        ({"span": Span(NOON + HOUR, NOON + 2 * HOUR), "project_id": "p2"}, []),
    ],
)
def test_it_is_filtered(
    store: UsageStore, wanted: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    store.add("vp1", [a_record(), a_record(hour=NOON + HOUR)])
    store.add("vp2", [a_record(uuid=AGGRESSOR, project_id="p2")])
    assert [(one.uuid, one.total.booked_s) for one in listed(store, **wanted)] == expected


@pytest.mark.parametrize("key", ["server_id", "project_id"])
@pytest.mark.parametrize("is_descending", [False, True])
def test_it_is_read_in_pages(store: UsageStore, key: str, is_descending: bool) -> None:
    records = [
        a_record(uuid=f"{number:08x}-{VICTIM[9:]}", project_id=f"p{number % 3}", hour=NOON + hour)
        for number in range(7)
        for hour in (timedelta(0), HOUR)
    ]
    store.add("vp1", records)
    whole = listed(store, Page(key, is_descending))
    assert len(whole) == 7
    keys = {"server_id": lambda one: one.uuid, "project_id": lambda one: (one.project_id, one.uuid)}
    assert whole == sorted(whole, key=keys[key], reverse=is_descending)
    found, marker = [], None
    while True:
        page = store.list_usage(UsageFilter(), Page(key, is_descending, 2, marker))
        found += page.items
        if (marker := page.marker) is None:
            break
    assert found == whole
    assert all(one.total.booked_s == 20.0 for one in found)


def test_a_marker_of_nobodys(store: UsageStore) -> None:
    with pytest.raises(BadMarker):
        store.list_usage(UsageFilter(), Page("server_id", marker="x"))


def test_sightings(store: UsageStore) -> None:
    first = Sighting(VICTIM, "p1", NOON)
    store.note_sightings("vp1", [first, Sighting(AGGRESSOR, "p2", NOON)])
    store.note_sightings("vp2", [Sighting(VICTIM, "p1", NOON + HOUR)])
    assert store.sightings("vp1", [VICTIM.upper()]) == {VICTIM: first}
    assert store.sightings("vp1", []) == {}
    later = Sighting(AGGRESSOR, "p3", NOON + HOUR)
    store.note_sightings("vp1", [later])
    assert store.sightings("vp1", [VICTIM, AGGRESSOR]) == {VICTIM: first, AGGRESSOR: later}


def test_what_is_too_old_is_purged(store: UsageStore, database_conf: cfg.ConfigOpts) -> None:
    hours = [NOON - days * 24 * HOUR for days in (0, 399, 401)]
    store.add("vp1", [a_record(hour=hour) for hour in hours])
    store.note_sightings("vp1", [Sighting(VICTIM, "p1", hours[2])])
    before = Before.days_ago(NOON, history_days=0, ledger_days=1, usage_days=400)
    steps = list(purge(schema.open_engine(database_conf), before, NOON))
    assert ("usage_records", 1) in steps
    assert ("server_sightings", 1) in steps
    assert listed(store)[0].total.booked_s == 20.0
    assert store.sightings("vp1", [VICTIM]) == {}
