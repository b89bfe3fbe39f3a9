# SPDX-License-Identifier: Apache-2.0
"""The registry of overlays, the same on SQLite, MariaDB and PostgreSQL."""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp.core.types.overlay import ArbitrationClass
from nova_vp.db import schema
from nova_vp.db.models import OverlayRow
from nova_vp.db.overlays import (
    InAnotherOverlay,
    Limits,
    ListedOverlay,
    Member,
    NameTaken,
    OverlayStore,
    TooManyOverlays,
    TooManyServers,
)
from nova_vp.db.overrides import OverrideStore
from nova_vp.db.paging import Page
from nova_vp.db.purge import Before, Step, purge
from nova_vp.db.report_store import NewReport, ReportStore
from nova_vp.registered_overlay import RegisteredOverlay
from nova_vp.wire import MessageVersion
from tests.messages import report_text
from tests.unit.api import cloud

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
WEB, DB, CACHE = (f"{n}1111111-1111-4111-8111-111111111111" for n in "123")
SHOP, BLOG, CHAT = (f"{n}aaaaaaa-2222-4333-8444-555555555555" for n in "123")
PROJECT, OTHER, USER = "f" * 32, "e" * 32, "a" * 32
FIELDS: Mapping[str, Any] = {
    "priority": 2,
    "arbitration": ArbitrationClass.ROUND_ROBIN,
    "target": 250.5,
    "target_unit": "requests/s",
}
WRITE: Mapping[str, Any] = {"by": USER, "now": NOW}
LIMITS = Limits(overlays=2, servers=2)


@pytest.fixture
def store(database_conf: cfg.ConfigOpts) -> OverlayStore:
    return OverlayStore(database_conf)


def create(
    store: OverlayStore,
    id: str = SHOP,
    name: str = "shop",
    *servers: str,
    project_id: str = PROJECT,
    limits: Limits = LIMITS,
) -> RegisteredOverlay:
    return store.create(id, project_id, name, servers, limits=limits, **FIELDS, **WRITE)


def test_what_is_registered_is_read_back(store: OverlayStore) -> None:
    made = create(store, SHOP, "shop", WEB.upper(), DB)
    arbitration = ArbitrationClass.ROUND_ROBIN
    about = (2, arbitration, 250.5, "requests/s", USER, NOW, NOW_MS)
    assert made == RegisteredOverlay(SHOP, PROJECT, "shop", frozenset({WEB, DB}), *about)
    assert store.get(SHOP.upper()) == made
    assert store.of_servers([DB.upper(), CACHE]) == (NOW_MS, {DB: made})
    assert store.listed(PROJECT, Page("name")).items == [ListedOverlay(PROJECT, "shop", made)]
    assert store.get(BLOG) is None
    assert store.listed(OTHER, Page("name")).items == []


def test_a_change_of_the_target_alone_leaves_the_rest(store: OverlayStore) -> None:
    before = create(store, SHOP, "shop", WEB)
    after = store.change(SHOP, **WRITE, target=None)
    assert after == before._replace(target=None, version=NOW_MS + 1)
    assert store.change(BLOG, **WRITE, target=1.0) is None


def test_names_are_of_one_overlay_in_a_project(store: OverlayStore) -> None:
    create(store)
    with pytest.raises(NameTaken):
        create(store, BLOG)
    create(store, BLOG, "Shop")
    with pytest.raises(NameTaken):
        store.change(BLOG, **WRITE, name="shop")
    assert create(store, CHAT, "shop", project_id=OTHER).name == "shop"
    renamed = store.change(SHOP, **WRITE, name="shop")
    assert renamed is not None
    assert renamed.name == "shop"


def test_a_name_is_free_again_once_its_overlay_is_deleted(store: OverlayStore) -> None:
    create(store, SHOP, "shop", WEB)
    assert store.delete(SHOP, **WRITE)
    assert not store.delete(SHOP, **WRITE)
    assert store.get(SHOP) is None
    assert create(store, BLOG, "shop", WEB).servers == {WEB}
    create(store, CHAT, BLOG)
    assert store.delete(BLOG, **WRITE), "another one may be called by its id"


