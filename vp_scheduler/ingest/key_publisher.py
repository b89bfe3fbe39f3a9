# SPDX-License-Identifier: Apache-2.0
"""Tells nova-scheduler's processes the agents' public keys: they have no database of ours.

When keys have changed, looked at every few seconds, once a minute anyway, and before hosts are
asked for digests, which nobody could believe otherwise. Any number of vp-schedulers tell; the
latest message holds.
"""

import logging
import math
import threading
import time
from typing import Protocol

import oslo_messaging

from nova_vp import rpcapi, rpctransport, wire
from nova_vp.db.report_store import ERRORS
from nova_vp.signing.identity import Identity
from nova_vp.signing.senders import Process, Sender
from vp_scheduler.ingest.coalesce import Coalescer

LOG = logging.getLogger(__name__)
EVERY_S = 10.0
REPEAT_S = 60.0
"""What is fanned out while a scheduler does not listen is lost."""
FAULTS = (*ERRORS, oslo_messaging.MessagingException, wire.BadMessage)
HostKeys = list[tuple[str, str]]


class KeyListing(Protocol):
    """What of `nova_vp.db.bus_keys.BusKeyStore` is used."""

    def in_use(self, process: Process | None = None) -> list[tuple[Sender, str]]: ...


class HostKeyPublisher:
    def __init__(self, identity: Identity, store: KeyListing) -> None:
        self._identity = identity
        self._store = store
        self._lock = threading.Lock()
        self._bus: rpctransport.Bus | None = None
        self._told: HostKeys = []
        self._told_at_s = -math.inf
        self._is_failing = False
        self._on_change = Coalescer("keys", lambda is_asked: self._try_to_tell(False), EVERY_S)

    def start(self) -> None:
        self._on_change.start()

    def close(self, timeout_s: float) -> None:
        self._on_change.close(timeout_s)

    def tell(self) -> None:
        """All keys, to all schedulers, before anything else that is sent after this."""
        self._try_to_tell(True)

    def _try_to_tell(self, is_asked: bool) -> None:
        with self._lock:
            try:
                self._tell(is_asked)
            except FAULTS as exc:
                if not self._is_failing:
                    LOG.warning("the hosts' keys were not told, trying again: %s", exc)
                self._is_failing = True
            else:
                self._is_failing = False

    def _tell(self, is_asked: bool) -> None:
        found = self._store.in_use(Process.AGENT)
        keys = [(sender.host, text) for sender, text in found][: wire.MAX_HOST_KEYS]
        is_old = time.monotonic() - self._told_at_s >= REPEAT_S
        if is_asked or is_old or keys != self._told:
            if self._bus is None:
                self._bus = rpctransport.Bus(self._identity)
            message = {"v": wire.VERSION, "sent": time.time(), "keys": keys}
            rpcapi.DigestAPI(self._bus).host_keys(wire.encode(wire.HOST_KEYS, message))
            self._told, self._told_at_s = keys, time.monotonic()
