# SPDX-License-Identifier: Apache-2.0
"""What a scheduler process knows of the hosts: the latest digest of each, while it is fresh.

Readers take no lock: an entry is an immutable value that is replaced as a whole. Freshness is
judged by this process's monotonic clock, so that no host's clock matters.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from nova_vp import wire
from nova_vp.core.types.policy import Policy
from nova_vp.message_filter import KnownHosts, RejectedMessage, check_speaks_for_itself
from vp_scheduler.ingest.profile_cache import ProfileCache
from vp_scheduler.placement.host_digest import HostDigest, read_digest
from vp_scheduler.placement.recency import Recency

LOG = logging.getLogger(__name__)
MAX_HOSTS = 20_000
"""Beyond this somebody invents host names, unless some are stale."""


class HostView:
    def __init__(
        self,
        stale_after_s: float,
        known_hosts: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        good_enough_ratio: float = Policy().strict_max_hurt_ratio,
    ) -> None:
        """`known_hosts`: the only ones listened to; empty: any. `good_enough_ratio`: what requests
        will ask for; another one is answered too, only slower."""
        self._stale_after_s = stale_after_s
        self._known_hosts = KnownHosts(known_hosts)
        self._clock = clock
        self._good_enough_ratio = good_enough_ratio
        self._lock = threading.Lock()
        self._digests: dict[str, HostDigest] = {}
        self._recency = Recency(stale_after_s)
        self._is_crowded = False
        self.learned = ProfileCache(stale_after_s, clock)
        """Of servers' flavors and images; no host's, but it comes the same way."""

    def accept(self, text: object, sender_host: str) -> None:
        """Take in a message that `sender_host` has signed.

        Raises wire.BadMessage or RejectedMessage; the view is then unchanged.
        """
        message = wire.decode(wire.DIGEST_TOPIC, text)
        check_speaks_for_itself(sender_host, message["host"])
        self._known_hosts.check(message["host"])
        digest = read_digest(message, self._clock(), self._good_enough_ratio)
        with self._lock:
            # A host whose news are void is heard whatever its epoch: its state folder may be lost.
            current = self.get(digest.host)
            if current and not digest.version.is_newer_than(current.version):
                raise RejectedMessage(f"{digest.host}: late or duplicated")
            now_s = self._clock()
            if digest.host not in self._digests and len(self._digests) >= MAX_HOSTS:
                self._make_room(digest.host, now_s)
            self._recency.note(digest.host, now_s, is_fresh=current is not None)
            self._digests[digest.host] = digest

    def _make_room(self, host: str, now_s: float) -> None:
        """Raises RejectedMessage: every known host is fresh and was heard more than once."""
        unused = self._recency.longest_stale(now_s)
        if unused is None:
            self._warn_of_crowd()
            unused = self._recency.longest_heard_once()
        if unused is None:
            raise RejectedMessage(f"{host}: more than {MAX_HOSTS} hosts")
        self._recency.forget(unused)
        del self._digests[unused]

    def _warn_of_crowd(self) -> None:
        if not self._is_crowded:
            LOG.warning(
                "more than %d hosts publish digests: hosts that were heard once are forgotten for"
                " new ones; if names are invented, list the real hosts in [vp_scheduler]"
                " known_hosts",
                MAX_HOSTS,
            )
        self._is_crowded = True

    def get(self, host: str) -> HostDigest | None:
        """The fresh digest of a host; None: nothing is known of it."""
        digests, fresh_from_s = self.read()
        digest = digests.get(host)
        return None if digest is None or digest.measured_s < fresh_from_s else digest

    def read(self) -> tuple[Mapping[str, HostDigest], float]:
        """For many hosts at once: the last digests, and from when on they are fresh."""
        return self._digests, self._clock() - self._stale_after_s
