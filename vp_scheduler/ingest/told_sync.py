# SPDX-License-Identifier: Apache-2.0
"""Brings what the database has to the hosts that it concerns, until they say so.

No agent asks the database: each says in its report what it was told, and whoever takes in a report
compares. So it does not matter which message got lost, which host a server came from, or which side
was restarted. vp-api tells the host as well, at once; this is what makes it certain.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

import oslo_messaging

from nova_vp import wire
from nova_vp.db.gate import NEVER_WRITTEN, is_possible
from nova_vp.db.report_store import ERRORS
from vp_scheduler.ingest.report_queue import MAX_HOSTS

LOG = logging.getLogger(__name__)
EVERY_S = 2.0
"""How long a change may be unknown here. It costs one small query."""
FAULTS = (*ERRORS, oslo_messaging.MessagingException)


class Versioned(Protocol):
    @property
    def version(self) -> int: ...


Held = TypeVar("Held", bound=Versioned)
"""What a host says that it was told."""
Changed = TypeVar("Changed", bound=Versioned)
"""What was written since a version."""
Written = TypeVar("Written", bound=Versioned, covariant=True)


class Book(Protocol[Written]):
    """What is written, with numbers as `nova_vp.db.gate` gives them."""

    def changed_since(self, version: int) -> Written: ...

    def outbid(self, version: int, now: datetime) -> None: ...


class ToldSync(ABC, Generic[Held, Changed]):
    """What is told, and how it is compared, is said by who inherits from it. All of those methods
    but `_tell_host` are called with a lock held, and are cheap."""

    noun: str
    """What is told, for the log, in the plural; also the name of the agent's file of it."""

    def __init__(self, book: Book[Changed], every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._book = book
        self._changed = threading.Condition()
        self._version = NEVER_WRITTEN
        self._held: dict[str, Held] = {}
        """Of hosts that are to be told, or looked at again with what is newer: until then it may
        have been written before they were heard. And what `_known_after` keeps."""
        self._is_urgent = False
        self._is_closed = False
        self._is_failing = False
        self._has_warned = False
        self._thread = threading.Thread(target=self._run, name=self.noun, daemon=True)

    @abstractmethod
    def _held_of(self, report: Mapping[str, Any]) -> Held | None:
        """None: an agent of an earlier release takes none."""

    @abstractmethod
    def _fits(self, held: Held) -> bool: ...

    @abstractmethod
    def _learn(self, changed: Changed) -> None: ...

    @abstractmethod
    def _forget(self) -> None:
        """The database has lost what was learned."""

    def _known_after(self, held: Held) -> Held | None:
        """What is kept of a host that fits, or was told just now; when something changes, it is
        told without another report. None: nothing is kept."""
        return None

    @abstractmethod
    def _tell_host(self, host: str, held: Held) -> None:
        """May raise any of FAULTS, and wire.BadMessage for more than agents take."""

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def heard(self, report: Mapping[str, Any]) -> None:
        """A valid report has come in. Cheap; from any thread."""
        held = self._held_of(report)
        with self._changed:
            self._held.pop(report["host"], None)
            if held is None or len(self._held) >= MAX_HOSTS:
                return
            self._held[report["host"]] = held
            if not self._fits(held):
                self._is_urgent = True
                self._changed.notify()

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
        return self._is_closed or (self._is_urgent and not self._is_failing)

    def _look(self) -> None:
        with self._changed:
            self._is_urgent = False
            heard = self._held.copy()
        self._read()
        with self._changed:
            differing = {host: one for host, one in self._held.items() if not self._fits(one)}
            for host in heard.keys() - differing.keys():
                self._settle(host, heard[host])
        self._outbid(differing)
        self._tell(differing)

    def _settle(self, host: str, held: Held) -> None:
        """With the lock held."""
        if self._held.get(host) is not held:
            return  # It has spoken since.
        if (known := self._known_after(held)) is None:
            del self._held[host]
        else:
            self._held[host] = known

    def _outbid(self, differing: Mapping[str, Held]) -> None:
        """What is told next has a larger number than these hosts obey."""
        now = datetime.now(UTC)
        impossible = [host for host, one in differing.items() if not is_possible(one.version, now)]
        if impossible and not self._has_warned:
            self._has_warned = True
            LOG.warning(
                "%s obeys %s of version %d, which is further ahead than any that a service gives:"
                " check the clocks of such hosts; an agent of an earlier release takes %s again"
                " once it is upgraded or its %s.json is deleted and it is restarted (this is logged"
                " once)",
                impossible[0],
                self.noun,
                differing[impossible[0]].version,
                self.noun,
                self.noun,
            )
        possible = (one.version for host, one in differing.items() if host not in impossible)
        ahead = max(possible, default=NEVER_WRITTEN)
        if ahead > self._version:
            LOG.warning(
                "a host obeys %s of version %d, the database knows %d: was it restored? Its %s are"
                " told anew",
                self.noun,
                ahead,
                self._version,
                self.noun,
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
                self._forget()
            self._learn(changed)
            self._version = changed.version

    def _tell(self, differing: Mapping[str, Held]) -> None:
        for host, one in differing.items():
            try:
                self._tell_host(host, one)
            except wire.BadMessage as exc:  # One host must not keep the others waiting.
                LOG.error("host=%s cannot be told of %s: %s", host, self.noun, exc)
            with self._changed:
                self._settle(host, one)

    def _note_failure(self, exc: Exception) -> None:
        if not self._is_failing:
            LOG.warning("hosts were not told of %s, trying again: %s", self.noun, exc)
        self._is_failing = True
