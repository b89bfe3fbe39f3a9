# SPDX-License-Identifier: Apache-2.0
"""Whether a broker takes connections, and whether it answers: oslo.messaging does not tell.

Opens no session. To see whether it takes connections leaves no line in the broker's log, as load
balancers look at that too; to make it answer leaves a warning there. A user or password that is
wrong is seen where somebody listens or sends, not here.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterable

import oslo_messaging
from oslo_config import cfg

from nova_vp.service.last_look import LastLook

Address = tuple[str, int]
TIMEOUT_S = 1.0
GREETING = b"AMQP\x00\x00\x09\x01"
"""To which a broker says something: what it speaks, or with TLS that it does not understand."""
_PORTS = {"rabbit": 5672, "kombu": 5672}


def brokers(conf: cfg.ConfigOpts) -> tuple[Address, ...]:
    """Empty for a transport without any. Raises oslo.messaging's exceptions for a wrong URL."""
    url = oslo_messaging.TransportURL.parse(conf, conf.bus.transport_url)
    port = _PORTS.get(url.transport)
    if port is None:
        return ()
    return tuple((host.hostname, host.port or port) for host in url.hosts if host.hostname)


class BrokerProbe:
    """Thread-safe. Whoever asks often is told what was seen last."""

    def __init__(
        self, addresses: Iterable[Address], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._addresses = tuple(addresses)
        self._look = LastLook(lambda: any(map(_answers, self._addresses)), clock)

    def is_reachable(self) -> bool | None:
        """None: nobody can tell, with a transport that has no broker."""
        return self._look() if self._addresses else None

    def greet(self) -> None:
        """Returns once a broker has answered, or if the transport has none. Raises OSError: none
        takes connections; TimeoutError: some do, and hang."""
        failed: OSError | None = None
        for address in self._addresses:
            try:
                return _greet(address)
            except OSError as exc:
                failed = failed if isinstance(failed, TimeoutError) else exc
        if failed is not None:
            raise failed


def _answers(address: Address) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, TIMEOUT_S):
        return True
    return False


def _greet(address: Address) -> None:
    with socket.create_connection(address, TIMEOUT_S) as broker:
        broker.sendall(GREETING)
        broker.recv(1)
