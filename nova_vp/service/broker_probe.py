# SPDX-License-Identifier: Apache-2.0
"""Whether a broker takes connections, asked by TCP alone: oslo.messaging does not tell.

Opens no session and leaves no line in the broker's log, as load balancers look at it too. A user or
password that is wrong is seen where somebody listens or sends, not here.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable

import oslo_messaging
from oslo_config import cfg

Address = tuple[str, int]
FRESH_S = 2.0
TIMEOUT_S = 1.0
_PORTS = {"rabbit": 5672, "kombu": 5672}


def brokers(conf: cfg.ConfigOpts) -> tuple[Address, ...]:
    """Empty for a transport without any. Raises oslo.messaging's exceptions for a wrong URL."""
    url = oslo_messaging.TransportURL.parse(conf, conf.bus.transport_url)
    port = _PORTS.get(url.transport)
    if port is None:
        return ()
    return tuple((host.hostname, host.port or port) for host in url.hosts if host.hostname)


class BrokerProbe:
    """Thread-safe. Whoever asks more often than every FRESH_S is told what was seen last."""

    def __init__(
        self, addresses: Iterable[Address], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._addresses = tuple(addresses)
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at_s: float | None = None
        self._is_reachable = False

    def is_reachable(self) -> bool | None:
        """None: nobody can tell, with a transport that has no broker."""
        if not self._addresses:
            return None
        with self._lock:
            now_s = self._clock()
            if self._looked_at_s is None or now_s - self._looked_at_s >= FRESH_S:
                self._is_reachable = any(map(_answers, self._addresses))
                self._looked_at_s = now_s
            return self._is_reachable


def _answers(address: Address) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, TIMEOUT_S):
        return True
    return False
