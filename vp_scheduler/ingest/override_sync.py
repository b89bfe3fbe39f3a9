# SPDX-License-Identifier: Apache-2.0
"""Brings overrides of single servers to the hosts where these are: see `told_sync.py`."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from nova_vp.db.gate import NEVER_WRITTEN
from nova_vp.db.overrides import Changed
from nova_vp.server_override import NO_OVERRIDE, ServerOverride, overrides_text
from vp_scheduler.ingest.told_sync import EVERY_S, Book, ToldSync


class Telling(Protocol):
    def tell_overrides(self, host: str, text: str) -> None:
        """May raise any of FAULTS."""


class Held(NamedTuple):
    """What a host says that it was told."""

    version: int
    servers: Mapping[str, ServerOverride | None]
    """All that run there; None: it was told nothing of that one."""


class OverrideSync(ToldSync[Held, Changed]):
    noun = "overrides"

    def __init__(self, book: Book[Changed], agents: Telling, every_s: float = EVERY_S) -> None:
        super().__init__(book, every_s)
        self._agents = agents
        self._overridden: dict[str, ServerOverride] = {}
        """By server; those of which nothing is overridden are absent."""

    def _held_of(self, report: Mapping[str, Any]) -> Held | None:
        if "overrides_version" not in report:
            return None
        told = {vp["uuid"].lower(): vp.get("override") for vp in report["vps"]}
        read = {u: None if o is None else ServerOverride.from_message(o) for u, o in told.items()}
        return Held(report["overrides_version"], read)

    def _fits(self, held: Held) -> bool:
        if held.version == NEVER_WRITTEN < self._version:
            return False  # Once told, it waits for the overrides of whoever arrives.
        wanted = self._overridden
        return all(told == wanted.get(uuid, NO_OVERRIDE) for uuid, told in held.servers.items())

    def _learn(self, changed: Changed) -> None:
        for one in changed.overrides:
            if one.is_empty:
                self._overridden.pop(one.uuid, None)
            else:
                self._overridden[one.uuid] = one.override

    def _forget(self) -> None:
        self._overridden.clear()

    def _tell_host(self, host: str, held: Held) -> None:
        self._agents.tell_overrides(host, self._text(held.servers))

    def _text(self, servers: Iterable[str]) -> str:
        return overrides_text(
            self._version, {u: self._overridden.get(u, NO_OVERRIDE) for u in servers}
        )
