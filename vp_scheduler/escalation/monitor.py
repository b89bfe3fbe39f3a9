# SPDX-License-Identifier: Apache-2.0
"""A migration that Nova has taken on, until it is over: how it ended, or that it takes too long."""

import logging
from collections.abc import Callable

from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import Status
from vp_scheduler.escalation.context import StepContext
from vp_scheduler.escalation.messages import is_migrating
from vp_scheduler.escalation.nova import (
    Migration,
    NotAllowed,
    NovaAway,
    NovaConflict,
    NovaRefused,
    Server,
    ServerGone,
)

LOG = logging.getLogger(__name__)
ABORT_AGAIN_S = 30.0


class Following:
    def __init__(self, desk: StepContext, ask_again: Callable[[Escalation], Escalation]) -> None:
        """`ask_again`: what is done where Nova shows no migration of ours."""
        self._context = desk
        self._ask_again = ask_again
        self._down_since_s: dict[str, float] = {}

    def follow(self, found: Escalation) -> Escalation:
        attempt = found.latest
        try:
            sight = self._context.look(attempt)
        except (NovaAway, NotAllowed) as exc:
            return self._context.wait_for_nova(found, exc)
        if sight.ours:
            return self._follow_ours(found, sight.ours, sight.server)
        if sight.server is None:
            return self._context.end(found, Status.WITHDRAWN, "the server was deleted")
        if sight.others:
            return self._context.end(found, Status.WITHDRAWN, "somebody else migrates it already")
        if is_migrating(sight):
            # For as long as it takes: what Nova has queued can still begin.
            return self._context.wait(found, self._context.settings.poll_s)
        return self._ask_again(found)

    def _follow_ours(self, found: Escalation, ours: Migration, server: Server | None) -> Escalation:
        known = {
            "nova_id": ours.id,
            "nova_uuid": ours.uuid,
            "nova_status": ours.status,
            "dest_host": ours.dest,
        }
        if any(getattr(found.latest, name) != value for name, value in known.items()):
            found = self._context.save(found, known)
        if ours.is_over:
            return self._ended_in_nova(found, ours)
        if server is None:
            return self._context.end(found, Status.WITHDRAWN, "the server was deleted")
        if self._is_host_lost(found, server):
            return self._context.end(
                found,
                Status.FAILED,
                f"{found.host} is down, and it alone could tell how the migration ended",
            )
        attempt = found.latest
        asked_at = attempt.requested_at or attempt.started_at
        taken_s = self._context.since.elapsed_s((found.id, "migrate"), asked_at)
        if taken_s > attempt.timeout_s:
            return self._abort(found, ours)
        return self._context.wait(found, self._context.settings.poll_s)

    def _ended_in_nova(self, found: Escalation, ours: Migration) -> Escalation:
        self._down_since_s.pop(found.id, None)
        attempt = found.latest
        if ours.status == "completed":
            return self._context.end(
                found, Status.COMPLETED, f"{attempt.name} is on {ours.dest} now"
            )
        if attempt.abort_asked_at:
            took = f"it took more than {attempt.timeout_s} s"
            return self._context.end(found, Status.TIMED_OUT, f"aborted, since {took}")
        if ours.dest is None and ours.status != "cancelled":
            return self._context.another(found, "Nova finds no host that takes it (no valid host)")
        try:
            is_aborted = ours.status == "cancelled" or self._was_aborted(attempt)
        except NovaAway as exc:
            return self._context.wait_for_nova(found, exc)
        if is_aborted:
            return self._context.end(found, Status.ABORTED, "somebody aborted it in Nova")
        return self._context.end(found, Status.FAILED, f"on the way to {ours.dest}, as Nova says")

    def _was_aborted(self, attempt: Attempt) -> bool:
        """Raises NovaAway."""
        try:
            return self._context.nova.was_aborted(attempt.project_id, attempt.server)
        except (NotAllowed, ServerGone) as exc:
            LOG.warning("vp=%s whether somebody aborted it is not known: %s", attempt.server, exc)
            return False

    def _is_host_lost(self, found: Escalation, server: Server) -> bool:
        now_s = self._context.clock.monotonic_s()
        if not server.is_host_down:
            self._down_since_s.pop(found.id, None)
            return False
        since_s = self._down_since_s.setdefault(found.id, now_s)
        if now_s - since_s < self._context.settings.host_down_s:
            return False
        del self._down_since_s[found.id]
        return True

    def _abort(self, found: Escalation, ours: Migration) -> Escalation:
        attempt, now = found.latest, self._context.clock.now()
        if attempt.abort_asked_at is None:
            # First the ledger: else it would look as if somebody else had aborted it.
            found = self._context.save(found, {"abort_asked_at": now})
        elif (
            self._context.since.elapsed_s((found.id, "abort"), attempt.abort_asked_at)
            < ABORT_AGAIN_S
        ):
            return self._context.wait(found, self._context.settings.poll_s)
        else:
            found = self._context.save(found, {"abort_asked_at": now})
        try:
            self._context.nova.abort(attempt.project_id, attempt.server, ours.id)
        except (NovaConflict, NovaRefused, NovaAway, NotAllowed, ServerGone) as exc:
            # Too late, or not yet: whichever it is shows when it is looked at next.
            LOG.info(
                "escalation=%s vp=%s it cannot be aborted now: %s", found.id, attempt.server, exc
            )
        return self._context.wait(found, self._context.settings.poll_s)
