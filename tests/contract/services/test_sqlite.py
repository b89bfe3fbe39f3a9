# SPDX-License-Identifier: Apache-2.0
"""SQLite beside a process that was frozen in the middle of a write: who reads does not wait."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp.cmd import manage
from nova_vp.conf import scheduler
from nova_vp.conf.database import register_opts
from nova_vp.db.report_store import ReportStore
from nova_vp.wire import MessageVersion
from tests.contract.services.test_history import Clock
from tests.decisions import a_view


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nova-vp.conf"
    connection = f"sqlite:///{tmp_path}/store.sqlite?timeout=0.1"
    path.write_text(f"[database]\nconnection = {connection}\n")
    assert manage.main([f"--config-file={path}", "db", "sync"]) == 0
    return path


@pytest.fixture
def store(file: Path) -> ReportStore:
    conf = cfg.ConfigOpts()
    register_opts(conf)
    scheduler.register_opts(conf)
    conf([f"--config-file={file}"])
    return ReportStore(conf)


@pytest.fixture
def frozen(store: ReportStore, tmp_path: Path) -> Iterator[None]:
    Clock(store).save(a_view(1, 1), host="vp1")
    with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("UPDATE hosts SET mode = 'observe'")
        yield


@pytest.mark.usefixtures("frozen")
def test_who_reads_sees_what_was_committed(store: ReportStore, file: Path) -> None:
    assert [head.version for head in store.list_heads()] == [MessageVersion(1, 1)]
    assert manage.main([f"--config-file={file}", "credentials", "list"]) == 0


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("argv", [("db", "purge"), ("host", "forget", "vp1")])
def test_who_writes_is_told_what_to_do(
    file: Path, argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert manage.main([f"--config-file={file}", *argv]) == 1
    fault, database, configuration = capsys.readouterr().err.splitlines()
    assert "locked the SQLite database" in fault
    assert "store.sqlite" in database
    assert str(file) in configuration


def test_without_tables_one_line_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nova-vp.conf"
    path.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/empty.sqlite\n")
    assert manage.main([f"--config-file={path}", "credentials", "list"]) == 1
    assert "vp-manage db sync" in capsys.readouterr().err
