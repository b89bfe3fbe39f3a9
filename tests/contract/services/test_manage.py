# SPDX-License-Identifier: Apache-2.0
"""`vp-manage` on SQLite, MariaDB and PostgreSQL: what is too old goes, in steps; the rest stays."""

from datetime import UTC, datetime, timedelta

import pytest
from oslo_config import cfg
from sqlalchemy import func, select

from nova_vp.cmd import manage
from nova_vp.core.types.action import Outcome, Result
from nova_vp.db import schema
from nova_vp.db.models import ActionServer, History, Host, Profile, Stay, StoredAction, VpRow
from nova_vp.db.purge import Before, purge
from nova_vp.db.report_store import ReportStore
from tests.contract.services.test_history import Clock
from tests.decisions import a_view, an_action

NOW = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
TABLES = (History, StoredAction, ActionServer, Profile, Stay, Host, VpRow)
ALIKE = ("actions", "profiles", "stays", "hosts", "vps")


def fill(store: ReportStore, days_ago: int, hosts: int = 3, minutes: int = 4) -> None:
    """Hosts that spoke on that day only."""
    reports = Clock(store)
    for number in range(hosts):
        vp = 100 * days_ago + number
        history = (Outcome(an_action(f"a{vp}"), Result.APPLIED, 9.0, ""),)
        for minute in range(minutes):
            at = NOW - timedelta(days=days_ago, minutes=-minute)
            reports.save(a_view(vp, 1, history=history), host=f"vp{vp}", at=at)


def counts(conf: cfg.ConfigOpts) -> dict[str, int]:
    with schema.open_engine(conf).connect() as connection:
        return {
            table.__tablename__: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in TABLES
        }


def run(conf: cfg.ConfigOpts, *argv: str) -> int:
    return manage.main([*(f"--config-file={file}" for file in conf.config_file), *argv])


@pytest.fixture
def filled(database_conf: cfg.ConfigOpts, store: ReportStore) -> cfg.ConfigOpts:
    for days_ago in (100, 8, 0):
        fill(store, days_ago)
    return database_conf


@pytest.mark.parametrize(
    ("label", "argv", "history", "others"),
    [
        ("as the options say", [], 12, 6),
        ("all but the last days", ["--keep-days", "9"], 24, 6),
        ("before a day", ["--before", f"{NOW - timedelta(days=5):%Y-%m-%d}"], 12, 3),
        ("nothing", ["--keep-days", "200"], 36, 9),
    ],
)
def test_purge(
    filled: cfg.ConfigOpts, label: str, argv: list[str], history: int, others: int
) -> None:
    assert run(filled, "db", "purge", *argv) == 0
    # Each was done to one server, for another.
    rest = {**dict.fromkeys(ALIKE, others), "action_servers": 2 * others}
    assert counts(filled) == {"history": history, **rest}, label


def test_purge_goes_in_steps_and_goes_on_after_a_stop(filled: cfg.ConfigOpts) -> None:
    engine = schema.open_engine(filled)
    before = Before(history=NOW, ledger=NOW - timedelta(days=1), usage=NOW)
    first = next(purge(engine, before, NOW, step_rows=5))
    assert first == ("history", 5)
    steps = list(purge(engine, before, NOW, step_rows=5))
    assert [rows for table, rows in steps if table == "history"] == [5, 2, 5, 5, 2]
    assert counts(filled) == {"history": 12, **dict.fromkeys(ALIKE, 3), "action_servers": 6}
    assert list(purge(engine, before, NOW, step_rows=5)) == []


def test_purge_says_what_went(filled: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]) -> None:
    run(filled, "db", "purge")
    assert capsys.readouterr() == (
        "history 24, actions 3, action_servers 6, profiles 3, stays 3, hosts 3\n",
        "history: 12 rows\nhistory: 24 rows\nactions: 3 rows\naction_servers: 6 rows\n"
        "profiles: 3 rows\nstays: 3 rows\n"
        "hosts: 3 rows\n",
    )
    run(filled, "db", "purge")
    assert capsys.readouterr().out == "nothing to delete\n"


def test_a_host_is_forgotten_by_name(
    database_conf: cfg.ConfigOpts, store: ReportStore, capsys: pytest.CaptureFixture[str]
) -> None:
    Clock(store).save(host="vp1")
    assert run(database_conf, "host", "forget", "vp1") == 0
    assert store.list_heads() == []
    assert run(database_conf, "host", "forget", "vp1") == 1
    assert "vp1 is not a known host" in capsys.readouterr().out
