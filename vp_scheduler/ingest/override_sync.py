# SPDX-License-Identifier: Apache-2.0
"""Brings what people order of single servers to the hosts where these are: see `told_sync.py`."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from nova_vp.db.gate import NEVER_WRITTEN
from nova_vp.db.overrides import Changed
from nova_vp.server_override import NO_OVERRIDE, ServerOverride, overrides_text
from vp_scheduler.ingest.told_sync import EVERY_S, Book, ToldSync


class Telling(Protocol):
    def tell_orders(self, host: str, text: str) -> None:
        """May raise any of FAULTS."""


class Held(NamedTuple):
    """What a host says that it was told."""

    version: int
    servers: Mapping[str, ServerOverride | None]
    """All that run there; None: it was told nothing of that one."""


class OverrideSync(ToldSync[Held, Changed]):
    noun = "orders"

    def __init__(self, book: Book[Changed], agents: Telling, every_s: float = EVERY_S) -> None:
        super().__init__(book, every_s)
        self._agents = agents
        self._ordered: dict[str, ServerOverride] = {}
        """By server; those of which nothing is ordered are absent."""

    def _held_of(self, report: Mapping[str, Any]) -> Held | None:
        if "orders_version" not in report:
            return None
        told = {vp["uuid"].lower(): vp.get("ordered") for vp in report["vps"]}
        read = {u: None if o is None else ServerOverride.from_message(o) for u, o in told.items()}
        return Held(report["orders_version"], read)

    def _fits(self, held: Held) -> bool:
        if held.version == NEVER_WRITTEN < self._version:
            return False  # Once told, it waits for the orders of whoever arrives.
        wanted = self._ordered
        return all(told == wanted.get(uuid, NO_OVERRIDE) for uuid, told in held.servers.items())

    def _learn(self, changed: Changed) -> None:
        for one in changed.orders:
            if one.is_empty:
                self._ordered.pop(one.uuid, None)
            else:
                self._ordered[one.uuid] = one.ordered

    def _forget(self) -> None:
        self._ordered.clear()

    def _tell_host(self, host: str, held: Held) -> None:
        self._agents.tell_orders(host, self._text(held.servers))

    def _text(self, servers: Iterable[str]) -> str:
        return overrides_text(
            self._version, {u: self._ordered.get(u, NO_OVERRIDE) for u in servers}
        )
