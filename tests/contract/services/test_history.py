# SPDX-License-Identifier: Apache-2.0
"""What is kept of reports beside the latest: history, actions, stays, measured classes; the same on
SQLite, MariaDB and PostgreSQL.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from oslo_config import cfg
from sqlalchemy import update

from nova_vp import wire
from nova_vp.core.types.action import Action, Outcome, Result
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.sample import Sensitivity
from nova_vp.db import schema
from nova_vp.db.actions import ActionStore
from nova_vp.db.filters import ActionFilter, Span
from nova_vp.db.models import Host
from nova_vp.db.paging import Page
from nova_vp.db.read_api import ReadApi
from nova_vp.db.records import ActionRecord, ClassCount
from nova_vp.db.report_store import NewReport, ReportStore
from tests.decisions import a_decision, a_detection, a_guest, a_view, an_action, facts, uuid_of
from vp_agent.publish.report import report

NOW = datetime(2026, 11, 21, 23, 58, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


class Clock:
    """Numbers the reports of each host."""

    def __init__(self, store: ReportStore) -> None:
        self.store = store
        self.sequence = 0

    def save(self, *views: Any, host: str = "vp1", at: datetime = NOW, **bent: Any) -> None:
        self.store.save_reports([self.a_new_report(*views, host=host, at=at, **bent)])

    def propose(self, *ids: str, host: str = "vp1", store: ReportStore | None = None) -> None:
        """All that the host proposes."""
        proposals = tuple(map(an_action, ids))
        told = self.a_new_report(a_view(1), host=host, at=NOW, proposals=proposals)
        (store or self.store).save_reports([told])

    def a_new_report(
        self, *views: Any, host: str, at: datetime, proposals: tuple[Action, ...] = (), **bent: Any
    ) -> NewReport:
        self.sequence += 1
        order = wire.MessageVersion(1, self.sequence)
        message = report(a_decision(*views, proposals=proposals), facts(host), order)
        for vp in message["vps"]:
            vp.update(bent)
        text = wire.encode(wire.REPORT_TOPIC, message)
        wire.decode(wire.REPORT_TOPIC, text)
        return NewReport(host, order, "observe", at, text)


@pytest.fixture
def reports(store: ReportStore) -> Clock:
    return Clock(store)


@pytest.fixture
def browser(database_conf: cfg.ConfigOpts) -> ReadApi:
    return ReadApi(database_conf)


def states(browser: ReadApi, begin: datetime, end: datetime) -> dict[str, Any]:
    found = browser.host_history("vp1", begin, end, every=1)
    return {f"{one.at:%d %H:%M}": [vp.state for vp in one.minute.vps] for one in found}


def test_a_minute_is_read_back(reports: Clock, browser: ReadApi) -> None:
    reports.save(a_view(1, 7, detection=a_detection()), a_view(2, None, sample=None))
    (found,) = browser.host_history("vp1", NOW - MINUTE, NOW + MINUTE, every=1)
    assert found.at == NOW.replace(second=0)
    victim, idle = found.minute.vps
    assert found.minute.mode == "observe"
    assert (victim.uuid, victim.project_id, victim.state) == (uuid_of(1), "p" * 32, 7)
    assert victim.interference == Kind.CACHE.value
    assert victim.metrics["l2_mpki"] == pytest.approx(10.12, abs=0.01)
    assert victim.metrics["running_ratio"] == 1.0
    assert (idle.state, idle.interference, dict(idle.metrics)) == (None, None, {})


def test_the_last_report_of_a_minute_stands_for_it(reports: Clock, browser: ReadApi) -> None:
    for state in (1, 2, 3):
        reports.save(a_view(1, state), at=NOW + timedelta(seconds=state))
    assert states(browser, NOW - MINUTE, NOW + MINUTE) == {"21 23:58": [3]}


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (NOW, NOW + 5 * MINUTE, ["21 23:58", "21 23:59", "22 00:00", "22 00:01"]),
        (NOW + MINUTE, NOW + 3 * MINUTE, ["21 23:59", "22 00:00"]),
        (NOW + 2 * MINUTE, NOW + 5 * MINUTE, ["22 00:00", "22 00:01"]),
        (NOW, NOW + MINUTE, ["21 23:58"]),
        (NOW - DAY, NOW - MINUTE, []),
    ],
)
def test_a_range_of_time(
    reports: Clock, browser: ReadApi, begin: datetime, end: datetime, expected: list[str]
) -> None:
    for number in range(4):
        reports.save(at=NOW + number * MINUTE)
        reports.save(host="vp2", at=NOW + number * MINUTE)
    assert list(states(browser, begin, end)) == expected


def test_a_vp_is_followed_over_the_hosts_it_was_on(reports: Clock, browser: ReadApi) -> None:
    reports.save(a_view(1, 1), a_view(2, 0), host="vp1", at=NOW)
    reports.save(a_view(1, 2), host="vp2", at=NOW + MINUTE)
    reports.save(a_view(1, 3), host="vp1", at=NOW + 2 * MINUTE)
    found = browser.vp_history(uuid_of(1).upper(), NOW - MINUTE, NOW + DAY, every=1)
    assert [(one.host, one.vp.state) for one in found] == [("vp1", 1), ("vp2", 2), ("vp1", 3)]


def test_a_late_report_leaves_nothing(reports: Clock, store: ReportStore, browser: ReadApi) -> None:
    late = reports.a_new_report(a_view(1, 8), host="vp1", at=NOW)
    reports.save(a_view(1, 1), at=NOW)
    store.save_reports([late])
    assert states(browser, NOW - MINUTE, NOW + MINUTE) == {"21 23:58": [1]}
    assert {one.vp_class for one in store.count_classes()} == {1}


def test_no_history_where_none_is_wanted(database_conf: cfg.ConfigOpts, browser: ReadApi) -> None:
    store = ReportStore(database_conf, keeps_history=False)
    Clock(store).save()
    assert store.get_host("vp1") is not None
    assert browser.host_history("vp1", NOW - DAY, NOW + DAY, every=1) == []


def outcome(result: Result, id: str = "a1") -> Outcome:
    return Outcome(an_action(id), result, 9.0, "why")


def kept_actions(browser: ReadApi, **wanted: Any) -> list[ActionRecord]:
    return browser.list_actions(ActionFilter(**wanted), Page("at")).items


def test_an_action_is_kept_as_it_turned_out(reports: Clock, browser: ReadApi) -> None:
    for result in (Result.APPLIED, Result.APPLIED, Result.INEFFECTIVE):
        reports.save(a_view(1, history=(outcome(result),)), a_view(2))
    (kept,) = kept_actions(browser)
    assert (kept.host, kept.project_id) == ("vp1", "p" * 32)
    assert kept.at == datetime.fromtimestamp(1.8e9 + 9, UTC)
    assert kept.action["result"] == Result.INEFFECTIVE.value
    assert kept.action["uuid"] == uuid_of(2)


def results(browser: ReadApi, **wanted: Any) -> dict[str, str]:
    return {one.action["id"]: one.action["result"] for one in kept_actions(browser, **wanted)}


def test_who_accepted_an_action_stands_when_it_is_applied(
    reports: Clock, browser: ReadApi, database_conf: cfg.ConfigOpts
) -> None:
    reports.propose("a1", "a2")
    accepted = ActionStore(database_conf)
    accepted.note_accepted("vp1", "a1", by="user-admin")
    accepted.note_accepted("vp1", "gone", by="user-admin")
    reports.save(a_view(1, history=(Outcome(an_action("a1"), Result.APPLIED, 9.0),)))
    found = {one.action["id"]: one.accepted_by for one in kept_actions(browser)}
    assert found == {"a1": "user-admin", "a2": None}


def test_what_a_host_does_not_propose_any_more_is_withdrawn(
    reports: Clock, browser: ReadApi, database_conf: cfg.ConfigOpts
) -> None:
    reports.propose("a1", "a2")
    reports.propose("a3", host="vp2")
    reports.propose("a2")
    assert results(browser) == {"a1": "withdrawn", "a2": "proposed", "a3": "proposed"}
    assert results(browser, result="proposed") == {"a2": "proposed", "a3": "proposed"}
    assert results(browser, result="withdrawn") == {"a1": "withdrawn"}

    # By another vp-scheduler, which has seen none of it.
    reports.propose(store=ReportStore(database_conf))
    assert results(browser, host="vp1") == {"a1": "withdrawn", "a2": "withdrawn"}
    reports.propose("a2")
    assert results(browser, host="vp1") == {"a1": "withdrawn", "a2": "proposed"}


def test_a_proposal_that_was_accepted_is_not_withdrawn(reports: Clock, browser: ReadApi) -> None:
    reports.propose("a1", "a2")
    reports.save(a_view(1, history=(outcome(Result.APPLIED),)))
    assert results(browser) == {"a1": "applied", "a2": "withdrawn"}


def test_a_forgotten_host_proposes_nothing(
    reports: Clock, store: ReportStore, browser: ReadApi
) -> None:
    reports.propose("a1")
    assert store.forget_host("vp1")
    assert results(browser) == {"a1": "withdrawn"}
    reports.propose("a1")
    assert results(browser) == {"a1": "proposed"}


def test_what_an_earlier_release_left_proposed_is_withdrawn(
    reports: Clock, browser: ReadApi, database_conf: cfg.ConfigOpts
) -> None:
    reports.propose("a1")
    with schema.open_engine(database_conf).begin() as connection:
        connection.execute(update(Host).values(proposals_mark=-1))
    reports.propose()
    assert results(browser) == {"a1": "withdrawn"}


def test_actions_are_found_by_host_vp_and_time(reports: Clock, browser: ReadApi) -> None:
    reports.save(a_view(1, history=(outcome(Result.APPLIED),)), host="vp1")
    reports.save(a_view(1, history=(outcome(Result.APPLIED),)), host="VP1")
    done_at = datetime.fromtimestamp(1.8e9 + 9, UTC)

    def hosts(**wanted: Any) -> set[str]:
        return {one.host for one in kept_actions(browser, **wanted)}

    assert len(kept_actions(browser)) == 2
    assert hosts(host="VP1") == {"VP1"}
    moved, victim, bystander = uuid_of(2), uuid_of(1), uuid_of(3)
    assert hosts(uuid=moved.upper()) == hosts(uuid=victim) == {"VP1", "vp1"}
    assert hosts(uuid=bystander) == set()
    assert hosts(span=Span(begin=done_at)) == {"VP1", "vp1"}
    assert hosts(span=Span(end=done_at)) == set()


def test_every_vp_counts_once_with_its_latest_undisturbed_class(
    reports: Clock, store: ReportStore
) -> None:
    reports.save(a_view(1, 1), a_view(2, 1), a_view(3, 4), host="vp1")
    reports.save(a_view(1, 1), host="vp2")
    assert set(store.count_classes()) == {
        ClassCount("m1.small", image, vp_class, vps, projects)
        for image in ("", None)
        for vp_class, vps, projects in ((1, 2, 1), (4, 1, 0))
    }
    reports.save(a_view(1, 7, detection=a_detection()), a_view(2, None), a_view(3, 1), host="vp1")
    assert store.count_classes() == [
        ClassCount("m1.small", "", 1, 3, 1),
        ClassCount("m1.small", None, 1, 3, 1),
    ]


def test_a_cache_sensitive_pug_is_learned_as_what_foretells_it(
    reports: Clock, store: ReportStore
) -> None:
    reports.save(a_view(1, 0, sensitivity=Sensitivity(cache=True)))
    reports.save(a_view(2, 0, sensitivity=Sensitivity()), host="vp2")
    assert {one.vp_class for one in store.count_classes()} == {0, 1}


def test_what_databases_cannot_say_is_stored_all_the_same(
    reports: Clock, store: ReportStore, browser: ReadApi
) -> None:
    odd = "a\0b\ud800c\U0001f40d'\"\\%s"
    guest = a_guest(1, flavor=odd, project_id=odd)
    reports.save(a_view(1, 1, guest=guest, history=(outcome(Result.APPLIED, id=odd),)))
    assert {one.flavor for one in store.count_classes()} == {"a?b?c\U0001f40d'\"\\%s"}
    assert len(kept_actions(browser)) == 1


def test_two_stores_tell_each_other_nothing_and_agree(
    database_conf: cfg.ConfigOpts, browser: ReadApi
) -> None:
    """Two vp-schedulers get the reports of one host in turns."""
    one, other = ReportStore(database_conf), ReportStore(database_conf)
    reports = Clock(one)
    for result in (Result.APPLIED, Result.INEFFECTIVE, Result.INEFFECTIVE):
        reports.save(a_view(1, 1, history=(outcome(result),)))
        reports.store = other if reports.store is one else one
    (kept,) = kept_actions(browser)
    assert kept.action["result"] == Result.INEFFECTIVE.value


def test_forgetting_a_host_until_it_speaks_again(
    reports: Clock, store: ReportStore, browser: ReadApi
) -> None:
    reports.save(host="vp1")
    reports.save(host="vp2")
    assert store.forget_host("vp1")
    assert not store.forget_host("vp1")
    assert [head.host for head in store.list_heads()] == ["vp2"]
    assert browser.host_history("vp1", NOW - DAY, NOW + DAY, every=1) != []
    reports.save(host="vp1")
    assert store.get_host("vp1") is not None
