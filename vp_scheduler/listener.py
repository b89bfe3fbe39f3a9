# SPDX-License-Identifier: Apache-2.0
"""Listens for the hosts' digests and keeps a host view up to date with them.

Asks every host to repeat its digest as soon as it listens, so that a scheduler that was just
started soon knows them all. What is wrong with a message is counted, and told once per kind.
"""

import logging
import random
import socket
import threading
from collections import Counter
from typing import Any

import oslo_messaging
from oslo_config import cfg

from nova_vp import rpcapi, wire
from vp_scheduler.host_view import HostView, Unwelcome

LOG = logging.getLogger(__name__)
REPUBLISH_WITHIN_S = 5.0
START_WITHIN_S = 0.3
"""A child that only lives to execute another program must not get as far as the broker."""


class DigestEndpoint:
    """`rpcapi.DigestAPI`, served."""

    target = oslo_messaging.Target(version="1.0")

    def __init__(self, view: HostView) -> None:
        self._view = view
        self.refused: Counter[str] = Counter()

    def digest(self, context: Any, text: Any) -> None:
        try:
            self._view.accept(text)
        except Unwelcome as exc:
            self._note("unwelcome", exc, logging.DEBUG)
        except wire.BadMessage as exc:
            self._note("malformed", exc, logging.WARNING)

    def _note(self, kind: str, exc: Exception, level: int) -> None:
        self.refused[kind] += 1
        count = self.refused[kind]
        # At 1, 10, 100 ...: a flood of bad messages must not become a flood of log lines.
        if str(count).rstrip("0") == "1":
            LOG.log(level, "refused %d %s digests, the latest: %s", count, kind, exc)


class DigestListener:
    def __init__(self, conf: cfg.ConfigOpts, view: HostView) -> None:
        where = rpcapi.target(wire.DIGEST_TOPIC, server=socket.gethostname())
        self._server = rpcapi.BackgroundServer(
            conf, where, [DigestEndpoint(view)], on_ready=self._ask_for_digests
        )

    def start(self) -> None:
        """Returns at once; listens from a moment later, or from when the broker is there."""
        delay_s = random.uniform(START_WITHIN_S / 3, START_WITHIN_S)
        timer = threading.Timer(delay_s, self._server.start)
        timer.daemon = True
        timer.start()

    def stop(self, timeout_s: float = rpcapi.STOP_TIMEOUT_S) -> None:
        self._server.stop(timeout_s)

    def _ask_for_digests(self, transport: oslo_messaging.Transport) -> None:
        try:
            rpcapi.AgentAPI(transport).republish(REPUBLISH_WITHIN_S)
        except oslo_messaging.MessagingException as exc:
            LOG.warning("could not ask the hosts for their digests, they come by and by: %s", exc)
