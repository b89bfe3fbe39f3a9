# SPDX-License-Identifier: Apache-2.0
"""What an operator gets wrong in the configuration is said in one line, by the services as run."""

import dataclasses
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.cli import exit_status
from nova_vp.cmd import manage
from nova_vp.conf import database
from nova_vp.conf.policy import policy_from
from nova_vp.controllers import installed

UUID = "6c630000-0000-0000-0000-000000000000"
WRONG = [
    ("[agent]\ninterval_s = nan", "interval_s = nan: give a finite number"),
    ("[agent]\ninterval_s =", "interval_s = : give a finite number"),
    ("[policy]\nmoves_per_minute =", "to use the default, 6"),
    ("[policy]\neffect_window_s = inf", "[policy] effect_window_s = inf"),
    ("[policy]\nhysteresis_ratio = soup", "hysteresis_ratio"),
    ("[bus]\nmin_publish_interval_s = nan", "min_publish_interval_s"),
    ("[vp_scheduler]\nstale_after_s = nan", "stale_after_s"),
    (
        f"[controller_latency]\ncpi_models = {UUID}=1.2x/4",
        f"'{UUID}=1.2x/4' is not UUID=threshold/cores with two numbers above 0",
    ),
    ("[policy]\ncontrollers = soup", "'soup' is not an installed controller"),
]
FORMER = [
    (name, field)
    for name, one in installed().items()
    for field in dataclasses.fields(one.settings)
    if field.metadata["formerly"] and isinstance(field.default, float)
]


def ran(program: str, *words: str, stdout: Any = subprocess.PIPE) -> Any:
    argv = [str(Path(sys.executable).with_name(program)), *words]
    return subprocess.run(argv, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)


def written(folder: Path, text: str) -> str:
    """As an argument."""
    file = folder / "nova-vp.conf"
    file.write_text(f"[DEFAULT]\n{text}\n")
    return f"--config-file={file}"


def told_by(program: str, folder: Path, text: str, *command: str) -> str:
    done = ran(program, written(folder, text), *command)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_a_wrong_number_is_told(tmp_path: Path, text: str, words: str) -> None:
    line = told_by("vp-agent", tmp_path, text, "run")
    assert line.startswith("vp-agent: configuration: ")
    assert words in line


@pytest.mark.parametrize(("text", "words"), [*WRONG, ("garbage", "No ':' or '=' found")])
def test_the_running_agent_is_asked_whatever_the_file_says(tmp_path, text, words) -> None:
    """None runs here: that it is asked shows in the last line."""
    done = ran("vp-agent", written(tmp_path, text), "mode", "observe")
    first, last = done.stderr.splitlines()
    assert first.startswith("vp-agent: configuration: ")
    assert first.endswith("; going on")
    assert words in first
    assert "no agent" in last.lower()


@pytest.mark.parametrize(("name", "field"), FORMER)
def test_an_option_of_a_controller_is_read_by_its_former_name_too(tmp_path, name, field) -> None:
    former, value = field.metadata["formerly"], field.default * 1.25
    text = f"[policy]\ncontrollers = {name}\n{former} = {value}"
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([written(tmp_path, text)])
    [enabled] = policy_from(conf).controllers
    assert getattr(enabled.settings, field.name) == value


def test_spans_of_services_are_none_that_no_calendar_or_lock_takes() -> None:
    spans = [
        option
        for group, opts in options.list_opts()
        for option in opts
        if group in ("bus", "vp_scheduler") and option.dest.endswith("_s")
    ]
    assert len(spans) > 10
    for option in spans:
        if not option.dest.endswith("_per_s"):
            assert threading.TIMEOUT_MAX > option.type.max > option.default, option.dest
            assert datetime.now(UTC) - timedelta(seconds=option.type.max)


def test_vp_scheduler_tells_it_too(tmp_path: Path) -> None:
    line = told_by("vp-scheduler", tmp_path, "[vp_scheduler]\nbatch_size = soup")
    assert line.startswith("vp-scheduler: configuration: ")
    assert "batch_size" in line


@pytest.mark.parametrize(
    ("cloud", "words"),
    [("", "fill in [cloud]"), ("[cloud]\nauth_type = password\n", "auth_url")],
)
def test_a_vp_scheduler_that_may_migrate_needs_an_identity(
    tmp_path: Path, cloud: str, words: str
) -> None:
    text = f"{cloud}[vp_scheduler]\nescalation_mode = enforce"
    assert words in told_by("vp-scheduler", tmp_path, text)


def test_a_host_name_that_nobody_would_hear_is_told(tmp_path: Path) -> None:
    folders = f"state_directory = {tmp_path}/state\nrun_directory = {tmp_path}/run"
    line = told_by("vp-agent", tmp_path, f"[agent]\nhost = a b\n{folders}", "run")
    assert line.startswith("vp-agent: configuration: [agent] host = 'a b'")


