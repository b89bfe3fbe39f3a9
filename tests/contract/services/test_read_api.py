# SPDX-License-Identifier: Apache-2.0
"""What vp-api reads in pages: the same on SQLite, MariaDB and PostgreSQL, and on MariaDB never by
reading a whole table.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp import wire
from nova_vp.db import schema, statements
from nova_vp.db.filters import ActionFilter, HostFilter, Span, VpFilter
from nova_vp.db.paging import BadMarker, Listed, Page
from nova_vp.db.read_api import ReadApi
from nova_vp.db.report_store import NewReport, ReportStore
from tests import stored_cloud
from tests.plans import asked, count_rows, whole_reads
from tests.unit.api import cloud

NOW = cloud.NOW.astimezone(UTC)
HOUR = timedelta(hours=1)
HOSTS, VPS = 12, 5


def a_report(host: int, at: datetime, number: int, **changes: Any) -> NewReport:
    vps = [
        cloud.a_vp(
            uuid=f"00000000-0000-4000-8000-{host:06d}{vp:06d}",
            name=f"Vp{(host * 7 + vp) % 11}",
            project_id=f"project-{host % 3}",
            state=vp,
            since=cloud.NOW_S - host,
            flavor=f"flavor-{vp}",
            actions=[cloud.an_action(id=f"{host}-{vp}", at=cloud.NOW_S - host)],
        )
        for vp in range(VPS)
    ]
    name = f"host-{host:03d}"
    report = cloud.a_report(name, **{"vps": vps, **changes})
    return NewReport(name, wire.MessageVersion(7, number), report["mode"], at, json.dumps(report))


@pytest.fixture
def filled(store: ReportStore) -> ReportStore:
    for minute in (0, 1):
        at = NOW + minute * timedelta(minutes=1)
        store.save_reports([a_report(host, at, minute + 1) for host in range(HOSTS)])
    return store


@pytest.fixture
def browser(database_conf: cfg.ConfigOpts, filled: ReportStore) -> ReadApi:
    return ReadApi(database_conf)


def whole(read: Any, key: str, limit: int, is_descending: bool) -> list[Any]:
    found: list[Any] = []
    marker = None
    for _ in range(HOSTS * VPS):
        page: Listed[Any] = read(Page(key, is_descending, limit, marker))
        found += page.items
        if (marker := page.marker) is None:
            return found
    pytest.fail("the list does not end")


def test_every_sorting_of_servers_and_hosts_in_pages(browser: ReadApi) -> None:
    for key in statements.VPS.sorts:
        for way in (False, True):
            found = whole(lambda page: browser.list_vps(VpFilter(), page), key, 13, way)
            assert len({vp.uuid for vp in found}) == len(found) == HOSTS * VPS
            name = {"server_id": "uuid"}.get(key, key)
            told = [(getattr(vp, name), vp.uuid) for vp in found]
            assert told == sorted(told, reverse=way)
    for key in statements.HOSTS.sorts:
        found = whole(lambda page: browser.list_hosts(HostFilter(), page), key, 5, False)
        assert len({host.host for host in found}) == HOSTS


def test_what_changed_is_shown_and_what_left_is_gone(browser: ReadApi, store: ReportStore) -> None:
    at = NOW + 2 * timedelta(minutes=1)
    left = cloud.a_vp(uuid=f"00000000-0000-4000-8000-{3:06d}{0:06d}", name="renamed", state=8)
    store.save_reports([a_report(3, at, 9, vps=[left])])
    found = browser.list_vps(VpFilter(host="host-003"), Page("name"))
    assert [(vp.name, vp.state, vp.received_at) for vp in found.items] == [("renamed", 8, at)]
    store.save_reports([a_report(4, at + HOUR, 9, vps=[left])])
    # Two hosts claim it: it is where it was heard last.
    both = browser.list_vps(VpFilter(name="renamed"), Page("name"))
    assert [vp.host for vp in both.items] == ["host-004"]
    record = browser.find_vp(left["uuid"].upper())
    assert record is not None
    assert record.host == "host-004"
    store.forget_host("host-004")
    assert [vp.host for vp in browser.list_vps(VpFilter(name="renamed"), Page("name")).items] == [
        "host-003"
    ]


def test_a_server_that_two_hosts_name_is_called_as_the_one_heard_last_says(
    browser: ReadApi, store: ReportStore
) -> None:
    uuid = f"00000000-0000-4000-8000-{3:06d}{0:06d}"
    for number, (host, name) in enumerate([(4, "first"), (3, "second"), (4, "third")]):
        at = NOW + (2 + number) * timedelta(minutes=1)
        vps = [cloud.a_vp(uuid=uuid, name=name)]
        store.save_reports([a_report(host, at, 10 + number, vps=vps)])
        assert browser.names_of([uuid.upper()]) == {uuid: name}


def test_the_servers_of_a_group_are_found_on_every_host(
    browser: ReadApi, store: ReportStore
) -> None:
    at = NOW + 2 * timedelta(minutes=1)

    def a_member(number: int, group: str, project_id: str = "mine") -> dict[str, Any]:
        uuid = f"00000000-0000-4000-8000-{number:012d}"
        return cloud.a_vp(uuid=uuid, project_id=project_id, **cloud.asked(group))

    placed = {
        3: [a_member(1, "shop"), a_member(2, "Shop"), a_member(3, ""), a_member(5, "bank", "Mine")],
        4: [a_member(4, "shop"), a_member(1, "shop"), a_member(6, "bank", "theirs")],
    }
    for host, vps in placed.items():
        store.save_reports([a_report(host, at + host * HOUR, 9, vps=vps)])
    found = browser.members_of({("mine", "shop"), ("theirs", "bank"), ("mine", "none")})
    members = [(int(head.uuid[-4:]), head.group, head.host) for head in found]
    # The first is where it was heard last.
    assert members == [(1, "shop", "host-004"), (4, "shop", "host-004"), (6, "bank", "host-004")]
    assert browser.members_of(set()) == []
    left = cloud.a_vp(uuid=found[1].uuid, project_id="mine", **cloud.asked("bank"))
    store.save_reports([a_report(4, at + 5 * HOUR, 10, vps=[left])])
    assert [head.host for head in browser.members_of({("mine", "shop")})] == ["host-003"]


def test_hosts_are_read_by_name(browser: ReadApi) -> None:
    found = browser.get_hosts(["host-003", "host-001", "nobody"])
    assert sorted(record.host for record in found) == ["host-001", "host-003"]
    assert browser.get_hosts([]) == []


def test_a_report_from_elsewhere_in_between_changes_nothing_for_good(
    browser: ReadApi, store: ReportStore, database_conf: cfg.ConfigOpts
) -> None:
    """Another vp-scheduler stored a report that this one has not seen."""
    other = ReportStore(database_conf)
    states = []
    for number, (writer, state) in enumerate([(store, 1), (other, 2), (store, 1), (other, 2)]):
        vps = [cloud.a_vp(state=state)]
        writer.save_reports([a_report(0, NOW + HOUR, 10 + number, vps=vps)])
        found = browser.list_vps(VpFilter(host="host-000"), Page("name"))
        states += [vp.state for vp in found.items]
    assert states == [1, 2, 1, 2]


def test_markers_of_another_sorting(browser: ReadApi) -> None:
    marker = browser.list_vps(VpFilter(), Page("since", limit=1)).marker
    with pytest.raises(BadMarker):
        browser.list_vps(VpFilter(), Page("name", limit=1, marker=marker))


SIZE = stored_cloud.Size(hosts=150, vps_per_host=10, minutes=3)
"""MariaDB reads small tables whole, whatever indexes they have: here are enough rows to matter."""


def ask_everything(browser: ReadApi) -> None:
    host, uuid = stored_cloud.host_name(3), stored_cloud.server_id(3, 1)
    project_id = stored_cloud.project_id(SIZE, 3, 1)
    ask_in_pages(browser)
    browser.reach()
    for wanted in (
        VpFilter(project_id=project_id),
        VpFilter(host=host),
        VpFilter(name="server-000001"),
        VpFilter(is_hurt=True, heard_since=NOW),
    ):
        browser.list_vps(wanted, Page("server_id", limit=10))
    browser.list_hosts(HostFilter(mode="enforce"), Page("name", limit=10))
    browser.count_hosts(HostFilter(mode="enforce"))
    browser.count_hosts(HostFilter(not_heard_since=NOW - HOUR))
    browser.find_vp(uuid)
    browser.members_of({(project_id, "shop"), (project_id, "bank")})
    browser.get_hosts([host, stored_cloud.host_name(4)])
    browser.host_history(host, NOW - 23 * HOUR, NOW + HOUR, 15)
    browser.vp_history(uuid, NOW - 23 * HOUR, NOW + HOUR, 15)
    browser.vp_actions(uuid, project_id, Span(), 0, 10)
    browser.find_actions("mitigate-00003-001", None)
    browser.names_of([uuid])
    browser.owners_of(uuid)
    browser.list_profiles("m1.1", None, Page("flavor", limit=10))


def ask_in_pages(browser: ReadApi) -> None:
    """The first page, and one in the middle of the other way round."""
    for key in statements.VPS.sorts:
        marker = browser.list_vps(VpFilter(), Page(key, limit=10)).marker
        browser.list_vps(VpFilter(), Page(key, True, 10, marker))
    for key in statements.HOSTS.sorts:
        marker = browser.list_hosts(HostFilter(), Page(key, limit=10)).marker
        browser.list_hosts(HostFilter(), Page(key, True, 10, marker))
    for wanted in (
        ActionFilter(span=Span(NOW - 24 * HOUR, NOW + HOUR)),
        ActionFilter(host=stored_cloud.host_name(3)),
        ActionFilter(uuid=stored_cloud.server_id(3, 1)),
        ActionFilter(result="mended"),
        ActionFilter(project_id=stored_cloud.project_id(SIZE, 3, 1)),
    ):
        marker = browser.list_actions(wanted, Page("at", True, 5)).marker
        browser.list_actions(wanted, Page("at", True, 5, marker))


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_no_question_reads_a_whole_table(database_conf: cfg.ConfigOpts) -> None:
    engine = schema.open_engine(database_conf)
    stored_cloud.fill(engine, SIZE, NOW)
    count_rows(engine)
    with asked() as told:
        ask_everything(ReadApi(database_conf))
    assert len(told) > 40
    assert whole_reads(engine, told) == []
