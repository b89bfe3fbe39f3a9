# SPDX-License-Identifier: Apache-2.0
"""How a process listens on the message bus: from before its broker is there until nothing is lost.

Endpoints live where they serve, what is sent in `rpcapi.py`.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg

from nova_vp.rpcapi import open_transport

LOG = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0


class BackgroundServer:
    """An RPC server that waits for its broker on a thread of its own, however long that takes."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        where: oslo_messaging.Target,
        endpoints: Sequence[object],
        *,
        threads: int = 1,
        on_ready: Callable[[oslo_messaging.Transport], None] | None = None,
    ) -> None:
        self._conf = conf
        self._where = where
        self._endpoints = endpoints
        self._threads = threads
        self._on_ready = on_ready
        self._ready: tuple[Any, oslo_messaging.Transport] | None = None
        self._is_stopped = False
        self._lock = threading.Lock()
        self._has_asked = threading.Event()
        self._ending: threading.Thread | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"listen-{self._where.topic}", daemon=True).start()

    def _run(self) -> None:
        try:
            transport = open_transport(self._conf)
        except cfg.Error as exc:
            LOG.error("nothing will be heard on %s: %s", self._where.topic, exc)
            return
        server = oslo_messaging.get_rpc_server(transport, self._where, self._endpoints)
        server.start(override_pool_size=self._threads)
        with self._lock:
            if self._is_stopped:
                _end(server, transport)
                return
            self._ready = (server, transport)
        try:
            if self._on_ready:
                self._on_ready(transport)
        finally:
            self._has_asked.set()

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Takes in no more, and returns when what was taken in is done, or after the timeout.
        Whether it is done.

        With the broker away oslo.messaging goes on waiting for it; nobody shall wait for that.
        """
        with self._lock:
            self._is_stopped = True
            ready, self._ready = self._ready, None
        if ready is not None:
            ending = threading.Thread(target=self._end_asked, args=ready, name="end", daemon=True)
            ending.start()
            self._ending = ending
        return self.wait(timeout_s)

    def wait(self, timeout_s: float) -> bool:
        """On, after a stop that has timed out. Whether all that was taken in is done."""
        if self._ending is None:
            return True
        self._ending.join(timeout_s)
        return not self._ending.is_alive()

    def _end_asked(self, *ready: Any) -> None:
        """Not while `on_ready` still sends over the transport."""
        self._has_asked.wait()
        _end(*ready)


def _end(server: oslo_messaging.MessageHandlingServer, transport: oslo_messaging.Transport) -> None:
    server.stop()
    server.wait()
    for message in _late(server):
        server._process_incoming([message])
    transport.cleanup()


def _late(server: oslo_messaging.MessageHandlingServer) -> list[Any]:
    """What came in while the connection was being closed. oslo.messaging (18) has acknowledged it
    by then and forgets it, so nobody else would ever see it; it has no public way to these."""
    listener = getattr(server.listener, "_poll_style_listener", None)
    return [*getattr(listener, "incoming", ())]
