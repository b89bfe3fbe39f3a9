# SPDX-License-Identifier: Apache-2.0
"""The bus on which a part of vp-scheduler asks agents and waits for their answers."""

import threading

from nova_vp import answers, rpcapi, rpctransport
from nova_vp.signing.identity import Identity


class AgentBus:
    """Connects when first used, after the service has forked. Thread-safe."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._lock = threading.Lock()
        self._bus: rpctransport.Bus | None = None

    def api(self) -> rpcapi.AgentAPI:
        with self._lock:
            if self._bus is None:
                self._bus = answers.open_asking_bus(self._identity)
            return rpcapi.AgentAPI(self._bus)

    def close(self) -> None:
        with self._lock:
            if self._bus is not None:
                self._bus.close()
            self._bus = None
