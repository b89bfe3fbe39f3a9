# SPDX-License-Identifier: Apache-2.0
"""Takes servers that Nova does not have any more out of their overlays, and their overrides back.

Only those that no host reports are asked for, and one by one: Nova's lists are silent about servers
in a cell that is down. Where Nova cannot be asked, they stay until people take them out.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from oslo_config import cfg

from nova_vp.db.overlays import Member, OverlayStore
from nova_vp.db.overrides import ChangedMeanwhile, OverrideStore, Unseen
from nova_vp.db.report_store import ERRORS
from vp_scheduler.escalation import session
from vp_scheduler.escalation.nova_client import (
    NOT_NOVAS,
    REFUSALS,
    NovaAway,
    NovaClient,
    Server,
    ServerGone,
)

LOG = logging.getLogger(__name__)
BY = "vp-scheduler"
"""Who has changed what was said of a server that was deleted."""
MOST_ASKED = 500
"""In one look, of each kind."""
PER_S = 20.0
YOUNG = timedelta(seconds=60)
"""Of whom something was said since may not have been reported yet."""


class Kept(NamedTuple):
    """One kind of what people have said of servers."""

    unseen: Callable[[datetime, str, int], Sequence[Any]]
    """Servers that no host reports, each with `project_id` and `server_id`: of whom nothing was
    said since then, whose ids are larger, so many."""
    remove: Callable[[Any, datetime], None]


class Looking(Protocol):
    def look(self, project_id: str, server: str) -> Server:
        """Raises as `nova_client.Nova` does."""


class DeletedServers:
    def __init__(
        self,
        kept: Sequence[Kept],
        nova: Looking,
        every_s: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._nova = nova
        self._every_s = every_s
        self._clock = clock
        self._closing = threading.Event()
        self._failure = ""
        self._kept = [(one, _Turn()) for one in kept]
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
            for kept, turn in self._kept:
                found = kept.unseen(self._clock() - YOUNG, turn.after, MOST_ASKED)
                turn.after = found[-1].server_id if len(found) == MOST_ASKED else ""
                for one in found:
                    # One that is not allowed is of this project; others may be different.
                    failure = self._ask(kept, one) or failure
                    if self._closing.wait(1 / PER_S):
                        return
        except (*ERRORS, NovaAway, *NOT_NOVAS) as exc:
            failure = str(exc)
        if failure and not self._failure:
            LOG.warning(
                "overlays and overrides of servers that may be gone are kept, trying again: %s",
                failure,
            )
        self._failure = failure

    def _ask(self, kept: Kept, one: Any) -> str:
        """Why Nova does not say; empty: it does."""
        try:
            self._nova.look(one.project_id, one.server_id)
        except ServerGone:
            kept.remove(one, self._clock())
        except REFUSALS as exc:
            return str(exc)
        return ""


class _Turn:
    """Whom the next look begins after, so that all have their turn."""

    after = ""


def in_overlays(store: OverlayStore) -> Kept:
    def remove(one: Member, now: datetime) -> None:
        store.remove_servers(one.overlay_id, [one.server_id], by=BY, now=now)
        LOG.info(
            "overlay=%s server=%s left it: Nova has no such server", one.overlay_id, one.server_id
        )

    return Kept(store.unseen, remove)


def in_overrides(store: OverrideStore) -> Kept:
    def remove(one: Unseen, now: datetime) -> None:
        with suppress(ChangedMeanwhile):
            store.clear(one.server_id, by=BY, now=now, expected=one.version)
            LOG.info("server=%s its override is taken back: Nova has no such server", one.server_id)

    return Kept(store.unseen, remove)


def open_deleted_servers(conf: cfg.ConfigOpts) -> DeletedServers | None:
    """None where nobody gave us an identity in the cloud. Raises cfg.Error."""
    every_s = conf.vp_scheduler.facts_interval_s
    if not every_s or not session.is_configured(conf):
        return None
    kept = [in_overlays(OverlayStore(conf)), in_overrides(OverrideStore(conf))]
    return DeletedServers(kept, NovaClient(session.open_cloud(conf)), every_s)
