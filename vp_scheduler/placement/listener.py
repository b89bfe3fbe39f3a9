# SPDX-License-Identifier: Apache-2.0
"""Listens for the hosts' digests and for learned profiles, and keeps a host view up to date.

Says that it listens as soon as it does: the vp-scheduler that hears it sends what it has learned,
and has every host repeat its digest, so that a scheduler that was just started soon knows it all.
"""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import oslo_messaging

from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.message_filter import MessageFilter, RejectedMessage
from nova_vp.signing.envelope import AHEAD_S, Call
from nova_vp.signing.identity import Identity
from nova_vp.signing.keyring import ToldKeys, by_sender
from nova_vp.signing.senders import Process, Sender
from vp_scheduler.ingest import jitter
from vp_scheduler.placement.host_view import HostView

LOG = logging.getLogger(__name__)
ANSWER_WITHIN_S = 5.0
"""A vp-scheduler that was asked answers everybody with what it has learned."""
START_WITHIN_S = 0.3
"""A child that only lives to execute another program must not get as far as the broker."""


class DigestEndpoint:
    """`rpcapi.DigestAPI`, served."""

    def __init__(self, view: HostView, host_keys: ToldKeys) -> None:
        self._view = view
        self._host_keys = host_keys
        self._keys_sent = 0.0
        self.refusals = MessageFilter()
        self.is_answered = threading.Event()
        """A vp-scheduler is there."""

    def digest(self, call: Call, text: Any) -> None:
        self._take("digests", lambda one: self._view.accept(one, call.sender.host), text)

    def host_keys(self, call: Call, text: Any) -> None:
        self._take("host keys", self._take_keys, text)

    def _take_keys(self, text: Any) -> None:
        message = wire.decode(wire.HOST_KEYS, text)
        if message["sent"] > time.time() + AHEAD_S:
            raise RejectedMessage("sent in the future: all later ones would be refused")
        if message["sent"] < self._keys_sent:
            raise RejectedMessage("a later message has come before")
        self._keys_sent = message["sent"]
        agents = ((Sender(Process.AGENT, host), key) for host, key in message["keys"])
        self._host_keys.accept(by_sender(agents))

    def profiles(self, call: Call, text: Any) -> None:
        self.is_answered.set()
        self._take("profiles", self._view.learned.accept, text)

    def _take(self, what: str, accept: Callable[[Any], None], text: Any) -> None:
        try:
            accept(text)
        except RejectedMessage as exc:
            self.refusals.note("unwelcome", what, exc, logging.DEBUG)
        except wire.BadMessage as exc:
            self.refusals.note("malformed", what, exc)


class DigestListener:
    def __init__(self, identity: Identity, view: HostView, host_keys: ToldKeys) -> None:
        """`host_keys`: among those whose word `identity` takes; a vp-scheduler tells them."""
        # A host has several such processes, and each hears everything.
        server = f"{identity.sender.host}.{uuid.uuid4().hex}"
        where = rpctransport.target(wire.DIGEST_TOPIC, server)
        self._endpoint = DigestEndpoint(view, host_keys)
        self._server = rpcserver.BackgroundServer(
            identity, where, [self._endpoint], on_ready=self._ask_for_news
        )
        self._known_hosts = identity.conf.vp_scheduler.known_hosts

    def start(self) -> None:
        """Returns at once; listens from a moment later, or from when the broker is there."""
        delay_s = random.uniform(START_WITHIN_S / 3, START_WITHIN_S)
        timer = threading.Timer(delay_s, self._server.start)
        timer.daemon = True
        timer.start()

    def stop(self, timeout_s: float = rpcserver.STOP_TIMEOUT_S) -> None:
        self._endpoint.is_answered.set()
        self._server.stop(timeout_s)

    def _ask_for_news(self, bus: rpctransport.Bus) -> None:
        try:
            rpcapi.ReportAPI(bus).scheduler_started()
        except rpcapi.NobodyListens as exc:
            LOG.info("what was learned of others' servers is unused: %s", exc)
            self._ask_hosts(bus)
        except oslo_messaging.MessagingException as exc:
            LOG.warning("could not ask for the hosts' digests, they come by and by: %s", exc)
        else:
            # Its queue outlives a vp-scheduler, for a while.
            if not self._endpoint.is_answered.wait(ANSWER_WITHIN_S):
                LOG.info("no vp-scheduler has answered, the hosts are asked from here")
                self._ask_hosts(bus)

    def _ask_hosts(self, bus: rpctransport.Bus) -> None:
        """Where no vp-scheduler can say how many they are."""
        hosts = len(self._known_hosts) or jitter.UNKNOWN_HOSTS
        within_s = jitter.spread_s(hosts, jitter.DIGESTS_PER_S)
        try:
            rpcapi.AgentAPI(bus).republish_digest(within_s)
        except oslo_messaging.MessagingException as exc:
            LOG.warning("could not ask the hosts for their digests, they come by and by: %s", exc)
