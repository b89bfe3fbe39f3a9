# SPDX-License-Identifier: Apache-2.0
"""Brings the modes that are set for the cloud and for aggregates to the hosts: see `told_sync.py`.

All hosts that were heard here are told at once when a mode is changed: vp-api, which tells single
hosts of what concerns them, does not tell all.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from nova_vp.cloud_modes import NO_MODES, CloudModes, modes_text
from nova_vp.db.modes import Changed
from vp_scheduler.ingest.told_sync import EVERY_S, Book, ToldSync

FORGET_S = 600.0
"""A host that has not reported for so long here is told nothing more."""


class Telling(Protocol):
    def tell_modes(self, host: str, text: str) -> None:
        """May raise any of FAULTS."""


class Held(NamedTuple):
    """What a host says that it was told."""

    version: int
    checksum: str
    heard_at_s: float


class ModeSync(ToldSync[Held, Changed]):
    noun = "modes"

    def __init__(
        self,
        book: Book[Changed],
        agents: Telling,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(book, every_s)
        self._agents = agents
        self._clock = clock
        self._set(NO_MODES)

    def _held_of(self, report: Mapping[str, Any]) -> Held | None:
        told = report.get("modes")
        return told and Held(told["version"], told["checksum"], self._clock())

    def _fits(self, held: Held) -> bool:
        return held.checksum == self._checksum

    def _learn(self, changed: Changed) -> None:
        self._set(changed.modes)

    def _forget(self) -> None:
        self._set(NO_MODES)

    def _set(self, modes: CloudModes) -> None:
        self._modes, self._checksum = modes, modes.checksum

    def _known_after(self, held: Held) -> Held | None:
        if self._clock() - held.heard_at_s > FORGET_S:
            return None
        return held if self._fits(held) else held._replace(checksum=self._checksum)

    def _tell_host(self, host: str, held: Held) -> None:
        self._agents.tell_modes(host, modes_text(self._version, self._modes))
