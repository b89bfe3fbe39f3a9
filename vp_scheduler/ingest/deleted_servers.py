# SPDX-License-Identifier: Apache-2.0
"""Takes servers that Nova does not have any more out of their overlays.

Only those that no host reports are asked for, and one by one: Nova's lists are silent about servers
in a cell that is down. Where Nova cannot be asked, overlays keep them until people take them out.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from oslo_config import cfg

from nova_vp.db.overlays import Member, OverlayStore
from nova_vp.db.report_store import ERRORS
from nova_vp.registered_overlay import RegisteredOverlay
from vp_scheduler.escalation import session
from vp_scheduler.escalation.nova_client import NotAllowed, NovaAway, NovaClient, Server, ServerGone

LOG = logging.getLogger(__name__)
BY = "vp-scheduler"
"""Who has changed an overlay whose server was deleted."""
MOST_ASKED = 500
"""In one look."""
PER_S = 20.0
YOUNG = timedelta(seconds=60)
"""Whoever was added since may not have been reported yet."""


class Registry(Protocol):
    def unseen(self, added_before: datetime, after: str, most: int) -> Sequence[Member]: ...

    def remove_servers(
        self, id: str, servers: Sequence[str], *, by: str, now: datetime
    ) -> RegisteredOverlay | None: ...


class Looking(Protocol):
    def look(self, project_id: str, server: str) -> Server:
        """Raises ServerGone, NovaAway and NotAllowed."""


class DeletedServers:
    def __init__(
        self,
        registry: Registry,
        nova: Looking,
        every_s: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._registry = registry
        self._nova = nova
        self._every_s = every_s
        self._clock = clock
        self._closing = threading.Event()
        self._failure = ""
        self._after = ""
        """Whom the next look begins after, so that all have their turn."""
        self._thread = threading.Thread(target=self._run, name="deleted-servers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        self._closing.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._closing.wait(self._every_s):
            self.look()

    def look(self) -> None:
        """What cannot be asked now is asked with the next look."""
        failure = ""
        try:
            found = self._registry.unseen(self._clock() - YOUNG, self._after, MOST_ASKED)
            self._after = found[-1].server_id if len(found) == MOST_ASKED else ""
            for one in found:
                try:
                    self._nova.look(one.project_id, one.server_id)
                except ServerGone:
                    self._remove(one)
                except NotAllowed as exc:  # Of this project; others may be different.
                    failure = str(exc)
                if self._closing.wait(1 / PER_S):
                    return
        except (*ERRORS, NovaAway) as exc:
            failure = str(exc)
        if failure and not self._failure:
            LOG.warning("overlays keep servers that may be gone, trying again: %s", failure)
        self._failure = failure

    def _remove(self, one: Member) -> None:
        self._registry.remove_servers(one.overlay_id, [one.server_id], by=BY, now=self._clock())
        LOG.info("overlay=%s server=%s left it: Nova has no such server", *one[::2])


def open_deleted_servers(conf: cfg.ConfigOpts) -> DeletedServers | None:
    """None where nobody gave us an identity in the cloud. Raises cfg.Error."""
    every_s = conf.vp_scheduler.facts_interval_s
    if not every_s or not session.is_configured(conf):
        return None
    nova = NovaClient(session.open_cloud(conf))
    return DeletedServers(OverlayStore(conf), nova, every_s)
