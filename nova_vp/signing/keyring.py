# SPDX-License-Identifier: Apache-2.0
"""Where keys lie: a program's private key in a file of its own, the public keys of others.

Agents and nova-scheduler trust the controllers' keys that an administrator put into the file
`trusted` beside their own. Controllers look agents up in the database (`nova_vp.db.bus_keys`).
nova-scheduler, which has no database of ours, is told of the agents' keys by vp-scheduler.
"""

import base64
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nova_vp.signing.envelope import Keys
from nova_vp.signing.senders import Process, Sender, sender_of

LOG = logging.getLogger(__name__)
TRUSTED = "trusted"
LOOK_EVERY_S = 1.0
MEND_TRUSTED = "write what `vp-manage credentials trusted` prints there"
MOST_KEYS = 50_000
"""Of the largest cloud, two of each host while they are rotated."""
PublicKeys = Mapping[Sender, tuple[Ed25519PublicKey, ...]]


class BadKey(Exception):
    """A key or a file of keys cannot be used. The text says which, and what to do."""

    def __init__(self, fault: str, mend: str = "") -> None:
        super().__init__(f"{fault}: {mend}" if mend else fault)
        self.fault, self.mend = fault, mend


def private_key_file(folder: str | Path, process: Process) -> Path:
    return Path(folder) / f"{process}.pem"


def new_private_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def private_text(key: Ed25519PrivateKey) -> bytes:
    """PEM, PKCS 8, not encrypted: the file's mode keeps it."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def public_text(key: Ed25519PublicKey) -> str:
    """The 32 bytes, Base64."""
    return base64.b64encode(key.public_bytes_raw()).decode("ascii")


@functools.lru_cache(MOST_KEYS)
def public_key(text: str) -> Ed25519PublicKey:
    """Raises BadKey. Remembered, since those of all hosts are read again every few seconds."""
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise BadKey(f"{text[:60]!r} is no Ed25519 public key in Base64") from exc


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Raises BadKey."""
    mend = (
        "make one with `vp-manage credentials create`, and copy its keys folder to [bus] "
        "keys_directory, readable by this program's user alone"
    )
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except PermissionError as exc:
        raise BadKey(
            f"the private key in {path} may not be read ({exc})",
            "give the file to this program's user or group: chgrp, then chmod 0640",
        ) from exc
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise BadKey(f"no private key in {path} ({exc})", mend) from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey(f"the private key in {path} is not an Ed25519 key", mend)
    if path.stat().st_mode & 0o007:
        raise BadKey(
            f"anybody can read {path}", "make a new key, and give the file mode 0640 or less"
        )
    return key


def trusted_lines(keys: Iterable[tuple[Sender, str]]) -> str:
    """The file `trusted`: a sender and a public key in each line."""
    head = "# Public keys of controllers: sender and Ed25519 key. See `vp-manage credentials`.\n"
    return head + "".join(f"{sender} {text}\n" for sender, text in sorted(keys))


def read_trusted(path: Path) -> PublicKeys:
    """Raises BadKey, with the line."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as exc:
        raise BadKey(f"no public keys in {path} ({exc})", MEND_TRUSTED) from exc
    found: dict[Sender, tuple[Ed25519PublicKey, ...]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, text = line.partition(" ")
        try:
            sender = sender_of(name)
            found[sender] = (*found.get(sender, ()), public_key(text.strip()))
        except (ValueError, BadKey) as exc:
            raise BadKey(f"{path} line {number}: {exc}", MEND_TRUSTED) from exc
    if not found:  # As while somebody writes it.
        raise BadKey(f"no public keys in {path}", MEND_TRUSTED)
    return found


def by_sender(keys: Iterable[tuple[Sender, str]]) -> PublicKeys:
    """Those that cannot be read are left out."""
    found: dict[Sender, tuple[Ed25519PublicKey, ...]] = {}
    for sender, text in keys:
        try:
            found[sender] = (*found.get(sender, ()), public_key(text))
        except BadKey:
            continue
    return found


class FileKeys:
    """The public keys in a `trusted` file, read again when it changes.

    A file that has become unreadable changes nothing: what was read last holds, and the log says
    so.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises BadKey."""
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._keys = read_trusted(path)
        self._told_of = self._stamp
        self._looked_at_s = clock()

    def of(self, sender: Sender) -> Collection[Ed25519PublicKey]:
        self._look()
        return self._keys.get(sender, ())

    def _look(self) -> None:
        with self._lock:
            if self._clock() - self._looked_at_s < LOOK_EVERY_S:
                return
            self._looked_at_s = self._clock()
            if (stamp := _stamp(self._path)) == self._stamp:
                return
            try:
                self._keys = read_trusted(self._path)
            except BadKey as exc:
                if stamp != self._told_of:
                    self._told_of = stamp
                    LOG.warning("%s; the keys that were read before hold", exc)
                return
            self._stamp = stamp


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino


class ToldKeys:
    """The agents' public keys, as a vp-scheduler told them last."""

    def __init__(self) -> None:
        self._keys: PublicKeys = {}

    def accept(self, keys: PublicKeys) -> None:
        """All there are: a host that is not named has none any more."""
        self._keys = keys

    def of(self, sender: Sender) -> Collection[Ed25519PublicKey]:
        return self._keys.get(sender, ())


class FirstKnown:
    """Of several keyrings the first that knows a sender."""

    def __init__(self, *rings: Keys) -> None:
        self._rings = rings

    def of(self, sender: Sender) -> Collection[Ed25519PublicKey]:
        return next((keys for ring in self._rings if (keys := ring.of(sender))), ())
