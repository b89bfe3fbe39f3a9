# SPDX-License-Identifier: Apache-2.0
"""A few made-up payloads for everything that takes any; `make rpc-fuzz` makes a million."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from nova_vp.core.types.policy import Mode
from tests.escalations import HandClock, other_id
from tests.fuzz.database import Database
from tests.fuzz.dice import Dice
from tests.fuzz.lives import Life, Transition, WatchedLedger, transitions
from tests.fuzz.run import a_run, fuzz
from tests.fuzz.shrink import smaller
from tests.fuzz.subject import ACCEPTED, REFUSED, Subject
from tests.messages import escalation_text
from vp_scheduler.escalation.settings import read

PAYLOADS = 600


def test_nothing_that_comes_in_breaks_anything():
    with a_run("short") as run:
        fuzz(run, PAYLOADS, seconds=60)
    assert [(one.fault, one.payload) for one in run.findings.values()] == []
    assert run.payloads() == PAYLOADS


def test_each_subject_takes_some_of_what_is_made_for_it_and_refuses_some():
    """Else nothing behind its first check is ever tried."""
    with a_run("both") as run, run.world() as world:
        found = {kind.name: outcomes(world.subject(kind)) for kind in world.kinds()}
    assert {name for name, both in found.items() if both != {ACCEPTED, REFUSED}} == set()
    assert found


def outcomes(subject: Subject) -> set[str]:
    found: set[str] = set()
    for number in range(PAYLOADS):
        found.add(subject.take(subject.make(Dice("both", number))))
        if found == {ACCEPTED, REFUSED}:
            break
    return found


def test_a_payload_is_made_smaller_as_long_as_it_is_found():
    payload = [
        "report",
        {"text": '{"host":"vp1","vps":[{"name":"a"},{"name":"\\u0000","state":3}]}'},
    ]
    found = smaller(payload, lambda one: "\\u0000" in str(one))
    assert found == [{"text": '{"vps":[{"name":"\\u0000"}]}'}]


LIVES: list[tuple[str, list[tuple[str, int]]]] = [
    ("observe", []),
    ("advise", []),
    ("advise", [("nothing", 0), ("time", 6)]),
    ("enforce", []),
    ("enforce", [("hidden", 0)]),
    ("enforce", [("no host", 0)]),
    ("enforce", [("not undone", 0)]),
    ("enforce", [("well again", 0)]),
    ("enforce", [("agents go", 0), ("time", 3), ("nothing", 0)]),
    ("enforce", [("fault", 1)]),
    ("enforce", [("fault", 3)]),
    ("enforce", [("fault", 4)]),
    ("enforce", [("fault", 2), ("time", 3), ("nothing", 0)]),
    ("enforce", [("fault", 2), ("agents go", 0), ("time", 3)]),
    ("enforce", [("conductor sleeps", 0), ("idle", 0), ("time", 3), ("nothing", 0)]),
    ("enforce", [("nothing", 0), ("gone", 0)]),
    ("enforce", [("nothing", 0), ("aborted", 0)]),
    ("enforce", [("nothing", 0), ("failed", 0)]),
    ("enforce", [("nothing", 0), ("time", 4), ("nothing", 0)]),
]


def test_the_lives_of_escalations_reach_every_change_of_state(tmp_path: Path) -> None:
    """By the means of the fuzzer's own events."""
    database, reached = Database(tmp_path), Counter[Transition]()
    ledger, clock = WatchedLedger(database.conf, reached), HandClock()
    for number, (mode, events) in enumerate(LIVES):
        settings = replace(read(database.conf), mode=Mode(mode))
        life = Life(ledger, clock, settings, [escalation_text(other_id(number))])
        life.pass_by(events)
        life.end()
        database.clear()
    assert transitions() - reached.keys() == set()


@pytest.mark.parametrize(("mode", "events"), [one for one in LIVES if ("agents go", 0) in one[1]])
def test_escalations_of_hosts_that_never_come_back_end(
    tmp_path: Path, mode: str, events: list[tuple[str, int]]
) -> None:
    """Else they would count for ever among the migrations that may run at once."""
    database = Database(tmp_path)
    ledger = WatchedLedger(database.conf, Counter())
    settings = replace(read(database.conf), mode=Mode(mode))
    life = Life(ledger, HandClock(), settings, [escalation_text(other_id(1))])
    life.pass_by(events)
    life.end(agents_are_back=False)
