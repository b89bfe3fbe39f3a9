# SPDX-License-Identifier: Apache-2.0
"""`vp-manage credentials`: who may speak on the bus: accounts of RabbitMQ and keys to sign with.

Private keys and passwords are written to files only, never into the database.
"""

import argparse
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from oslo_config import cfg

from nova_vp.db.bus_keys import BusKey, BusKeyStore
from nova_vp.service import failpoints
from nova_vp.service.broker_accounts import definitions, rights_definitions, user_of
from nova_vp.signing.keyring import (
    TRUSTED,
    new_private_key,
    private_key_file,
    private_text,
    public_text,
    trusted_lines,
)
from nova_vp.signing.senders import Process, Sender, sender_of

ACCOUNTS = "rabbitmq.json"
ACCOUNTS_COPY = "/var/lib/rabbitmq/nova-vp.json"
"""On RabbitMQ's host."""
UNFINISHED = "unfinished"
"""In a directory that `create` has not completed."""
CONTROLLER = (Process.SCHEDULER, Process.API, Process.NOVA_SCHEDULER)
"""The programs of a controller."""


class CannotWrite(Exception):
    """A folder is in the way. The text says what to do."""


def add_commands(credentials: argparse.ArgumentParser) -> None:
    actions = credentials.add_subparsers(dest="action", required=True)
    create = actions.add_parser(
        "create",
        help="Make keys and RabbitMQ accounts, and register the public keys; of a host that has "
        "keys, the former ones stay in use until they are retired",
    )
    create.add_argument(
        "--host", action="append", default=[], help="A compute host: [DEFAULT] host of nova-compute"
    )
    create.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="HOST",
        help="A host of vp-scheduler, vp-api and nova-scheduler: what `hostname` prints there",
    )
    _add_broker(create)
    create.add_argument(
        "--directory",
        required=True,
        type=Path,
        help="New directory for the files: HOST/ goes to /etc/nova-vp of that host",
    )
    create.set_defaults(run=_create)
    listing = actions.add_parser("list", help="List the registered public keys")
    listing.add_argument(
        "-f", "--format", choices=["table", "json"], default="table", help="Output format"
    )
    listing.set_defaults(run=_list)
    trusted = actions.add_parser(
        "trusted", help="Print the file keys/trusted: the controllers' public keys in use"
    )
    trusted.add_argument(
        "--all", action="store_true", help="With the hosts' keys, for a cloud without vp-scheduler"
    )
    trusted.set_defaults(run=_print_trusted)
    rights = actions.add_parser(
        "rights",
        help="Print what the accounts of the keys in use may do, for `rabbitmqctl "
        "import_definitions`; they keep their passwords",
    )
    _add_broker(rights)
    rights.set_defaults(run=_print_rights)
    retire = actions.add_parser(
        "retire", help="Never believe the keys of a sender again, as of a host that was stolen"
    )
    retire.add_argument("sender", type=_sender, help="As vp-agent/HOST; see `list`")
    retire.add_argument(
        "--but-newest", action="store_true", help="Keep the newest key, after a rotation"
    )
    retire.set_defaults(run=_retire)


def _add_broker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--broker",
        required=True,
        type=_broker,
        metavar="URL",
        help="RabbitMQ and its virtual host without an account, as rabbit://controller:5672/nova-vp",
    )


def _broker(text: str) -> str:
    url = urlsplit(text)
    try:
        is_address = bool(url.hostname) and url.port != 0 and "," not in url.netloc
    except ValueError:
        is_address = False
    if url.scheme != "rabbit" or not is_address or url.username or url.query:
        raise argparse.ArgumentTypeError(
            "give it as rabbit://HOST:5672/VHOST, one host, without user and password"
        )
    return text


