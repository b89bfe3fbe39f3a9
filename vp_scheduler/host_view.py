# SPDX-License-Identifier: Apache-2.0
"""What a scheduler process knows of the hosts: the latest digest of each, while it is fresh.

Readers take no lock: an entry is an immutable value that is replaced as a whole. Freshness is
judged by this process's monotonic clock, so that no host's clock matters.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nova_vp import wire

MAX_HOSTS = 20_000
"""Beyond this somebody invents host names; fresh ones are then no longer let in."""


@dataclass(frozen=True, slots=True)
class Domain:
    """One LLC domain, for a newcomer that nobody has measured."""

    id: int
    cpus: int
    vcpus: int
    newcomer_ratio: float
    resident_ratio: float
    strict_ratio: float


@dataclass(frozen=True, slots=True, eq=False)
class HostDigest:
    """Compared by identity: whoever remembers something about one forgets it with the next."""

    host: str
    order: wire.Order
    is_homing: bool
    domains: tuple[Domain, ...]
    known: frozenset[int]
    """Marks (`wire.mark_of`) of the servers that the numbers have counted, or that are stopped."""
    measured_s: float
    """When it was measured, by this process's clock."""


class Unwelcome(Exception):
    """A well-formed message that is not taken: late, duplicated or of a host we do not know."""


class HostView:
    def __init__(
        self,
        stale_after_s: float,
        known_hosts: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`known_hosts`: the only ones listened to; empty: any."""
        self._stale_after_s = stale_after_s
        self._known_hosts = frozenset(known_hosts)
        self._clock = clock
        self._lock = threading.Lock()
        self._digests: dict[str, HostDigest] = {}

    def accept(self, text: object) -> None:
        """Take in a message. Raises wire.BadMessage or Unwelcome; the view is then unchanged."""
        digest = read_digest(wire.decode(wire.DIGEST_TOPIC, text), self._clock())
        if self._known_hosts and digest.host not in self._known_hosts:
            raise Unwelcome(f"{digest.host}: not among [vp_scheduler] known_hosts")
        with self._lock:
            # A host whose news are void is heard whatever its epoch: its state folder may be lost.
            current = self.get(digest.host)
            if current and not digest.order.is_newer_than(current.order):
                raise Unwelcome(f"{digest.host}: late or duplicated")
            if digest.host not in self._digests and len(self._digests) >= MAX_HOSTS:
                raise Unwelcome(f"{digest.host}: more than {MAX_HOSTS} hosts")
            self._digests[digest.host] = digest

    def get(self, host: str) -> HostDigest | None:
        """The fresh digest of a host; None: nothing is known of it."""
        digest = self._digests.get(host)
        if digest is None or self._clock() - digest.measured_s > self._stale_after_s:
            return None
        return digest


def read_digest(message: Mapping[str, Any], now_s: float) -> HostDigest:
    """From a decoded message. Raises wire.BadMessage."""
    return HostDigest(
        host=message["host"],
        order=wire.order_of(message),
        is_homing=message["homing"],
        domains=tuple(_domain(domain) for domain in message["domains"]),
        known=wire.unpack_known(message["known"]),
        measured_s=now_s - message["age_ms"] / 1000,
    )


def _domain(domain: Mapping[str, Any]) -> Domain:
    return Domain(
        id=domain["id"],
        cpus=domain["cpus"],
        vcpus=domain["vcpus"],
        newcomer_ratio=domain["newcomer"][wire.UNKNOWN_CLASS] / 1000,
        resident_ratio=domain["resident"][wire.UNKNOWN_CLASS] / 1000,
        strict_ratio=domain["strict"][wire.UNKNOWN_CLASS] / 1000,
    )