def test_a_server_is_in_one_overlay_at_most(store: OverlayStore) -> None:
    create(store, SHOP, "shop", WEB)
    with pytest.raises(InAnotherOverlay) as refused:
        create(store, BLOG, "blog", DB, WEB)
    assert refused.value.servers == {WEB}
    assert store.get(BLOG) is None, "what is refused changes nothing"
    create(store, BLOG, "blog", DB)
    with pytest.raises(InAnotherOverlay):
        store.add_servers(BLOG, [WEB.upper()], most=9, **WRITE)
    store.remove_servers(SHOP, [WEB.upper()], **WRITE)
    added = store.add_servers(BLOG, [WEB, DB], most=2, **WRITE)
    assert added is not None
    assert added.servers == {WEB, DB}


def test_limits_hold(store: OverlayStore) -> None:
    with pytest.raises(TooManyServers):
        create(store, SHOP, "shop", WEB, DB, CACHE)
    create(store, SHOP, "shop", WEB, DB)
    with pytest.raises(TooManyServers):
        store.add_servers(SHOP, [CACHE], most=2, **WRITE)
    create(store, BLOG, "blog")
    with pytest.raises(TooManyOverlays):
        create(store, CHAT, "chat")
    create(store, CHAT, "chat", project_id=OTHER)
    store.delete(BLOG, **WRITE)
    create(store, BLOG[:-1] + "6", "blog")


def _created_at_once(store: OverlayStore, *servers: str) -> list[str]:
    """What came of eight who create an overlay of these servers."""
    outcomes: list[str] = []

    def attempt(number: int) -> None:
        try:
            create(store, f"{number:08x}-2222-4333-8444-555555555555", f"n{number}", *servers)
            outcomes.append("made")
        except (TooManyOverlays, InAnotherOverlay) as exc:
            outcomes.append(type(exc).__name__)

    _all_at_once([lambda number=number: attempt(number) for number in range(8)])
    return sorted(outcomes)


def test_of_many_who_want_one_server_at_once_one_gets_it(store: OverlayStore) -> None:
    assert _created_at_once(store, WEB) == ["InAnotherOverlay"] * 7 + ["made"]
    assert len(store.listed(PROJECT, Page("name")).items) == 1


def test_limits_hold_for_many_who_write_at_once(store: OverlayStore) -> None:
    assert _created_at_once(store) == ["TooManyOverlays"] * 6 + ["made"] * 2
    assert len(store.listed(PROJECT, Page("name")).items) == LIMITS.overlays


def test_limits_of_servers_hold_for_many_who_add_at_once(store: OverlayStore) -> None:
    create(store)
    refused: list[str] = []

    def attempt(server: str) -> None:
        try:
            store.add_servers(SHOP, [server], most=3, **WRITE)
        except TooManyServers:
            refused.append(server)

    many = [f"{number:08x}-1111-4111-8111-111111111111" for number in range(8)]
    _all_at_once([lambda one=one: attempt(one) for one in many])
    found = store.get(SHOP)
    assert found is not None
    assert (len(found.servers), len(refused)) == (3, 5)


def test_two_who_change_one_overlay_at_once_lose_nothing(store: OverlayStore) -> None:
    create(store)
    many = [f"{number:08x}-1111-4111-8111-111111111111" for number in range(8)]
    _all_at_once([lambda one=one: store.add_servers(SHOP, [one], most=99, **WRITE) for one in many])
    found = store.get(SHOP)
    assert found is not None
    assert found.servers == set(many)
    assert found.version == NOW_MS + 8


