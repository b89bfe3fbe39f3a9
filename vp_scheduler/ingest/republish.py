# SPDX-License-Identifier: Apache-2.0
"""Calls on the hosts to repeat themselves: for a vp-scheduler that starts, and for schedulers.

A scheduler process knows no host when it starts; the database knows how many there are, and with
that how fast they may answer.
"""

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import oslo_messaging

from nova_vp import rpcapi, rpctransport
from nova_vp.db.records import HostHead
from nova_vp.db.report_store import ERRORS
from nova_vp.signing.identity import Identity
from vp_scheduler.ingest import jitter
from vp_scheduler.ingest.coalesce import Coalescer

LOG = logging.getLogger(__name__)


class Listing(Protocol):
    def list_heads(self) -> list[HostHead]: ...


class RepublishRequester:
    def __init__(self, identity: Identity, store: Listing, tell_keys: Callable[[], None]) -> None:
        """`tell_keys`: to those who will hear the digests that are asked for."""
        self._identity = identity
        self._tell_keys = tell_keys
        self._store = store
        self._on_demand = Coalescer("call", lambda is_asked: self._call_for_digests())

    def start(self) -> None:
        self._on_demand.start()

    def close(self, timeout_s: float) -> None:
        self._on_demand.close(timeout_s)

    def ask_for_digests(self) -> None:
        """A scheduler process has just started. Returns at once."""
        self._on_demand.ask()

    def call_for_reports(self, bus: rpctransport.Bus) -> None:
        self._tell_keys()
        within_s = jitter.spread_s(self._count_hosts(), jitter.REPORTS_PER_S)
        try:
            rpcapi.AgentAPI(bus).republish(within_s)
        except oslo_messaging.MessagingException as exc:
            LOG.warning("could not ask the hosts for their reports, they come by and by: %s", exc)

    def _call_for_digests(self) -> None:
        self._tell_keys()
        within_s = jitter.spread_s(self._count_hosts(), jitter.DIGESTS_PER_S)
        try:
            rpcapi.AgentAPI(self._bus).republish_digest(within_s)
        except oslo_messaging.MessagingException as exc:
            LOG.warning("could not ask the hosts for their digests, they come by and by: %s", exc)

    def _count_hosts(self) -> int:
        try:
            return len(self._store.list_heads())
        except ERRORS:
            return jitter.UNKNOWN_HOSTS  # the database is away

    @cached_property
    def _bus(self) -> rpctransport.Bus:
        return rpctransport.Bus(self._identity)
