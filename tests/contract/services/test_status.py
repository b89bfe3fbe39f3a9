# SPDX-License-Identifier: Apache-2.0
"""`vp-status upgrade check`: what keeps this release from running here is found, and named."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp.cmd import status
from nova_vp.db import schema
from nova_vp.db.report_store import ReportStore
from nova_vp.signing.senders import Process, Sender
from tests.contract.services.test_history import Clock
from tests.identities import keys_directory, register
from tests.rabbitmq import RabbitMQ, free_port

OK, WARNING, FAILURE = 0, 1, 2


def check(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    code = status.main([*argv, "upgrade", "check", "--json"])
    told = json.loads(capsys.readouterr().out)["checks"]
    return code, {one["check"]: (one["result"], one["details"] or "") for one in told}


def written(folder: Path, database: str, broker: str, more: str = "") -> str:
    file = folder / "checked.conf"
    file.write_text(
        f"[database]\nconnection = {database}\n[bus]\ntransport_url = {broker}\n"
        f"keys_directory = {keys_directory()}\n{more}"
    )
    return f"--config-file={file}"


def test_ready(
    synced_url: str, rabbitmq: RabbitMQ, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = check(capsys, written(tmp_path, synced_url, rabbitmq.url))
    is_small = synced_url.startswith("sqlite")
    assert code == (WARNING if is_small else OK)
    assert [result for result, _ in told.values()] == [OK, WARNING if is_small else OK, OK, OK, OK]


def test_the_account_is_the_one_of_vp_scheduler(
    synced_url: str,
    rabbitmq: RabbitMQ,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its file lies beside nova-vp.conf, which names no broker."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".nova-vp"
    folder.mkdir()
    (folder / "nova-vp.conf").write_text(
        f"[database]\nconnection = {synced_url}\n[bus]\nkeys_directory = {keys_directory()}\n"
    )
    account = folder / "vp-scheduler.conf"
    account.write_text(f"[bus]\ntransport_url = {rabbitmq.url}\n")
    _, told = check(capsys)
    assert told["Message bus"][0] == OK
    account.write_text(f"[bus]\ntransport_url = {rabbitmq.url_of('test:wrong')}\n")
    _, told = check(capsys)
    assert told["Message bus"][0] == FAILURE
    assert "ACCESS_REFUSED" in told["Message bus"][1]
    assert "import rabbitmq.json" in told["Message bus"][1]


def test_a_database_without_our_tables(
    database_url: str, rabbitmq: RabbitMQ, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = check(capsys, written(tmp_path, database_url, rabbitmq.url))
    assert code == FAILURE
    assert told["Database schema"][0] == FAILURE
    assert (
        f"revision none, this release needs {schema.newest_revision()}"
        in (told["Database schema"][1])
    )
    assert told["Hosts"][0] == WARNING


def test_nothing_answers_and_an_option_is_no_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = f"mysql+pymysql://nobody@127.0.0.1:{free_port()}/none"
    broker = f"rabbit://nobody:none@127.0.0.1:{free_port()}/"
    more = "[database]\nmax_retries = 0\n[vp_scheduler]\nstale_after_s = nan\n"
    code, told = check(capsys, written(tmp_path, database, broker, more))
    assert code == FAILURE
    assert {name: result for name, (result, _) in told.items()} == {
        "Options": FAILURE,
        "Database schema": FAILURE,
        "Message bus": FAILURE,
        "Keys": WARNING,
        "Hosts": WARNING,
    }
    assert "stale_after_s" in told["Options"][1]
    assert "[database] connection" in told["Database schema"][1]
    assert "[bus] transport_url" in told["Message bus"][1]


def test_silent_hosts_are_named(
    store: ReportStore,
    synced_url: str,
    rabbitmq: RabbitMQ,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = datetime.now(UTC)
    Clock(store).save(host="vp1", at=now)
    Clock(store).save(host="vp2", at=now - timedelta(hours=1))
    _, told = check(capsys, written(tmp_path, synced_url, rabbitmq.url))
    result, said = told["Hosts"]
    assert result == WARNING
    assert "1 of 2 hosts have not reported for 180 s: vp2;" in said


def test_hosts_that_would_not_be_believed_are_named(
    store: ReportStore,
    database_conf: cfg.ConfigOpts,
    synced_url: str,
    rabbitmq: RabbitMQ,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for host in ("vp1", "vp2"):
        Clock(store).save(host=host)
    register(database_conf, Sender(Process.AGENT, "vp1"))
    _, told = check(capsys, written(tmp_path, synced_url, rabbitmq.url))
    assert told["Keys"][0] == FAILURE
    assert "1 of 2 hosts have no key and would not be believed: vp2;" in told["Keys"][1]