def test_a_bus_that_cannot_be_is_told(tmp_path: Path) -> None:
    folders = f"state_directory = {tmp_path}/state\nrun_directory = {tmp_path}/run"
    text = f"[agent]\n{folders}\n[bus]\ntransport_url = soup"
    assert "rabbit://user:password@host:5672/" in told_by("vp-agent", tmp_path, text, "run")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "Failed to find"),
        (b"[bus", "Failed to parse"),
        (b"# na\xefve", "a file cannot be read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "nova-vp.conf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(cfg.Error, match=said):
        options.read(cfg.ConfigOpts(), [f"--config-file={file}"], "vp-manage")


@pytest.mark.parametrize(
    "command",
    ["vp-agent run", "vp-manage db version", "vp-status upgrade check"],
)
def test_every_program_tells_of_a_file_that_is_no_text(tmp_path: Path, command: str) -> None:
    file = tmp_path / "nova-vp.conf"
    file.write_bytes(b"# na\xefve\n")
    program, *words = command.split()
    done = ran(program, f"--config-file={file}", *words)
    assert done.returncode not in (0, 2)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"{program}: configuration: ")
    assert "'utf-8' codec" in last
    assert "Traceback" not in done.stdout + done.stderr


def test_vp_manage_tells_a_wrong_number_too(tmp_path: Path, capsys: Any) -> None:
    assert manage.main([written(tmp_path, "[vp_scheduler]\nhistory_days = x"), "db", "purge"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("vp-manage: configuration: ")
    assert "history_days" in told


@pytest.mark.parametrize("command", ["vp-manage db version", "vp-status upgrade check --json"])
def test_a_driver_of_a_database_that_is_not_installed(tmp_path: Path, command: str) -> None:
    text = "[database]\nconnection = oracle://here\n[bus]\ntransport_url = soup"
    program, *words = command.split()
    done = ran(program, written(tmp_path, text), *words)
    assert done.returncode != 0
    told = " ".join((done.stdout + done.stderr).replace("|", " ").split())
    assert "the Python package 'oracledb' of its driver is not installed" in told
    assert "Traceback" not in told


WITHOUT_FILE = (
    "no configuration file was found, so the defaults apply: no nova-vp.conf or {}.conf in "
)


@pytest.mark.parametrize("words", [["credentials", "list"], ["host", "forget", "vp1"]])
def test_vp_manage_names_the_database_and_where_the_options_come_from(
    tmp_path: Path, capsys: Any, words: list[str]
) -> None:
    here = f"sqlite:///{tmp_path}/none/db"
    file = written(tmp_path, f"[database]\nconnection = {here}?timeout=7")
    assert manage.main([file, *words]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-2] == f"[database] connection = {here}"
    assert told[-1] == f"configuration read from {file.partition('=')[2]}"


@pytest.mark.parametrize(
    ("connection", "told"),
    [
        ("mysql+pymysql://nova:secret@db/vp?ssl_key=secret", "mysql+pymysql://nova:***@db/vp"),
        ("soup:secret", "not a database URL"),
    ],
)
def test_a_database_is_named_without_what_is_secret(connection: str, told: str) -> None:
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf.set_default("connection", connection, "database")
    assert database.shown(conf) == told


@pytest.mark.parametrize("command", ["vp-manage db version", "vp-status upgrade check"])
def test_a_missing_file_is_told_with_where_one_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program, *words = command.split()
    done = ran(program, *words)
    assert done.returncode != 0
    cells = (done.stderr + done.stdout).replace("|", " ").split()
    told = " ".join(cells).replace("nova- vp", "nova-vp")
    assert WITHOUT_FILE.format(program) + options.LOOKED_IN in told
    assert "sqlite:////var/lib/nova-vp/nova-vp.sqlite" in told


@pytest.mark.parametrize("command", ["vp-agent check", "vp-manage db version"])
def test_who_reads_only_the_beginning_is_told_of_no_failure(tmp_path: Path, command: str) -> None:
    file = written(tmp_path, f"[database]\nconnection = sqlite:///{tmp_path}/db")
    program, *words = command.split()
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as gone:
        done = ran(program, file, *words, stdout=gone)
    assert (done.returncode, done.stderr) == (exit_status.PIPE_CLOSED, "")


def test_ctrl_c_is_no_failure() -> None:
    def stopped() -> int:
        raise KeyboardInterrupt

    assert exit_status.quietly(stopped) == exit_status.INTERRUPTED
    assert exit_status.quietly(lambda: 3) == 3


def test_another_pipe_that_breaks_is_told() -> None:
    def broken() -> int:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        exit_status.quietly(broken)
