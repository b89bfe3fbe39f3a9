# SPDX-License-Identifier: Apache-2.0
"""Whether a server is on the host that reports it: Nova says so.

A report is a claim. A host that claimed a server of somebody else could call for its overlay, or be
called instead of the host that has it.
"""

import threading
import time
from collections.abc import Callable

from cachetools import TTLCache

from nova_vp.core.types.overlay import Nack
from vp_scheduler.escalation.locate import ask_host
from vp_scheduler.escalation.nova_client import (
    NotAllowed,
    Nova,
    NovaAway,
    NovaConflict,
    NovaRefused,
)

CONFIRMED_S = 300.0
"""A server that left a host is no longer reported there by an honest agent within seconds; a lying
one has so long."""
REFUSED_S = 5.0
"""So long Nova is not asked again for one that it did not confirm, or while it is away."""
MOST_KEPT = 100_000


class Fault(Exception):
    """It is not confirmed. The text says why."""

    def __init__(self, nack: Nack, why: str) -> None:
        super().__init__(why)
        self.nack = nack


class ConfirmedHosts:
    """Thread-safe."""

    def __init__(self, nova: Nova, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._nova = nova
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._confirmed: TTLCache[tuple[str, str, str], bool] = TTLCache(
            MOST_KEPT, CONFIRMED_S, monotonic
        )
        self._faults: TTLCache[tuple[str, str, str], str] = TTLCache(
            MOST_KEPT, REFUSED_S, monotonic
        )
        self._away_until_s = float("-inf")

    def check(self, project_id: str, server: str, host: str) -> None:
        """Raises Fault."""
        key = (project_id, server, host)
        with self._lock:
            if key in self._confirmed:
                return
            fault = self._faults.get(key)
            is_away = self._monotonic() < self._away_until_s
        if is_away:
            raise Fault(Nack.UNREACHABLE, "Nova does not answer")
        if fault is None:
            fault = self._ask(*key)
            with self._lock:
                if fault:
                    self._faults[key] = fault
                else:
                    self._confirmed[key] = True
        if fault:
            raise Fault(Nack.NOT_A_MEMBER, fault)

    def _ask(self, project_id: str, server: str, host: str) -> str:
        """Raises Fault: it is not known."""
        try:
            return ask_host(self._nova, project_id, server, host)
        except NotAllowed as exc:  # Or there is no [cloud].
            raise Fault(Nack.DISABLED, f"vp-scheduler: {exc}") from exc
        except (NovaAway, NovaConflict, NovaRefused) as exc:
            with self._lock:
                self._away_until_s = self._monotonic() + REFUSED_S
            raise Fault(Nack.UNREACHABLE, f"Nova: {exc}") from exc
