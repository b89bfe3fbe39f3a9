# SPDX-License-Identifier: Apache-2.0
"""`vp-manage escalation` as operators see it: tables of 100 columns, JSON, a proposal's yes."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp.cmd import manage
from nova_vp.db.escalations import Budgets, Ledger
from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import Status
from tests.messages import escalation_text
from vp_scheduler.escalation.select import AcceptanceLimits, Candidate, choose

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
ID = "99999999-9999-5999-8999-999999999999"
AMPLE = Budgets(9, 9, 9, 9, 9, 9, timedelta(0))
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    file = tmp_path / "nova-vp.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/ledger.sqlite\n")

    def run(*words: str) -> tuple[int, str]:
        status = manage.main(["--config-file", str(file), *words])
        return status, capsys.readouterr().out

    run("db", "sync")
    return run


@pytest.fixture
def ledger(run: Run, tmp_path: Path) -> Ledger:
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(tmp_path / "nova-vp.conf")])
    return Ledger(conf)


def a_guest(name: str, **fields: Any) -> Candidate:
    guest = Candidate(name, name, "p1", "co-runner", 1 << 30, 1e3, (), 1.0, 0.4, 0.0, "")
    return replace(guest, **fields)


def a_choice(*guests: Candidate) -> str:
    terms = AcceptanceLimits(0.05, 0.75, 0.05, 3600.0, 512_000.0)
    return json.dumps(choose(0.4, guests, {}, {}, terms).as_json())


def add(ledger: Ledger, **changes: Any) -> Escalation:
    ledger.add(ID, "vp1", escalation_text(), NOON)
    found = ledger.claim(ledger.list_waiting(NOON)[0], "w1")
    assert found is not None
    return ledger.save(found, {"choice": a_choice(a_guest("web"), a_guest("zeta")), **changes})


def lines(text: str) -> list[str]:
    found = text.splitlines()
    assert max(map(len, found)) <= 100
    return found


def test_the_list(run: Run, ledger: Ledger) -> None:
    assert run("escalation", "list") == (0, "no escalations\n")
    add(ledger, status=Status.PROPOSED)
    _, text = run("escalation", "list")
    head, row = lines(text)
    assert head.split()[:4] == ["id", "status", "host", "server"]
    assert row.split() == [ID, "proposed", "vp1", "(web)", "11-21", "12:00:00"]
    [found] = json.loads(run("escalation", "list", "-f", "json")[1])
    assert (found["id"], found["status"], found["migrations"]) == (ID, "proposed", [])
    assert run("escalation", "list", "--status", "failed") == (0, "no escalations\n")


def test_one_with_its_story(run: Run, ledger: Ledger) -> None:
    found = add(ledger, reason="Move web. " * 20)
    attempt = Attempt(
        attempt=1,
        server="s1",
        name="web",
        project_id="p1",
        role="co-runner",
        memory_kib=2048,
        timeout_s=300,
        source_host="vp1",
        status=Status.PREPARING,
        started_at=NOON,
        dest_host="vp2",
        nova_id=7,
        nova_status="running",
        requested_at=NOON,
    )
    ledger.begin(found, attempt, {}, AMPLE)
    _, text = run("escalation", "show", ID)
    told = lines(text)
    assert told[0] == f"{ID} on vp1: preparing"
    row = ["web", "co-runner", "preparing", "vp2", "7", "running", "12:00:00", "2"]
    assert row in [line.split() for line in told]
    assert any(line.startswith("zeta") and "dearer" in line for line in told)
    story = json.loads(run("escalation", "show", ID, "-f", "json")[1])
    assert story["migrations"][0]["nova_id"] == 7
    assert story["choice"]["mover"]["name"] == "web"
    assert story["escalation"]["host"] == "vp1"


def test_nothing_that_a_tenant_names_breaks_the_table(run: Run, ledger: Ledger) -> None:
    long = a_guest("\x1b[2J" + "n" * 300, relief_ratio=1e6, others_ratio=-1e6, memory_kib=2**53)
    add(ledger, choice=a_choice(a_guest("w" * 300, memory_kib=2**52), long), reason="\x1b[2J x")
    for words in (("list",), ("show", ID)):
        told = lines(run("escalation", *words)[1])
        assert all(line.isprintable() for line in told)


def test_a_proposal_is_accepted(run: Run, ledger: Ledger) -> None:
    add(ledger, status=Status.PROPOSED)
    status, text = run("escalation", "accept", ID)
    assert (status, text.startswith(f"{ID} is accepted")) == (0, True)
    found = ledger.get(ID)
    assert found is not None
    assert (found.status, found.accepted_at is not None) == (Status.RECEIVED, True)
    assert found.accepted_by == f"vp-manage uid={os.getuid()}"
    told = lines(run("escalation", "show", ID)[1])
    assert f"accepted by {found.accepted_by} at {found.accepted_at:%m-%d %H:%M:%S}" in told
    status, text = run("escalation", "accept", ID)
    assert (status, "only proposed escalations" in text) == (1, True)


@pytest.mark.parametrize("action", ["show", "accept"])
def test_one_that_is_not_there(run: Run, action: str) -> None:
    status, text = run("escalation", action, "nothing")
    assert (status, "no such escalation" in text) == (1, True)
