# SPDX-License-Identifier: Apache-2.0
"""Which messages are not taken in, and how that is told: whichever endpoint they came to.

Who has credentials for the bus can send anything, as fast as the broker bears: a flood of bad
messages must not become a flood of log lines.
"""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import oslo_messaging

from nova_vp import wire
from nova_vp.printable import printable

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")


def may_refuse(*kinds: type[Exception]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """These of an endpoint's method go back to its caller, and no traceback into the log.

    As `oslo_messaging.expected_exceptions`, which hides what arguments the method takes: whoever
    calls it must see that before.
    """

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        expecting: Callable[P, R] = oslo_messaging.expected_exceptions(*kinds)(method)
        return functools.wraps(method)(expecting)

    return decorate


class RejectedMessage(Exception):
    """The message has the right shape, but is late, duplicated or of a host we do not know."""


class KnownHosts:
    """`[vp_scheduler] known_hosts`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """None at all: every host is known."""
        self._names = frozenset(names)

    def __len__(self) -> int:
        return len(self._names)

    def apply_config(self, names: Iterable[str]) -> None:
        """From the next message on."""
        self._names = frozenset(names)

    def check(self, host: str) -> None:
        """Raises RejectedMessage."""
        if self._names and host not in self._names:
            raise RejectedMessage(f"{host}: not among [vp_scheduler] known_hosts")


def check_speaks_for_itself(sender_host: str, host: str) -> None:
    """A host says what is true of itself, and of no other. Raises RejectedMessage."""
    if sender_host != host:
        raise RejectedMessage(f"{sender_host} speaks of {host}: a host speaks for itself only")


class MessageFilter:
    """Of one endpoint."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By kind."""

    def note(self, kind: str, what: str, exc: Exception, level: int = logging.WARNING) -> None:
        """`what` messages they are, as `reports`."""
        self.counts[kind] += 1
        count = self.counts[kind]
        if str(count).rstrip("0") == "1":  # At 1, 10, 100 ...
            LOG.log(
                level, "refused %d %s %s, the latest: %s", count, kind, what, printable(str(exc))
            )

    def take(
        self, topic: str, text: object, sender_host: str, known_hosts: KnownHosts
    ) -> dict[str, Any]:
        """A valid message of a known host that speaks for itself; others are noted. Raises
        wire.BadMessage."""
        what = f"messages of {topic}"
        try:
            message = wire.decode(topic, text)
        except wire.BadMessage as exc:
            self.note("malformed", what, exc)
            raise
        try:
            check_speaks_for_itself(sender_host, message["host"])
            known_hosts.check(message["host"])
        except RejectedMessage as exc:
            self.note("unwelcome", what, exc)
            raise wire.BadMessage(str(exc)) from exc
        return message
