# SPDX-License-Identifier: Apache-2.0
"""`vp-manage credentials` on SQLite, MariaDB and PostgreSQL: made, listed, rotated, retired."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp.cmd import manage
from nova_vp.cmd.manage_credentials import ACCOUNTS_COPY
from nova_vp.db.bus_keys import READ_EVERY_S, RETRY_S, BusKeyStore, StoredKeys
from nova_vp.db.report_store import ReportStore
from nova_vp.service import failpoints
from nova_vp.signing.keyring import new_private_key, public_text, read_private_key, read_trusted
from nova_vp.signing.senders import Process, Sender
from tests.contract.services.test_history import Clock
from tests.waiting import wait_until

BROKER = "--broker=rabbit://controller:5672/nova-vp"
VP1 = Sender(Process.AGENT, "vp1")
CTL1 = tuple(
    Sender(one, "ctl1") for one in (Process.SCHEDULER, Process.API, Process.NOVA_SCHEDULER)
)


def run(conf: cfg.ConfigOpts, *argv: str) -> int:
    files = (f"--config-file={file}" for file in conf.config_file)
    return manage.main([*files, "credentials", *argv])


def create(conf: cfg.ConfigOpts, folder: Path, *argv: str) -> int:
    return run(conf, "create", BROKER, f"--directory={folder}", *argv)


@pytest.fixture
def made(database_conf: cfg.ConfigOpts, tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    assert create(database_conf, folder, "--host=vp1", "--host=vp2", "--controller=ctl1") == 0
    return folder


def test_every_machine_gets_its_files_and_no_other(
    made: Path, database_conf: cfg.ConfigOpts
) -> None:
    files = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    assert files == {
        "rabbitmq.json",
        *(f"{host}/vp-agent.conf" for host in ("vp1", "vp2")),
        *(f"{host}/keys/{name}" for host in ("vp1", "vp2") for name in ("vp-agent.pem", "trusted")),
        "ctl1/keys/trusted",
        *(f"ctl1/{one.process}.conf" for one in CTL1),
        *(f"ctl1/keys/{one.process}.pem" for one in CTL1),
    }
    for path in map(made.joinpath, files):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o007, path
    trusted = read_trusted(made / "vp1" / "keys" / "trusted")
    assert set(trusted) == set(CTL1)
    for sender in CTL1:
        [public] = trusted[sender]
        private = read_private_key(made / "ctl1" / "keys" / f"{sender.process}.pem")
        assert private.public_key() == public
    in_use = dict(BusKeyStore(database_conf).in_use())
    assert set(in_use) == {VP1, Sender(Process.AGENT, "vp2"), *CTL1}
    private = read_private_key(made / "vp1" / "keys" / "vp-agent.pem")
    assert in_use[VP1] == public_text(private.public_key())


def test_the_account_of_a_file_is_in_the_definitions(made: Path) -> None:
    told = json.loads((made / "rabbitmq.json").read_text())
    users = {user["name"]: user["password"] for user in told["users"]}
    assert set(users) == {
        "nova-vp.vp-agent.vp1",
        "nova-vp.vp-agent.vp2",
        *(f"nova-vp.{one.process}.ctl1" for one in CTL1),
    }
    text = (made / "vp1" / "vp-agent.conf").read_text()
    account = f"nova-vp.vp-agent.vp1:{users['nova-vp.vp-agent.vp1']}"
    assert f"transport_url = rabbit://{account}@controller:5672/nova-vp\n" in text
    assert {one["vhost"] for one in told["permissions"]} == {"nova-vp"}
    assert len(set(users.values())) == len(users)


def test_what_is_there_is_never_overwritten(
    made: Path, database_conf: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]
) -> None:
    before = BusKeyStore(database_conf).list_all()
    assert create(database_conf, made, "--host=vp3") == 1
    assert f"{made} is not empty" in capsys.readouterr().out
    assert BusKeyStore(database_conf).list_all() == before


@pytest.mark.parametrize(
    ("argv", "because"),
    [
        ([], "give at least one --host or --controller"),
        (["--host=a b"], "is no host name"),
        (["--host=../../etc"], "is no host name"),
        (["--host=."], "is no host name"),
        (["--controller="], "is no host name"),
        (["--host=rabbitmq.json"], "the name of a file here"),
        (["--host=unfinished"], "the name of a file here"),
        (["--host=" + "x" * 200], "is no host name"),
    ],
)
def test_names_that_cannot_be(
    database_conf: cfg.ConfigOpts,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    because: str,
) -> None:
    assert create(database_conf, tmp_path / "made", *argv) == 1
    assert because in capsys.readouterr().out
    assert BusKeyStore(database_conf).list_all() == []


@pytest.mark.parametrize(
    "broker",
    [
        "amqp://controller/",
        "rabbit://b:notaport/v",
        "rabbit://b1:5672,b2:5672/v",
        "rabbit://u:p@controller/",
        "controller",
        "rabbit:///x",
    ],
)
def test_brokers_that_cannot_be(
    database_conf: cfg.ConfigOpts, tmp_path: Path, capsys: pytest.CaptureFixture[str], broker: str
) -> None:
    with pytest.raises(SystemExit):
        run(database_conf, "create", f"--broker={broker}", f"--directory={tmp_path}/x", "--host=a")
    assert "give it as rabbit://HOST:5672/VHOST" in capsys.readouterr().err


def test_a_key_is_rotated_and_the_former_one_retired(
    made: Path, database_conf: cfg.ConfigOpts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = BusKeyStore(database_conf)
    [former] = [text for sender, text in store.in_use() if sender == VP1]
    assert create(database_conf, tmp_path / "again", "--host=vp1") == 0
    told = capsys.readouterr().out
    assert f"install -o rabbitmq -m 400 {tmp_path}/again/rabbitmq.json {ACCOUNTS_COPY}\n" in told
    assert f"rabbitmqctl import_definitions {ACCOUNTS_COPY}; rm {ACCOUNTS_COPY}\n" in told
    in_use = [text for sender, text in store.in_use() if sender == VP1]
    assert former in in_use
    assert len(in_use) == 2
    assert run(database_conf, "retire", "vp-agent/vp1", "--but-newest") == 0
    private = read_private_key(tmp_path / "again" / "vp1" / "keys" / "vp-agent.pem")
    in_use = [text for sender, text in store.in_use() if sender == VP1]
    assert in_use == [public_text(private.public_key())]
    assert run(database_conf, "retire", "vp-agent/vp1") == 0
    assert "rabbitmqctl delete_user nova-vp.vp-agent.vp1" in capsys.readouterr().out
    assert run(database_conf, "retire", "vp-agent/vp1") == 1
    store.add([(VP1, former)], datetime.now(UTC))
    assert VP1 not in dict(store.in_use()), "what was retired does not come back"


def test_of_keys_made_in_the_same_second_the_later_is_the_newer(
    database_conf: cfg.ConfigOpts,
) -> None:
    store, now = BusKeyStore(database_conf), datetime.now(UTC)
    # In the order in which none is the newest by its text.
    texts = sorted((public_text(new_private_key().public_key()) for _ in range(3)), reverse=True)
    for text in texts:
        store.add([(VP1, text)], now)
    assert run(database_conf, "retire", "vp-agent/vp1", "--but-newest") == 0
    assert store.in_use() == [(VP1, texts[-1])]


def test_of_keys_made_by_two_at_once_neither_is_retired(
    database_conf: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]
) -> None:
    store, now = BusKeyStore(database_conf), datetime.now(UTC)
    keys = [(VP1, public_text(new_private_key().public_key())) for _ in range(2)]
    store.add(keys, now)
    assert run(database_conf, "retire", "vp-agent/vp1", "--but-newest") == 1
    assert "make one more with `vp-manage credentials create`" in capsys.readouterr().out
    assert sorted(store.in_use()) == sorted(keys)


def started(conf: cfg.ConfigOpts, fail_at: str, *argv: str) -> subprocess.Popen[bytes]:
    """`vp-manage credentials create` in a process of its own."""
    program = Path(sys.executable).with_name("vp-manage")
    files = (f"--config-file={file}" for file in conf.config_file)
    environment = os.environ | {"PYTHONWARNINGS": "ignore", failpoints.VARIABLE: fail_at}
    return subprocess.Popen(
        [program, *files, "credentials", "create", BROKER, *argv], env=environment
    )


@pytest.mark.parametrize("killed", ["before-keys-registered", "after-keys-registered"])
def test_after_a_death_in_the_middle_the_same_command_heals(
    database_conf: cfg.ConfigOpts, tmp_path: Path, killed: str
) -> None:
    folder, hosts = tmp_path / "made", ("--host=vp1", "--controller=ctl1")
    dying = started(database_conf, killed, f"--directory={folder}", *hosts)
    assert dying.wait(60) == failpoints.EXIT_STATUS
    assert not (folder / "rabbitmq.json").exists(), "nobody shall import half of it"
    assert create(database_conf, folder, *hosts) == 0
    store = BusKeyStore(database_conf)
    assert run(database_conf, "retire", "vp-agent/vp1", "--but-newest") in (0, 1)
    [registered] = [text for sender, text in store.in_use() if sender == VP1]
    private = read_private_key(folder / "vp1" / "keys" / "vp-agent.pem")
    assert registered == public_text(private.public_key())
    assert {path.name for path in folder.iterdir()} == {"vp1", "ctl1", "rabbitmq.json"}


def test_of_two_at_once_in_one_directory_one_is_refused(
    database_conf: cfg.ConfigOpts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert create(database_conf, folder, "--host=vp1") == 1
    assert "another `vp-manage credentials create` writes to" in capsys.readouterr().out
    os.close(held)
    assert create(database_conf, folder, "--host=vp1") == 0


def test_two_at_once_register_all_their_keys(database_conf: cfg.ConfigOpts, tmp_path: Path) -> None:
    names = [f"ctl{number}" for number in range(2)]
    running = [
        started(database_conf, "", f"--directory={tmp_path / name}", f"--controller={name}")
        for name in names
    ]
    assert [one.wait(60) for one in running] == [0, 0]
    trusted = [read_trusted(tmp_path / name / name / "keys" / "trusted") for name in names]
    assert max(map(len, trusted)) == 6, "who came last names the keys of both"
    assert len(BusKeyStore(database_conf).in_use()) == 6


def test_a_directory_of_others_is_not_emptied(
    database_conf: cfg.ConfigOpts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").touch()
    assert create(database_conf, tmp_path / "theirs", "--host=vp1") == 1
    assert "is not empty" in capsys.readouterr().out
    assert (tmp_path / "theirs" / "file").exists()


def test_keys_are_listed(
    made: Path, database_conf: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]
) -> None:
    run(database_conf, "retire", "vp-agent/vp2")
    capsys.readouterr()
    run(database_conf, "list", "-f", "json")
    told = json.loads(capsys.readouterr().out)
    assert [one["sender"] for one in told if one["retired_at"]] == ["vp-agent/vp2"]
    assert len(told) == 5
    run(database_conf, "list")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 100
    run(database_conf, "trusted")
    told = capsys.readouterr().out
    assert all(f"{sender.process}/{sender.host}" in told for sender in CTL1)
    assert "vp-agent" not in told
    run(database_conf, "trusted", "--all")
    told = capsys.readouterr().out
    assert "vp-agent/vp1" in told
    assert "vp-agent/vp2" not in told, "it was retired"


def test_rights_are_told_anew_without_passwords(
    made: Path, database_conf: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = json.loads((made / "rabbitmq.json").read_text())
    run(database_conf, "retire", "vp-agent/vp2")
    capsys.readouterr()
    run(database_conf, "rights", BROKER)
    told = json.loads(capsys.readouterr().out)
    assert told.keys() == {"permissions", "topic_permissions"}
    for name, rights in told.items():
        in_use = [one for one in accounts[name] if one["user"] != "nova-vp.vp-agent.vp2"]
        assert sorted(map(str, rights)) == sorted(map(str, in_use))


def test_a_host_that_is_forgotten_is_no_longer_believed(
    made: Path, database_conf: cfg.ConfigOpts, store: ReportStore
) -> None:
    Clock(store).save(host="vp1")
    files = (f"--config-file={file}" for file in database_conf.config_file)
    assert manage.main([*files, "host", "forget", "vp1"]) == 0
    assert VP1 not in dict(BusKeyStore(database_conf).in_use())


def test_a_host_that_never_reported_is_forgotten_too(
    made: Path, database_conf: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [f"--config-file={file}" for file in database_conf.config_file]
    assert manage.main([*files, "host", "forget", "vp1"]) == 0
    assert VP1 not in dict(BusKeyStore(database_conf).in_use())
    assert "rabbitmqctl delete_user nova-vp.vp-agent.vp1" in capsys.readouterr().out
    assert manage.main([*files, "host", "forget", "vp1"]) == 1
    assert "vp1 is not a known host" in capsys.readouterr().out


def test_the_only_key_is_not_retired_by_a_rotation(
    made: Path, database_conf: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(database_conf, "retire", "vp-agent/vp1", "--but-newest") == 1
    assert "has one key in use" in capsys.readouterr().out
    assert VP1 in dict(BusKeyStore(database_conf).in_use())


def test_a_folder_that_cannot_be_written_is_named(
    database_conf: cfg.ConfigOpts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert create(database_conf, tmp_path / "file" / "made", "--host=vp1") == 1
    told = capsys.readouterr().out
    assert f"{tmp_path}/file/made cannot be written" in told
    assert "give the same command again" in told


class HandClock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_listener_follows_the_database(database_conf: cfg.ConfigOpts) -> None:
    store, clock = BusKeyStore(database_conf), HandClock()
    ring = StoredKeys(store, clock)
    assert not ring.of(VP1)
    store.add([(VP1, public_text(new_private_key().public_key()))], datetime.now(UTC))
    clock.now_s += RETRY_S
    wait_until(lambda: len(ring.of(VP1)) == 1, "the new key to be read")
    store.retire(VP1, datetime.now(UTC))
    clock.now_s += READ_EVERY_S
    wait_until(lambda: not ring.of(VP1), "the retired key to go")


class HangingStore:
    """Answers once, then only when it is told to."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.keys = [(VP1, public_text(new_private_key().public_key()))]

    def in_use(self) -> list[tuple[Sender, str]]:
        assert self.goes_on.wait(30)
        return self.keys


def test_while_the_database_hangs_a_listener_believes_whom_it_knew() -> None:
    store, clock = HangingStore(), HandClock()
    ring = StoredKeys(store, clock)  # type: ignore[arg-type]
    assert len(ring.of(VP1)) == 1
    store.goes_on.clear()
    store.keys = []
    clock.now_s += READ_EVERY_S
    assert len(ring.of(VP1)) == 1
    store.goes_on.set()
    wait_until(lambda: not ring.of(VP1), "the keys to be read again")


def test_without_its_database_a_listener_believes_whom_it_knew(tmp_path: Path) -> None:
    from tests.synced import make_file

    path = tmp_path / "store.sqlite"
    make_file(path)
    file = tmp_path / "nova-vp.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{path}\n")
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(file)])
    store, clock = BusKeyStore(conf), HandClock()
    store.add([(VP1, public_text(new_private_key().public_key()))], datetime.now(UTC))
    ring = StoredKeys(store, clock)
    wait_until(lambda: len(ring.of(VP1)) == 1, "the keys to be read")
    os.truncate(path, 0)
    clock.now_s += READ_EVERY_S
    assert len(ring.of(VP1)) == 1
