# SPDX-License-Identifier: Apache-2.0
"""Keys for tests: one that everybody signs with where authority is not what is tried."""

import atexit
import copy
import functools
import shutil
import tempfile
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from oslo_config import cfg

from nova_vp.answers import open_asking_bus
from nova_vp.db.bus_keys import BusKeyStore
from nova_vp.rpctransport import Bus
from nova_vp.signing.envelope import Call
from nova_vp.signing.identity import Identity
from nova_vp.signing.keyring import (
    TRUSTED,
    new_private_key,
    private_key_file,
    private_text,
    public_text,
    read_private_key,
    trusted_lines,
)
from nova_vp.signing.senders import Process, Sender


def write_keys(
    folder: Path, senders: Iterable[Sender] = (Sender(Process.SCHEDULER, "ctl1"),)
) -> Path:
    """A folder as `[bus] keys_directory` names it, with one key for all programs. `senders`:
    those that are trusted with it."""
    folder.mkdir(exist_ok=True)
    key = new_private_key()
    for process in Process:
        path = private_key_file(folder, process)
        path.touch(0o600)
        path.write_bytes(private_text(key))
    text = public_text(key.public_key())
    (folder / TRUSTED).write_text(trusted_lines((sender, text) for sender in senders))
    return folder


@functools.cache
def keys_directory() -> Path:
    """Of this process of tests."""
    folder = Path(tempfile.mkdtemp(prefix="nova-vp-keys-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_keys(folder)


def trust(*senders: Sender) -> None:
    """Programs with their own configuration trust these too, with the shared key."""
    text = public_text(_shared_key())
    known = (Sender(Process.SCHEDULER, "ctl1"), *senders)
    (keys_directory() / TRUSTED).write_text(trusted_lines((one, text) for one in known))


@functools.cache
def _shared_key() -> Ed25519PublicKey:
    return read_private_key(private_key_file(keys_directory(), Process.AGENT)).public_key()


class Everybody:
    """Signs with the shared key."""

    def of(self, sender: Sender) -> Collection[Ed25519PublicKey]:
        return (_shared_key(),)


def identity_of(conf: cfg.ConfigOpts, process: Process, host: str = "vp1") -> Identity:
    """Of one whom everybody knows, and who knows everybody."""
    conf.set_override("keys_directory", str(keys_directory()), group="bus")
    return Identity(conf, process, Everybody, host)


def scheduler(conf: cfg.ConfigOpts) -> Identity:
    return identity_of(conf, Process.SCHEDULER, "ctl1")


def agent(conf: cfg.ConfigOpts, host: str = "vp1") -> Identity:
    return identity_of(conf, Process.AGENT, host)


def api_bus(conf: cfg.ConfigOpts) -> Bus:
    """vp-api's, which waits for answers."""
    return open_asking_bus(identity_of(conf, Process.API, "ctl1"))


def scheduler_bus(conf: cfg.ConfigOpts) -> Bus:
    return open_asking_bus(scheduler(conf))


def agent_bus(conf: cfg.ConfigOpts, host: str = "vp1") -> Bus:
    return Bus(agent(conf, host))


def on_behalf(bus: Bus, host: str) -> Bus:
    """Of another agent, over the same connection."""
    other = copy.copy(bus)
    other.identity = agent(bus.identity.conf, host)
    return other


def register(conf: cfg.ConfigOpts, *senders: Sender) -> None:
    """In the database that `conf` names, with the shared key."""
    text = public_text(_shared_key())
    BusKeyStore(conf).add([(sender, text) for sender in senders], datetime.now(UTC))


def call_of(process: Process = Process.AGENT, host: str = "vp1", method: str = "") -> Call:
    """As endpoints are given it, once its signature is checked."""
    return Call(Sender(process, host), "", method, {}, "1", "", "")
