# SPDX-License-Identifier: Apache-2.0
"""`vp-manage credentials`: who may speak on the bus: accounts of RabbitMQ and keys to sign with.

Private keys and passwords are written to files only, never into the database.
"""

import argparse
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from oslo_config import cfg

from nova_vp.db.bus_keys import BusKey, BusKeyStore
from nova_vp.service.broker_accounts import definitions, user_of
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
    create.add_argument(
        "--broker",
        required=True,
        type=_broker,
        metavar="URL",
        help="RabbitMQ and its virtual host without an account, as rabbit://controller:5672/nova-vp",
    )
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
    retire = actions.add_parser(
        "retire", help="Never believe the keys of a sender again, as of a host that was stolen"
    )
    retire.add_argument("sender", type=_sender, help="As vp-agent/HOST; see `list`")
    retire.add_argument(
        "--but-newest", action="store_true", help="Keep the newest key, after a rotation"
    )
    retire.set_defaults(run=_retire)


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
        folder = _new_folder(given.directory)
    except (ValueError, CannotWrite, OSError) as exc:
        print(f"vp-manage: {exc}")
        return 1
    keys = {sender: new_private_key() for sender in senders}
    public = [(sender, public_text(key.public_key())) for sender, key in keys.items()]
    store = BusKeyStore(conf)
    in_use = store.in_use()
    try:
        _write_all(folder, keys, _trusted([*in_use, *public]), given.broker)
    except OSError as exc:
        print(f"vp-manage: {exc}; no key was registered: delete {folder}, and try again")
        return 1
    # Last: a key whose file could not be written is known to nobody.
    store.add(public, datetime.now(UTC))
    print(
        f"{len(senders)} keys are registered.\n"
        f"1. On RabbitMQ's host: rabbitmqctl import_definitions {folder / ACCOUNTS}\n"
        f"2. To each host: its directory under {folder}, to /etc/nova-vp; the files of keys/ "
        "readable by the programs' users alone\n"
        f"3. Delete {folder}: it has private keys and passwords"
    )
    if any(sender.process is not Process.AGENT for sender in senders) and in_use:
        print(
            "Hosts that are not in it need the new keys/trusted before these controllers start: "
            "`vp-manage credentials trusted`"
        )
    return 0


def _write_all(
    folder: Path, keys: Mapping[Sender, Ed25519PrivateKey], trusted: str, broker: str
) -> None:
    """Raises OSError."""
    passwords = {sender: secrets.token_urlsafe(24) for sender in keys}
    for sender, key in keys.items():
        place = folder / sender.host
        _write(private_key_file(place / "keys", sender.process), private_text(key))
        _write(place / "keys" / TRUSTED, trusted.encode())
        _write(place / f"{sender.process}.conf", _file(broker, sender, passwords[sender]))
    accounts = definitions(passwords, urlsplit(broker).path.strip("/") or "/")
    _write(folder / ACCOUNTS, json.dumps(accounts, indent=2).encode())


def _senders(hosts: Sequence[str], controllers: Sequence[str]) -> list[Sender]:
    """Raises ValueError."""
    names = [f"{Process.AGENT}/{host}" for host in hosts]
    names += [f"{process}/{host}" for host in controllers for process in CONTROLLER]
    if not names:
        raise ValueError("give at least one --host or --controller")
    if ACCOUNTS in (*hosts, *controllers):
        raise ValueError(f"{ACCOUNTS} is the name of a file here, and of no host")
    return sorted({sender_of(name) for name in names})


def _new_folder(folder: Path) -> Path:
    """Raises CannotWrite, OSError."""
    if folder.exists() and any(folder.iterdir()):
        raise CannotWrite(f"{folder} is not empty: give a new directory, so that no key is lost")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


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
    retired = store.retire(sender, datetime.now(UTC), keep=keep)
    if not retired:
        print(f"{sender} has no key to retire; `vp-manage credentials list` lists them")
        return 1
    print(f"{retired} of {sender} retired; they are refused within some seconds")
    if not keep:
        print(f"so that it cannot connect either: rabbitmqctl delete_user {user_of(sender)}")
    if sender.process is not Process.AGENT:
        print(
            "hosts believe it until they have the new keys/trusted: `vp-manage credentials trusted`"
        )
    return 0
