# SPDX-License-Identifier: Apache-2.0
"""The ledger of escalations, the same on SQLite, MariaDB and PostgreSQL."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp.db import escalations
from nova_vp.db.escalations import (
    DAY,
    MOST_DELAY,
    Budgets,
    Ledger,
    LostClaim,
    NotProposed,
    Waiting,
)
from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import FINAL, NEXT, Status
from tests.messages import VICTIM, a_candidate, escalation_text

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
LATER = NOON + DAY + timedelta(minutes=1)
AMPLE = Budgets(
    running=9,
    running_per_host=9,
    per_host_hour=9,
    per_vp_day=9,
    per_victim_day=9,
    per_project_day=9,
    hold=timedelta(hours=1),
)


@pytest.fixture
def ledger(database_conf: cfg.ConfigOpts) -> Ledger:
    return Ledger(database_conf)


def an_id(number: int) -> str:
    return f"{number:08d}-0000-5000-8000-000000000000"


def add(ledger: Ledger, number: int = 1, host: str = "vp1") -> str:
    assert ledger.add(an_id(number), host, "{}", NOON + timedelta(seconds=number))
    return an_id(number)


def claimed(ledger: Ledger, id: str, owner: str = "w1") -> Escalation:
    row = next(row for row in ledger.list_waiting(LATER) if row.id == id)
    found = ledger.claim(row, owner)
    assert found is not None
    return found


def an_attempt(server: str = "s1", host: str = "vp1", at: datetime = NOON) -> Attempt:
    return Attempt(
        attempt=1,
        server=server,
        name="db",
        project_id="p1",
        role="victim",
        memory_kib=1 << 40,
        timeout_s=300,
        source_host=host,
        status=Status.PREPARING,
        started_at=at,
    )


def begin(ledger: Ledger, id: str, attempt: Attempt, budgets: Budgets = AMPLE) -> Escalation | str:
    found = claimed(ledger, id)
    again = replace(attempt, attempt=len(found.attempts) + 1)
    return ledger.begin(found, again, {"reason": "because"}, budgets)


def check_begun(begun: Escalation | str, words: str, label: str) -> None:
    """Refused with these words; without any: it began."""
    if words:
        assert isinstance(begun, str), label
        assert words in begun, label
    else:
        assert isinstance(begun, Escalation), (label, begun)


def run_to_end(
    ledger: Ledger, begun: Escalation, asked_at: datetime | None, status: Status
) -> None:
    found = ledger.save(
        begun,
        {"status": Status.REQUESTING},
        {"status": Status.REQUESTING, "requested_at": asked_at},
    )
    if status is not Status.REQUESTING:
        found = ledger.save(found, {"status": Status.MIGRATING}, {"status": Status.MIGRATING})
    ledger.save(found, {"status": status}, {"status": status, "ended_at": asked_at})


def test_the_same_id_twice_is_one_escalation(ledger: Ledger) -> None:
    id = add(ledger)
    assert not ledger.add(id, "vp1", '{"another": "text"}', NOON)
    found = ledger.get(id)
    assert found is not None
    assert (found.status, found.message, found.host) == (Status.RECEIVED, "{}", "vp1")
    assert found.received_at == NOON + timedelta(seconds=1)
    assert ledger.get(an_id(2)) is None


def test_moments_lose_their_fractions_and_are_never_later_than_they_were(ledger: Ledger) -> None:
    assert ledger.add(an_id(1), "vp1", "{}", NOON + timedelta(milliseconds=900))
    found = ledger.get(an_id(1))
    assert found is not None
    assert found.received_at == NOON


def test_hosts_differ_by_case(ledger: Ledger) -> None:
    add(ledger, 1, "VP1")
    found = ledger.get(an_id(1))
    assert found is not None
    assert found.host == "VP1"


ODD = "a\0b\ud800"
"""What JSON can say, and databases refuse."""


def test_what_no_column_takes_keeps_no_worker_busy_for_ever(ledger: Ledger) -> None:
    victim = a_candidate(VICTIM.upper(), project_id=ODD, name=ODD)
    text = escalation_text(an_id(1), "vp1", victim)
    assert ledger.add(an_id(1), "vp1", text, NOON)
    attempt = replace(an_attempt(), name=ODD, project_id=ODD)
    begun = begin(ledger, an_id(1), attempt)
    assert isinstance(begun, Escalation)
    saved = ledger.save(begun, {"reason": ODD}, {"detail": ODD})
    assert (saved.project_id, saved.reason, saved.latest.name) == ("a?b?",) * 3
    assert saved.latest.detail == "a?b?"


def test_a_claim_is_given_once(ledger: Ledger) -> None:
    add(ledger)
    [row] = ledger.list_waiting(NOON)
    first = ledger.claim(row, "w1")
    assert first is not None
    assert ledger.claim(row, "w2") is None
    assert ledger.list_waiting(NOON) == [Waiting(an_id(1), "w1", first.version)]


def test_who_lost_the_claim_writes_nothing(ledger: Ledger) -> None:
    id = add(ledger)
    slow, fast = claimed(ledger, id, "w1"), claimed(ledger, id, "w2")
    with pytest.raises(LostClaim):
        ledger.save(slow, {"reason": "mine"})
    with pytest.raises(LostClaim):
        ledger.begin(slow, an_attempt(), {}, AMPLE)
    saved = ledger.save(fast, {"reason": "theirs"})
    assert (saved.reason, saved.attempts) == ("theirs", ())


def test_an_attempt_is_kept_with_its_moments(ledger: Ledger) -> None:
    begun = begin(ledger, add(ledger), an_attempt())
    assert isinstance(begun, Escalation)
    assert (begun.status, begun.reason) == (Status.PREPARING, "because")
    assert begun.attempts == (an_attempt(),)
    saved = ledger.save(begun, {}, {"nova_id": 7, "dest_host": "vp2", "told_at": NOON})
    assert saved.latest == replace(an_attempt(), nova_id=7, dest_host="vp2", told_at=NOON)
    assert ledger.get(saved.id) == saved


def test_an_earlier_attempt_can_be_told(ledger: Ledger) -> None:
    begun = begin(ledger, add(ledger), an_attempt())
    assert isinstance(begun, Escalation)
    ended = {"status": Status.FAILED, "ended_at": NOON}
    ledger.save(begun, {"status": Status.RECEIVED, "owner": None}, ended)
    second = begin(ledger, begun.id, an_attempt("s2"))
    assert isinstance(second, Escalation)
    told = ledger.save(second, {}, {"told_at": NOON}, 1)
    assert [a.told_at for a in told.attempts] == [NOON, None]


@pytest.mark.parametrize(
    ("before", "after"),
    [(Status.COMPLETED, Status.PREPARING), (Status.RECEIVED, Status.MIGRATING)],
)
def test_what_cannot_follow_is_refused(ledger: Ledger, before: Status, after: Status) -> None:
    found = replace(claimed(ledger, add(ledger)), status=before)
    with pytest.raises(ValueError, match=f"that is {before.value} cannot become {after.value}"):
        ledger.save(found, {"status": after})


def test_every_state_leads_to_an_end() -> None:
    def ends(status: Status, seen: frozenset[Status]) -> bool:
        after = NEXT.get(status, frozenset()) - seen
        return status in FINAL or any(ends(one, seen | {status}) for one in after)

    assert all(ends(status, frozenset()) for status in Status)


def test_what_is_settled_or_proposed_needs_no_worker(ledger: Ledger) -> None:
    settled, proposed, waiting = (claimed(ledger, add(ledger, n)) for n in (1, 2, 3))
    ledger.save(settled, {"status": Status.OBSERVED, "settled_at": NOON})
    ledger.save(proposed, {"status": Status.PROPOSED})
    ledger.save(waiting, {"not_before": NOON, "owner": None})
    assert [(row.id, row.owner) for row in ledger.list_waiting(NOON)] == [(an_id(3), None)]


@pytest.mark.parametrize(
    ("label", "not_before", "is_listed"),
    [
        ("at once", None, True),
        ("now", NOON, True),
        ("later", NOON + timedelta(seconds=1), False),
        ("by a clock that is ahead", NOON + MOST_DELAY + timedelta(seconds=1), True),
    ],
)
def test_what_is_due_is_listed(
    ledger: Ledger, label: str, not_before: datetime | None, is_listed: bool
) -> None:
    ledger.save(claimed(ledger, add(ledger)), {"not_before": not_before, "owner": None})
    assert bool(ledger.list_waiting(NOON)) is is_listed, label


def test_the_many_of_one_host_keep_none_of_others_from_being_listed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(escalations, "LISTED", 4)
    for number in range(1, 6):
        add(ledger, number, "vp1")
    for number in (6, 7):
        add(ledger, number, "vp2")
    expected = [an_id(number) for number in (1, 6, 2, 7)]
    assert [row.id for row in ledger.list_waiting(NOON)] == expected


@pytest.mark.parametrize(
    ("label", "owner", "is_postponed"),
    [("free", None, True), ("ours", "w1", True), ("b", "w2", False)],
)
def test_only_a_claim_of_ones_own_is_postponed(
    ledger: Ledger, label: str, owner: str | None, is_postponed: bool
) -> None:
    """Whatever is in the row, as a status of a later release."""
    id = add(ledger)
    ledger.save(claimed(ledger, id), {"owner": owner, "reason": "before"})
    ledger.postpone(id, "w1", NOON + timedelta(seconds=5))
    assert bool(ledger.list_waiting(NOON)) is not is_postponed, label
    [row] = ledger.list_waiting(NOON + timedelta(seconds=5))
    assert row.owner == (None if is_postponed else owner)


def test_a_proposal_is_accepted_once(ledger: Ledger) -> None:
    id = add(ledger)
    with pytest.raises(NotProposed, match="is received"):
        ledger.accept(id, by="u1", now=NOON)
    ledger.save(claimed(ledger, id), {"status": Status.PROPOSED, "owner": None})
    ledger.accept(id, by="u1", now=NOON)
    found = ledger.get(id)
    assert found is not None
    assert (found.status, found.accepted_at) == (Status.RECEIVED, NOON)
    with pytest.raises(NotProposed):
        ledger.accept(id, by="u2", now=NOON)
    with pytest.raises(KeyError):
        ledger.accept(an_id(9), by="u2", now=NOON)


def test_who_accepted_it_is_kept(ledger: Ledger) -> None:
    id = add(ledger)
    assert claimed(ledger, id).accepted_by is None
    ledger.save(claimed(ledger, id), {"status": Status.PROPOSED, "owner": None})
    ledger.accept(id, by="a\0b", now=NOON)
    with pytest.raises(NotProposed):
        ledger.accept(id, by="somebody-later", now=NOON)
    found = ledger.get(id)
    assert found is not None
    assert found.accepted_by == "a?b"


@pytest.mark.parametrize(
    ("label", "budgets", "attempt", "words"),
    [
        ("the same guest", AMPLE, an_attempt("s1", "vp2"), "for another escalation"),
        ("cloud", replace(AMPLE, running=1), an_attempt("s2", "vp2"), "in the cloud already"),
        ("host", replace(AMPLE, running_per_host=1), an_attempt("s2"), "on this host already"),
        (
            "where another arrives",
            replace(AMPLE, running_per_host=1),
            an_attempt("s2", "vp9"),
            "on this host already",
        ),
        ("room is left", AMPLE, an_attempt("s2"), ""),
    ],
)
def test_budgets_of_what_runs(
    ledger: Ledger, label: str, budgets: Budgets, attempt: Attempt, words: str
) -> None:
    begun = begin(ledger, add(ledger, 1), an_attempt())
    assert isinstance(begun, Escalation)
    ledger.save(begun, {}, {"dest_host": "vp9"})
    second = begin(ledger, add(ledger, 2), attempt, budgets)
    check_begun(second, words, label)
    if words:
        found = ledger.get(an_id(2))
        assert found is not None
        assert (found.status, found.attempts) == (Status.RECEIVED, ())


@pytest.mark.parametrize(
    ("label", "budgets", "attempt", "words"),
    [
        (
            "within the hold",
            AMPLE,
            an_attempt(at=NOON + timedelta(minutes=59)),
            "migrated too recently",
        ),
        ("after the hold", AMPLE, an_attempt(at=NOON + timedelta(minutes=61)), ""),
        (
            "a day's migrations",
            replace(AMPLE, per_vp_day=1),
            an_attempt(at=NOON + timedelta(hours=23)),
            "its 1 migrations per day",
        ),
        (
            "an hour's migrations",
            replace(AMPLE, per_host_hour=1),
            an_attempt("s2", at=NOON + timedelta(minutes=59)),
            "its 1 migrations of an hour",
        ),
    ],
)
def test_budgets_of_what_was(
    ledger: Ledger, label: str, budgets: Budgets, attempt: Attempt, words: str
) -> None:
    begun = begin(ledger, add(ledger, 1), an_attempt())
    assert isinstance(begun, Escalation)
    run_to_end(ledger, begun, NOON, Status.COMPLETED)
    second = begin(ledger, add(ledger, 2), attempt, budgets)
    check_begun(second, words, label)


def add_for(ledger: Ledger, number: int, victim: str, project_id: str) -> str:
    text = escalation_text(an_id(number), "vp1", a_candidate(victim, project_id=project_id))
    told = {**json.loads(text), "victim": victim}
    assert ledger.add(an_id(number), "vp1", json.dumps(told), NOON)
    return an_id(number)


@pytest.mark.parametrize(
    ("label", "budgets", "victim", "project_id", "at", "words"),
    [
        ("one more", AMPLE, "v1", "p1", NOON, ""),
        ("a victim's day", replace(AMPLE, per_victim_day=1), "v1", "p1", NOON, "its victim"),
        ("another victim", replace(AMPLE, per_victim_day=1), "v2", "p1", NOON, ""),
        ("a day later", replace(AMPLE, per_victim_day=1), "v1", "p1", LATER, ""),
        ("a project's day", replace(AMPLE, per_project_day=1), "v2", "p1", NOON, "the project"),
        ("another project", replace(AMPLE, per_project_day=1), "v2", "p2", NOON, ""),
        ("its day later", replace(AMPLE, per_project_day=1), "v2", "p1", LATER, ""),
    ],
)
@pytest.mark.parametrize("is_over", [True, False])
def test_victims_and_their_projects_have_so_many_migrations_a_day(
    ledger: Ledger,
    is_over: bool,
    label: str,
    budgets: Budgets,
    victim: str,
    project_id: str,
    at: datetime,
    words: str,
) -> None:
    """Whoever is moved for them, and while Nova was not asked yet."""
    begun = begin(ledger, add_for(ledger, 1, "v1", "p1"), an_attempt("s1", "vp1"))
    assert isinstance(begun, Escalation)
    if is_over:
        run_to_end(ledger, begun, NOON, Status.COMPLETED)
    elif at > NOON and not words:
        words = "victim"  # It runs still.
    attempt = an_attempt("s2", "vp2", at=at)
    second = begin(ledger, add_for(ledger, 2, victim, project_id), attempt, budgets)
    check_begun(second, words, label)


def test_what_nova_was_never_asked_for_counts_for_no_victim(ledger: Ledger) -> None:
    budgets = replace(AMPLE, per_victim_day=1)
    begun = begin(ledger, add_for(ledger, 1, "v1", "p1"), an_attempt("s1"), budgets)
    assert isinstance(begun, Escalation)
    run_to_end(ledger, begun, None, Status.FAILED)
    assert isinstance(
        begin(ledger, add_for(ledger, 2, "v1", "p1"), an_attempt("s2"), budgets), Escalation
    )


def test_who_was_moved_since(ledger: Ledger) -> None:
    first = begin(ledger, add(ledger, 1), an_attempt("s1"))
    assert isinstance(first, Escalation)
    run_to_end(ledger, first, NOON, Status.ABORTED)
    begin(ledger, add(ledger, 2), an_attempt("s2"))
    found = ledger.moved_since(["s1", "s2", "s3"], NOON - timedelta(hours=1))
    assert {server: one.status for server, one in found.items()} == {
        "s1": Status.ABORTED,
        "s2": Status.PREPARING,
    }
    assert ledger.moved_since(["s1"], NOON + timedelta(seconds=1)) == {}
    assert ledger.moved_since([], NOON) == {}


def at_once(count: int, work: Callable[[int], None]) -> None:
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_of_many_workers_at_once_one_gets_the_claim(ledger: Ledger) -> None:
    add(ledger)
    [row] = ledger.list_waiting(NOON)
    won: list[Any] = []
    at_once(6, lambda number: won.append(ledger.claim(row, f"w{number}")))
    assert len([one for one in won if one]) == 1


def test_budgets_hold_for_many_workers_at_once(ledger: Ledger) -> None:
    budgets = replace(AMPLE, running=2)
    rows = [claimed(ledger, add(ledger, number)) for number in range(6)]
    results: list[Escalation | str] = []

    def work(number: int) -> None:
        attempt = an_attempt(f"s{number}", f"vp{number}")
        results.append(ledger.begin(rows[number], attempt, {}, budgets))

    at_once(6, work)
    assert len(results) == 6
    assert len([one for one in results if isinstance(one, Escalation)]) == 2


def test_an_escalation_that_arrives_many_times_at_once(ledger: Ledger) -> None:
    added: list[bool] = []
    at_once(6, lambda _: added.append(ledger.add(an_id(1), "vp1", "{}", NOON)))
    assert sorted(added) == [False] * 5 + [True]
