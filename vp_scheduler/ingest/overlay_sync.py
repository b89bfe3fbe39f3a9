# SPDX-License-Identifier: Apache-2.0
"""Brings overlays to the hosts where their servers are: see `told_sync.py`."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from nova_vp.db.overlays import Changed
from nova_vp.overlay_message import checksum, overlays_text
from nova_vp.registered_overlay import (
    RegisteredOverlay,
    Running,
    overlays_on_host,
    running_in,
)
from vp_scheduler.ingest.told_sync import EVERY_S, Book, ToldSync


class Telling(Protocol):
    def tell_overlays(self, host: str, text: str) -> None:
        """May raise any of FAULTS."""


class Held(NamedTuple):
    """What a host says that it was told, and of which servers it should be."""

    version: int
    checksum: str
    servers: tuple[Running, ...]


class OverlaySync(ToldSync[Held, Changed]):
    noun = "overlays"

    def __init__(self, book: Book[Changed], agents: Telling, every_s: float = EVERY_S) -> None:
        super().__init__(book, every_s)
        self._agents = agents
        self._overlays: dict[str, RegisteredOverlay] = {}
        self._of_server: dict[str, RegisteredOverlay] = {}

    def _held_of(self, report: Mapping[str, Any]) -> Held | None:
        told = report.get("overlays_told")
        return told and Held(told["version"], told["checksum"], running_in(report))

    def _fits(self, held: Held) -> bool:
        return held.checksum == checksum(overlays_on_host(held.servers, self._of_server))

    def _learn(self, changed: Changed) -> None:
        # First all that left, since one may have gone from one overlay into another.
        for one in changed.overlays:
            if (before := self._overlays.pop(one.id, None)) is not None:
                for uuid in before.servers:
                    self._of_server.pop(uuid, None)
        for one in changed.overlays:
            if not one.is_deleted:
                self._overlays[one.id] = one
                self._of_server |= dict.fromkeys(one.servers, one)

    def _forget(self) -> None:
        self._overlays.clear()
        self._of_server.clear()

    def _tell_host(self, host: str, held: Held) -> None:
        overlays = overlays_on_host(held.servers, self._of_server)
        self._agents.tell_overlays(host, overlays_text(self._version, overlays))