def _all_at_once(calls: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_whoever_reads_on_is_given_what_came_after(store: OverlayStore) -> None:
    assert store.changed_since(0) == (0, [])
    create(store, SHOP, "shop", WEB)
    first = store.changed_since(0)
    assert [one.id for one in first.overlays] == [SHOP]
    create(store, BLOG, "blog")
    store.delete(SHOP, **WRITE)
    changed = store.changed_since(first.version)
    told = {one.id: (one.is_deleted, one.servers) for one in changed.overlays}
    assert told == {SHOP: (True, frozenset()), BLOG: (False, frozenset())}
    assert store.changed_since(changed.version) == (changed.version, [])


def test_a_host_that_has_a_newer_version_is_outbid(store: OverlayStore) -> None:
    store.outbid(NOW_MS + 1000, NOW)
    assert create(store).version == NOW_MS + 1002
    store.outbid(2**53 - 1, NOW)  # nobody gave that one
    assert store.changed_since(0).version == NOW_MS + 1002


def test_overlays_and_orders_have_numbers_of_their_own(
    store: OverlayStore, database_conf: cfg.ConfigOpts
) -> None:
    overrides = OverrideStore(database_conf)
    overrides.clear(WEB, **WRITE)
    create(store)
    assert (overrides.version(), store.changed_since(0).version) == (0, NOW_MS)
    asked: dict[str, Any] = {"mode": None, "opt_out": True, "priority": None, "exempt": False}
    overrides.put(WEB, PROJECT, **asked, **WRITE)
    overrides.put(WEB, PROJECT, **asked, **WRITE)
    assert (overrides.version(), store.changed_since(0).version) == (NOW_MS + 1, NOW_MS)


def a_report_of(*vps: dict[str, Any]) -> NewReport:
    return NewReport("vp1", MessageVersion(1, 1), "observe", NOW, report_text("vp1", vps=list(vps)))


def test_lists_have_groups_beside_what_is_registered(
    store: OverlayStore, database_conf: cfg.ConfigOpts
) -> None:
    """Of a group whose servers are all in registered overlays nothing is left."""
    servers = [
        (WEB, PROJECT, "tiers"),
        (DB, PROJECT, "tiers"),
        (CACHE, PROJECT, "gone"),
        ("41111111-1111-4111-8111-111111111111", OTHER, "tiers"),
        ("51111111-1111-4111-8111-111111111111", OTHER, ""),
        ("61111111-1111-4111-8111-111111111111", "", "nobody"),
    ]
    vps = [
        cloud.a_vp(uuid=uuid, project_id=project_id, **cloud.asked(group))
        for uuid, project_id, group in servers
    ]
    ReportStore(database_conf).save_reports([a_report_of(*vps)])
    shop = create(store, SHOP, "shop", CACHE)
    tiers = ListedOverlay(PROJECT, "tiers", None)
    own = [ListedOverlay(PROJECT, "shop", shop), tiers]
    assert store.listed(PROJECT, Page("name")).items == own
    every = [ListedOverlay(OTHER, "tiers", None), *own]
    assert store.listed(None, Page("name")).items == every
    pages, marker = [], None
    while True:
        page = store.listed(None, Page("name", limit=1, marker=marker))
        pages += page.items
        if (marker := page.marker) is None:
            break
    assert pages == every


def test_servers_that_nobody_reports_are_found(
    store: OverlayStore, database_conf: cfg.ConfigOpts
) -> None:
    """New ones may not have been reported yet."""
    ReportStore(database_conf).save_reports([a_report_of(cloud.a_vp(uuid=WEB))])
    create(store, SHOP, "shop", WEB, DB)
    later = NOW + timedelta(seconds=10)
    store.add_servers(SHOP, [CACHE], most=9, by=USER, now=later)
    assert store.unseen(later, "", 9) == [Member(SHOP, PROJECT, DB)]
    later += timedelta(seconds=1)
    assert [one.server_id for one in store.unseen(later, "", 9)] == [DB, CACHE]
    assert [one.server_id for one in store.unseen(later, "", 1)] == [DB]
    assert [one.server_id for one in store.unseen(later, DB, 1)] == [CACHE]


def test_only_what_was_deleted_long_ago_is_purged(
    store: OverlayStore, database_conf: cfg.ConfigOpts
) -> None:
    for id, name in ((SHOP, "shop"), (BLOG, "blog")):
        create(store, id, name)
    create(store, CHAT, "chat", project_id=OTHER)
    for id, days in ((SHOP, 2), (BLOG, 0)):
        store.delete(id, by=USER, now=NOW - timedelta(days=days))
    before = Before.days_ago(NOW, history_days=1, ledger_days=1, usage_days=1)
    steps = purge(schema.open_engine(database_conf), before, NOW)
    assert [step for step in steps if step.table == "overlays"] == [Step("overlays", 1)]
    left = store.changed_since(0).overlays
    assert {(one.id, one.is_deleted) for one in left} == {(BLOG, True), (CHAT, False)}


def test_every_column_of_an_overlay_is_read() -> None:
    read = {*RegisteredOverlay._fields} - {"servers"}
    assert set(OverlayRow.__table__.columns.keys()) == read