def _sender(text: str) -> Sender:
    try:
        return sender_of(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _create(conf: cfg.ConfigOpts) -> int:
    given = conf.category
    try:
        senders = _senders(given.host, given.controller)
        with _new_folder(given.directory) as folder:
            others = _make(BusKeyStore(conf), folder, senders, given.broker)
    except (ValueError, CannotWrite) as exc:
        print(f"vp-manage: {exc}")
        return 1
    except OSError as exc:
        print(
            f"vp-manage: {given.directory} cannot be written: {exc}; make room or give rights "
            "there and give the same command again, or give another directory"
        )
        return 1
    print(
        f"{len(senders)} keys are registered.\n"
        # A copy, since rabbitmqctl runs as a user that may not read this directory. Standard input
        # is no way: with RabbitMQ 4.0.5 it hangs (rabbitmq-server, issue 13157).
        "1. On RabbitMQ's host, with this file:\n"
        f"   install -o rabbitmq -m 400 {folder / ACCOUNTS} {ACCOUNTS_COPY}\n"
        f"   rabbitmqctl import_definitions {ACCOUNTS_COPY}; rm {ACCOUNTS_COPY}\n"
        f"   From then on these accounts of virtual host {_virtual_host(given.broker)} have new "
        "passwords\n"
        f"2. To each host: what is in its directory under {folder}, to /etc/nova-vp. There: "
        "chgrp -R nova-vp /etc/nova-vp, and restart its programs\n"
        f"3. Delete {folder}: it has private keys and passwords"
    )
    if any(sender.process is not Process.AGENT for sender in senders) and others:
        print(
            "Hosts that are not in it need the new keys/trusted before these controllers start: "
            "`vp-manage credentials trusted`"
        )
    return 0


def _make(store: BusKeyStore, folder: Path, senders: Sequence[Sender], broker: str) -> bool:
    """Whether other keys are in use. Raises OSError.

    A key is registered once its file is written: one that nobody has is of no use. What names all
    keys in use comes after that, so that of two who make keys at once one names those of both.
    """
    keys = {sender: new_private_key() for sender in senders}
    passwords = {sender: secrets.token_urlsafe(24) for sender in senders}
    for sender, key in keys.items():
        place = folder / sender.host
        _write(private_key_file(place / "keys", sender.process), private_text(key))
        _write(place / f"{sender.process}.conf", _file(broker, sender, passwords[sender]))
    public = [(sender, public_text(key.public_key())) for sender, key in keys.items()]
    failpoints.reach("before-keys-registered")
    store.add(public, datetime.now(UTC))
    failpoints.reach("after-keys-registered")
    in_use = store.in_use()
    for sender in senders:
        _write(folder / sender.host / "keys" / TRUSTED, _trusted(in_use).encode())
    accounts = definitions(passwords, _virtual_host(broker))
    _write(folder / ACCOUNTS, json.dumps(accounts, indent=2).encode())
    return not set(in_use) <= set(public)


def _virtual_host(broker: str) -> str:
    return urlsplit(broker).path.strip("/") or "/"


def _senders(hosts: Sequence[str], controllers: Sequence[str]) -> list[Sender]:
    """Raises ValueError."""
    names = [f"{Process.AGENT}/{host}" for host in hosts]
    names += [f"{process}/{host}" for host in controllers for process in CONTROLLER]
    if not names:
        raise ValueError("give at least one --host or --controller")
    for name in (ACCOUNTS, UNFINISHED):
        if name in (*hosts, *controllers):
            raise ValueError(f"{name} is the name of a file here, and of no host")
    return sorted({sender_of(name) for name in names})


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """For one process at a time. What a process has left there that did not finish is deleted: its
    accounts are in no file. Raises CannotWrite, OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    try:
        _lock(held, folder)
        if (folder / UNFINISHED).exists():
            _empty(folder)
        elif any(folder.iterdir()):
            raise CannotWrite(
                f"{folder} is not empty: give a new directory, or delete this one once its files "
                "are where they belong"
            )
        (folder / UNFINISHED).touch()
        yield folder
        (folder / UNFINISHED).unlink()
    finally:
        os.close(held)


def _lock(held: int, folder: Path) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise CannotWrite(
            f"another `vp-manage credentials create` writes to {folder}: give another directory"
        ) from exc


def _empty(folder: Path) -> None:
    """The mark goes last: who is killed here is followed by one who begins here."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != UNFINISHED:
            path.unlink()


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "wb") as file:
        file.write(data)


def _file(broker: str, sender: Sender, password: str) -> bytes:
    account = f"{quote(user_of(sender), safe='')}:{password}@"
    url = broker.replace("rabbit://", f"rabbit://{account}", 1)
    text = f"# Of {sender.process} on {sender.host}.\n[bus]\ntransport_url = {url}\n"
    return text.encode()


def _trusted(keys: Iterable[tuple[Sender, str]], with_hosts: bool = False) -> str:
    return trusted_lines(
        (sender, text) for sender, text in keys if with_hosts or sender.process is not Process.AGENT
    )


def _print_trusted(conf: cfg.ConfigOpts) -> None:
    print(_trusted(BusKeyStore(conf).in_use(), conf.category.all), end="")


def _print_rights(conf: cfg.ConfigOpts) -> None:
    """An account is there as long as a key of its program is in use."""
    senders = sorted(dict(BusKeyStore(conf).in_use()))
    print(json.dumps(rights_definitions(senders, _virtual_host(conf.category.broker)), indent=2))


def _list(conf: cfg.ConfigOpts) -> None:
    found = BusKeyStore(conf).list_all()
    if conf.category.format == "json":
        print(json.dumps([_as_json(one) for one in found], indent=2))
    elif not found:
        print("no keys; make some with `vp-manage credentials create`")
    else:
        for one in found:
            until = f"retired {one.retired_at:%Y-%m-%d %H:%M}" if one.retired_at else "in use"
            print(f"{one.sender!s:40} {one.text[:12]}…  {one.created_at:%Y-%m-%d}  {until}")


def _as_json(one: BusKey) -> dict[str, Any]:
    return {
        "sender": str(one.sender),
        "public_key": one.text,
        "created_at": one.created_at.isoformat(),
        "retired_at": one.retired_at.isoformat() if one.retired_at else None,
    }


def _retire(conf: cfg.ConfigOpts) -> int:
    sender, store = conf.category.sender, BusKeyStore(conf)
    in_use = [one for one in store.list_all() if one.sender == sender and not one.retired_at]
    keep = [in_use[-1].text] if in_use and conf.category.but_newest else []
    if keep and len(in_use) > 1 and in_use[-2].created_at == in_use[-1].created_at:
        print(
            f"two keys of {sender} were made in the same second, and either may be in use: make"
            " one more with `vp-manage credentials create`, bring it to the machine, and retire"
            " then"
        )
        return 1
    retired = store.retire(sender, datetime.now(UTC), keep=keep)
    if keep and not retired:
        print(f"{sender} has one key in use, and it stays; without --but-newest it is retired")
        return 1
    if not retired:
        print(f"{sender} has no key to retire; `vp-manage credentials list` lists them")
        return 1
    print(f"{retired} of {sender} retired; they are refused within some seconds")
    if not keep:
        user = user_of(sender)
        print(
            f"so that it cannot connect either: rabbitmqctl delete_user {user}\n"
            f"to end what is connected: rabbitmqctl close_all_user_connections {user} retired"
        )
    if sender.process is not Process.AGENT:
        print(
            "hosts believe it until they have the new keys/trusted: `vp-manage credentials trusted`"
        )
    return 0
