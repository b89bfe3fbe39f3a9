# SPDX-License-Identifier: Apache-2.0
"""Whose claims a worker takes, and what it does when a step fails: by a clock moved by hand."""

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp.cmd import manage
from nova_vp.db import escalations
from nova_vp.db.escalations import Ledger, LostClaim, Waiting
from nova_vp.db.records import Escalation
from tests.escalations import NOON, HandClock
from tests.waiting import wait_until
from vp_scheduler.escalation.clock import Since
from vp_scheduler.escalation.worker import MOST_TAKEN, PENALTY_S, Leases, Worker

LEASE_S = 60.0


def a_row(owner: str | None = None, version: int = 1) -> Waiting:
    return Waiting("e1", owner, version)


@pytest.mark.parametrize(
    ("label", "owner", "expected"), [("free", None, True), ("ours", "me", True), ("b", "b", False)]
)
def test_what_may_be_taken_at_once(label: str, owner: str | None, expected: bool) -> None:
    leases = Leases("me", LEASE_S, HandClock().as_clock().monotonic_s)
    leases.see([a_row(owner)])
    assert leases.may_take(a_row(owner)) is expected, label


def test_a_silent_workers_claim_is_taken_after_the_lease() -> None:
    clock = HandClock()
    leases = Leases("me", LEASE_S, lambda: clock.monotonic_s)
    leases.see([a_row("other")])
    clock.pass_s(LEASE_S - 1)
    leases.see([a_row("other")])
    assert not leases.may_take(a_row("other"))
    clock.pass_s(1)
    assert leases.may_take(a_row("other"))


def test_one_that_writes_keeps_its_claim_whatever_the_wall_clock_says() -> None:
    clock = HandClock()
    leases = Leases("me", LEASE_S, lambda: clock.monotonic_s)
    for version in range(10):
        leases.see([a_row("other", version)])
        clock.now += timedelta(days=1)
        assert not leases.may_take(a_row("other", version))
        clock.pass_s(LEASE_S - 1)


def test_what_is_forgotten_is_seen_anew() -> None:
    clock = HandClock()
    leases = Leases("me", LEASE_S, lambda: clock.monotonic_s)
    leases.see([a_row("other")])
    leases.see([])
    clock.pass_s(2 * LEASE_S)
    leases.see([a_row("other")])
    assert not leases.may_take(a_row("other"))


class OneStep:
    """Gives the claim back, after what it is told to do first."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.first: Callable[[], object] = lambda: None
        self.runs = 0

    def run(self, escalation: Escalation) -> None:
        self.runs += 1
        self.first()
        self.ledger.save(escalation, {"owner": None})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    file = tmp_path / "nova-vp.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/ledger.sqlite\n")
    manage.main(["--config-file", str(file), "db", "sync"])
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(file)])
    ledger = Ledger(conf)
    ledger.add("e1", "vp1", "{}", NOON)
    return ledger


class Scene:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.clock, self.step = ledger, HandClock(), OneStep(ledger)
        self.worker = Worker(ledger, self.step, self.clock.as_clock(), LEASE_S, 0.1)

    def look(self) -> int:
        """Runs so far, once nothing is being done any more."""
        self.worker.look_for_work()
        wait_until(lambda: not self.worker._busy, "the step to end")
        return self.step.runs


@pytest.fixture
def scene(ledger: Ledger) -> Scene:
    return Scene(ledger)


def test_what_is_not_due_waits(scene: Scene, ledger: Ledger) -> None:
    found = ledger.claim(ledger.list_waiting(NOON)[0], "x")
    assert found is not None
    ledger.save(found, {"owner": None, "not_before": NOON + timedelta(seconds=30)})
    assert scene.look() == 0
    scene.clock.pass_s(30)
    assert scene.look() == 1


def test_a_moment_that_a_fast_clock_wrote_is_not_waited_for(scene: Scene, ledger: Ledger) -> None:
    found = ledger.claim(ledger.list_waiting(NOON)[0], "x")
    assert found is not None
    ledger.save(found, {"owner": None, "not_before": NOON + timedelta(days=365)})
    assert scene.look() == 1


@pytest.mark.parametrize("failure", [RuntimeError("bug"), LostClaim("e1")])
def test_what_goes_wrong_with_one_does_not_stop_the_worker(
    scene: Scene, failure: Exception
) -> None:
    def fail() -> None:
        raise failure

    scene.step.first = fail
    assert scene.look() == 1
    scene.step.first = lambda: None
    scene.clock.pass_s(PENALTY_S)
    assert scene.look() == 2


def test_a_fault_of_ours_is_not_repeated_in_a_hurry(scene: Scene) -> None:
    def fail() -> None:
        raise RuntimeError("bug")

    scene.step.first = fail
    assert [scene.look() for _ in range(3)] == [1, 1, 1]


class Waits:
    """Has each wait for ten minutes, and one fail."""

    def __init__(self, ledger: Ledger, clock: HandClock) -> None:
        self.ledger, self.clock = ledger, clock
        self.ran: list[str] = []

    def run(self, escalation: Escalation) -> None:
        self.ran.append(escalation.id)
        if escalation.id == "e1":
            raise RuntimeError("bug")
        not_before = self.clock.now + timedelta(minutes=10)
        self.ledger.save(escalation, {"owner": None, "not_before": not_before})


def test_those_that_wait_or_fail_keep_no_newer_one_from_its_turn(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(escalations, "LISTED", 3)
    clock = HandClock()
    steps = Waits(ledger, clock)
    worker = Worker(ledger, steps, clock.as_clock(), LEASE_S, 0.1)
    names = [f"e{number}" for number in range(1, 6)]
    for name in names[1:]:
        clock.pass_s(1)
        ledger.add(name, "vp1", "{}", clock.now)
    for _ in range(2):
        worker.look_for_work()
        wait_until(lambda: not worker._busy, "the steps to end")
    assert sorted(steps.ran) == names


def test_no_more_is_taken_at_once_than_threads_soon_have_time_for(
    ledger: Ledger, scene: Scene
) -> None:
    """What another host sends meanwhile comes before the many of this one."""
    open_ = threading.Event()
    scene.step.first = open_.wait
    for number in range(2, 2 * MOST_TAKEN):
        ledger.add(f"e{number}", "vp1", "{}", NOON)
    for _ in range(2):
        scene.worker.look_for_work()
        assert len(scene.worker._busy) == MOST_TAKEN
    open_.set()
    wait_until(lambda: not scene.worker._busy, "the steps to end")
    assert scene.worker._woken.is_set(), "the next look waits for nothing"


def test_spans_are_told_by_the_monotonic_clock_once_they_are_seen() -> None:
    clock = HandClock()
    since = Since(clock.as_clock())
    assert since.elapsed_s("k", NOON - timedelta(seconds=5)) == 5.0
    clock.now += timedelta(days=1)
    clock.monotonic_s += 2.0
    assert since.elapsed_s("k", NOON - timedelta(seconds=5)) == 7.0
    clock.now -= timedelta(days=9)
    assert since.elapsed_s("k", NOON) == 0.0
