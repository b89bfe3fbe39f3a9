# SPDX-License-Identifier: Apache-2.0
"""Brings the modes that are set for the cloud and for aggregates to the hosts, until they say so.

Each host says in its report what it was told; whoever takes in a report compares, as
`override_sync` does. All hosts that were heard here are told at once when a mode is changed, so
that nobody waits for the next report of each.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from nova_vp import wire
from nova_vp.cloud_modes import NO_MODES, CloudModes, modes_text
from vp_scheduler.ingest.report_queue import MAX_HOSTS
from vp_scheduler.ingest.told_sync import FAULTS

LOG = logging.getLogger(__name__)
EVERY_S = 2.0
"""How long a change may be unknown here. It costs two small queries."""
FORGET_S = 600.0
"""A host that has not reported for so long here is told nothing more."""


class Reading(Protocol):
    """What of `nova_vp.db.modes.ModeStore` is used."""

    def read(self) -> tuple[int, CloudModes]: ...

    def outbid(self, version: int, now: datetime) -> None: ...


class Telling(Protocol):
    def tell_modes(self, host: str, text: str) -> None:
        """May raise any of FAULTS."""


class Held(NamedTuple):
    """What a host says that it was told."""

    version: int
    checksum: str
    heard_at_s: float


class ModeSync:
    def __init__(
        self,
        store: Reading,
        agents: Telling,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._agents = agents
        self._every_s = every_s
        self._clock = clock
        self._changed = threading.Condition()
        self._held: dict[str, Held] = {}
        self._version = 0
        self._modes = NO_MODES
        self._has_read = False
        self._is_closed = False
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="modes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def heard(self, report: Mapping[str, Any]) -> None:
        """A valid report has come in. Cheap; from any thread."""
        host, told = report["host"], report.get("modes")
        if told is None:  # An agent of an earlier release takes no modes.
            return
        held = Held(told["version"], told["checksum"], self._clock())
        with self._changed:
            if host not in self._held and len(self._held) >= MAX_HOSTS:
                return
            self._held[host] = held
            if self._has_read and held.checksum != self._modes.checksum:
                self._changed.notify()

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._look()
            except (*FAULTS, wire.BadMessage) as exc:  # The latter: more than agents take.
                self._note_failure(exc)
            else:
                self._is_failing = False
            with self._changed:
                self._changed.wait_for(self._may_go_on, self._every_s)

    def _may_go_on(self) -> bool:
        return self._is_closed or (bool(self._differing()) and not self._is_failing)

    def _look(self) -> None:
        self._read()
        with self._changed:
            oldest_s = self._clock() - FORGET_S
            self._held = {h: one for h, one in self._held.items() if one.heard_at_s > oldest_s}
            differing = self._differing()
        ahead = max((one.version for one in differing.values()), default=0)
        if ahead > self._version:
            # The database was restored: such hosts take only what has a larger number.
            self._store.outbid(ahead, datetime.now(UTC))
            self._read()
        self._tell(differing)

    def _read(self) -> None:
        version, modes = self._store.read()
        with self._changed:
            self._version, self._modes, self._has_read = version, modes, True

    def _differing(self) -> dict[str, Held]:
        wanted = self._modes.checksum
        return {host: one for host, one in self._held.items() if one.checksum != wanted}

    def _tell(self, differing: Mapping[str, Held]) -> None:
        text, checksum = modes_text(self._version, self._modes), self._modes.checksum
        for host, one in sorted(differing.items()):
            self._agents.tell_modes(host, text)
            with self._changed:
                if self._held.get(host) is one:  # Else it has spoken since.
                    self._held[host] = one._replace(checksum=checksum)

    def _note_failure(self, exc: Exception) -> None:
        if not self._is_failing:
            LOG.warning("hosts were not told the modes of the cloud, trying again: %s", exc)
        self._is_failing = True
