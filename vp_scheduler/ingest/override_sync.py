# SPDX-License-Identifier: Apache-2.0
"""Brings what people order of single servers to the hosts where these are, until they say so.

No agent asks the database: each says in its report what it was told, and whoever takes in a report
compares. So it does not matter which message got lost, which host a server came from, or which side
was restarted. vp-api tells the host as well, at once; this is what makes it certain.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import oslo_messaging

from nova_vp import wire
from nova_vp.db.gate import NEVER_WRITTEN, is_possible
from nova_vp.db.overrides import Changed
from nova_vp.db.report_store import ERRORS
from nova_vp.server_override import NO_OVERRIDE, ServerOverride, overrides_text
from vp_scheduler.ingest.report_queue import MAX_HOSTS

LOG = logging.getLogger(__name__)
EVERY_S = 2.0
"""How long an order may be unknown here. It costs one small query."""
FAULTS = (*ERRORS, oslo_messaging.MessagingException, wire.BadMessage)


class Ordering(Protocol):
    """`nova_vp.db.overrides.OverrideStore`, as far as it is used here."""

    def changed_since(self, version: int) -> Changed: ...

    def outbid(self, version: int, now: datetime) -> None: ...


class Telling(Protocol):
    def tell_orders(self, host: str, text: str) -> None:
        """May raise any of FAULTS."""


class Held(NamedTuple):
    """What a host says that it was told."""

    version: int
    servers: Mapping[str, ServerOverride | None]
    """All that run there; None: it was told nothing of that one."""


class OverrideSync:
    def __init__(self, book: Ordering, agents: Telling, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._book = book
        self._agents = agents
        self._changed = threading.Condition()
        self._version = NEVER_WRITTEN
        self._ordered: dict[str, ServerOverride] = {}
        """By server; those of which nothing is ordered are absent."""
        self._differing: dict[str, Held] = {}
        """Hosts that are to be told, or looked at again with newer orders."""
        self._is_closed = False
        self._is_failing = False
        self._has_warned = False
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def heard(self, report: Mapping[str, Any]) -> None:
        """A valid report has come in. Cheap; from any thread."""
        if "orders_version" not in report:  # An agent of an earlier release takes no orders.
            with self._changed:
                self._differing.pop(report["host"], None)
            return
        told = {vp["uuid"].lower(): vp.get("ordered") for vp in report["vps"]}
        read = {u: None if o is None else ServerOverride.from_message(o) for u, o in told.items()}
        held = Held(report["orders_version"], read)
        with self._changed:
            self._differing.pop(report["host"], None)
            if not self._fits(held) and len(self._differing) < MAX_HOSTS:
                self._differing[report["host"]] = held
                self._changed.notify()

    def _fits(self, held: Held) -> bool:
        if held.version == NEVER_WRITTEN < self._version:
            return False  # Once told, it waits for the orders of whoever arrives.
        wanted = self._ordered
        return all(told == wanted.get(uuid, NO_OVERRIDE) for uuid, told in held.servers.items())

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._look()
            except FAULTS as exc:
                self._note_failure(exc)
            else:
                self._is_failing = False
            with self._changed:
                self._changed.wait_for(self._may_go_on, self._every_s)

    def _may_go_on(self) -> bool:
        return self._is_closed or (bool(self._differing) and not self._is_failing)

    def _look(self) -> None:
        self._read()
        with self._changed:
            held = {h: one for h, one in self._differing.items() if not self._fits(one)}
            self._differing = held.copy()
        self._outbid(held)
        self._tell(held)

    def _outbid(self, held: Mapping[str, Held]) -> None:
        """What is told next has a larger number than these hosts obey."""
        now = datetime.now(UTC)
        impossible = [host for host, one in held.items() if not is_possible(one.version, now)]
        if impossible and not self._has_warned:
            self._has_warned = True
            LOG.warning(
                "%s obeys orders of version %d, which is further ahead than any that a service"
                " gives: check the clocks of such hosts; an agent of an earlier release takes"
                " orders again once it is upgraded or its orders.json is deleted and it is"
                " restarted (this is logged once)",
                impossible[0],
                held[impossible[0]].version,
            )
        possible = (one.version for host, one in held.items() if host not in impossible)
        ahead = max(possible, default=NEVER_WRITTEN)
        if ahead > self._version:
            LOG.warning(
                "a host obeys orders of version %d, the database knows %d: was it restored?"
                " Its orders are told anew",
                ahead,
                self._version,
            )
            self._book.outbid(ahead, now)
            self._read()

    def _read(self) -> None:
        changed = self._book.changed_since(self._version)
        is_restored = changed.version < self._version
        if is_restored:
            changed = self._book.changed_since(NEVER_WRITTEN)
        with self._changed:
            if is_restored:
                self._ordered.clear()
            for one in changed.orders:
                if one.is_empty:
                    self._ordered.pop(one.uuid, None)
                else:
                    self._ordered[one.uuid] = one.ordered
            self._version = changed.version

    def _tell(self, held: Mapping[str, Held]) -> None:
        for host, one in held.items():
            self._agents.tell_orders(host, self._text(one.servers))
            with self._changed:
                if self._differing.get(host) is one:  # Else it has spoken since.
                    del self._differing[host]

    def _text(self, servers: Iterable[str]) -> str:
        return overrides_text(
            self._version, {u: self._ordered.get(u, NO_OVERRIDE) for u in servers}
        )

    def _note_failure(self, exc: Exception) -> None:
        if not self._is_failing:
            LOG.warning("hosts were not told what is ordered of servers, trying again: %s", exc)
        self._is_failing = True
