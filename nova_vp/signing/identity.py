# SPDX-License-Identifier: Apache-2.0
"""Who a program is on the bus, and whose word it takes: its own key and its keyring."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from oslo_config import cfg

from nova_vp.signing.envelope import Keys, Signer
from nova_vp.signing.keyring import TRUSTED, BadKey, FileKeys, private_key_file, read_private_key
from nova_vp.signing.senders import Process, Sender

if TYPE_CHECKING:
    from nova_vp.bounded_sends import BoundedSends


class Identity:
    """What all that a process sends and hears has in common. Files are read when first needed, so
    that a host whose keys are not there yet only works alone until they are."""

    def __init__(
        self, conf: cfg.ConfigOpts, process: Process, keyring: Callable[[], Keys], host: str = ""
    ) -> None:
        """`keyring`: whose word is taken; may raise cfg.Error. `host`: without, what the machine
        calls itself."""
        self.conf = conf
        self.sender = Sender(process, host or socket.gethostname())
        self._keyring = keyring

    def check(self) -> None:
        """Raises cfg.Error: which file is missing, and how to make it."""
        _ = self.signer, self.keys

    @cached_property
    def signer(self) -> Signer:
        """Raises cfg.Error."""
        folder = Path(self.conf.bus.keys_directory)
        with _as_option(folder):
            key = read_private_key(private_key_file(folder, self.sender.process))
        return Signer(self.sender, key)

    @cached_property
    def keys(self) -> Keys:
        """Raises cfg.Error."""
        return self._keyring()

    @cached_property
    def sends(self) -> "BoundedSends":
        """By which all that this process sends goes. Raises oslo.messaging's exceptions for an URL
        of the bus that cannot be used."""
        # Late: it brings oslo.messaging, and who neither sends nor listens does without.
        from nova_vp.bounded_sends import BoundedSends
        from nova_vp.service.broker_probe import BrokerProbe, brokers

        return BoundedSends(BrokerProbe(brokers(self.conf)).greet)


def trusted_keys(conf: cfg.ConfigOpts) -> FileKeys:
    """Of controllers, for those who cannot ask the database. Raises cfg.Error."""
    folder = Path(conf.bus.keys_directory)
    with _as_option(folder):
        return FileKeys(folder / TRUSTED)


@contextmanager
def _as_option(folder: Path) -> Iterator[None]:
    try:
        yield
    except BadKey as exc:
        raise cfg.Error(f"[bus] keys_directory = {folder}: {exc}") from exc
