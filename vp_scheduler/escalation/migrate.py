# SPDX-License-Identifier: Apache-2.0
"""From Nova's call to the end of the migration: prepare, request, monitor, abort.

The one thing that cannot be undone stands between two writes; whoever finds the first without the
second asks Nova before it asks again.
"""

import logging
from collections.abc import Callable

from nova_vp import rpcapi
from nova_vp.core.types.policy import Mode
from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import Status
from nova_vp.service import failpoints
from vp_scheduler.escalation.agents import AgentAway
from vp_scheduler.escalation.context import StepContext, backoff_s, is_migrating, unfit
from vp_scheduler.escalation.locate import ask_host, fault_of_host
from vp_scheduler.escalation.nova_client import (
    REFUSALS,
    Migration,
    NotAllowed,
    NovaAway,
    NovaConflict,
    NovaRefused,
    Server,
    ServerGone,
)
from vp_scheduler.escalation.settings import HOLD_MARGIN_S

LOG = logging.getLogger(__name__)


MOST_ASKED = 5

ABORT_AGAIN_S = 30.0
PREPARE_FOR_S = 300.0
"""An agent, or Nova, that is away for longer before anything was begun: the attempt has failed."""
ASKED_FOR_S = 3600.0
"""The same of an agent after Nova was asked, and shows nothing: what it still has in its queues is
over by then (its long_rpc_timeout is half an hour)."""


class RequestMigration:
    """What must be true before Nova's call, the call, and who finds that it was begun."""

    def __init__(self, context: StepContext) -> None:
        self._context = context

    def prepare(self, found: Escalation) -> Escalation:
        attempt = found.latest
        hold_s = attempt.timeout_s + HOLD_MARGIN_S
        if self._context.settings.mode is Mode.OBSERVE and not attempt.asked:
            return self._context.end(found, Status.WITHDRAWN, "vp-scheduler is in mode observe now")
        try:
            why = self._context.agents.prepare(found.host, found.id, attempt.server, hold_s)
            if why == rpcapi.NO_LONGER_HURT:
                return self._context.end(
                    found, Status.WITHDRAWN, "the victim is no longer degraded"
                )
            if why:
                return self._context.another(
                    found, f"its agent could not revert its settings: {why}"
                )
            return self._check(found)
        except (AgentAway, NovaAway) as exc:
            if attempt.asked:
                return self._look_while_away(found, exc)
            waited_s = self._context.since.elapsed_s((found.id, "prepare"), attempt.started_at)
            if waited_s > PREPARE_FOR_S:
                return self._context.end(found, Status.FAILED, str(exc))
            return self._context.wait(found, backoff_s(waited_s))
        except NotAllowed as exc:
            return self._context.end(found, Status.FAILED, str(exc))

    def _look_while_away(self, found: Escalation, away: Exception) -> Escalation:
        """Nova was asked, shows nothing of it, and cannot be asked again now. What it shows late is
        followed; but who does not answer must not keep this among those that run for ever."""
        attempt = found.latest
        asked_at = attempt.requested_at or attempt.started_at
        try:
            state = self._context.look(attempt)
        except (NovaAway, NotAllowed) as exc:
            return self._context.wait_for_nova(found, exc)
        if state.ours or is_migrating(state):
            return self._found_late(found)
        waited_s = self._context.since.elapsed_s((found.id, "asked"), asked_at)
        if waited_s > ASKED_FOR_S:
            return self._context.end(found, Status.FAILED, str(away))
        return self._context.wait(found, backoff_s(waited_s))

    def _found_late(self, found: Escalation) -> Escalation:
        """The request that nobody could find a moment ago has arrived after all."""
        return self._context.save(found, {"status": Status.REQUESTING}, status=Status.REQUESTING)

    def _check(self, found: Escalation) -> Escalation:
        """Whether Nova will take it; an operator's hand comes first."""
        attempt = found.latest
        state = self._context.look(attempt)
        if attempt.asked and (state.ours or is_migrating(state)):
            return self._found_late(found)
        if state.server is None:
            return self._context.end(found, Status.WITHDRAWN, "the server is gone")
        if state.others or is_migrating(state):
            return self._context.end(
                found, Status.WITHDRAWN, "another migration of this server is running"
            )
        if fault := self._fault_of_hosts(found, state.server):
            return self._context.end(found, Status.WITHDRAWN, fault)
        if fault := unfit(state.server):
            return self._context.another(found, fault)
        return self._request(found, state.highest_id)

    def _fault_of_hosts(self, found: Escalation, mover: Server) -> str:
        """Why Nova does not confirm, now, that both this server and the victim are on the host
        that the budgets count it for. Raises NovaAway and NotAllowed."""
        host = found.latest.source_host
        if (fault := fault_of_host(mover, host)) or found.latest.server == found.victim:
            return fault
        fault = ask_host(self._context.nova, found.project_id, found.victim, host)
        return fault and f"the victim: {fault}"

    def _request(self, found: Escalation, highest_id: int) -> Escalation:
        clock, attempt = self._context.clock, found.latest
        begun_s = clock.monotonic_s()
        found = self._context.save(
            found,
            {
                "status": Status.REQUESTING,
                "nova_floor": highest_id,
                "requested_at": clock.now(),
                "asked": attempt.asked + 1,
            },
            status=Status.REQUESTING,
        )
        failpoints.reach("before-nova-call")
        if clock.monotonic_s() - begun_s > self._context.settings.lease_s / 3:
            # We were held up, and another may be at it: let it be found as if we had died.
            return self._context.wait(found, 0.0)
        return self._ask(found)

    def _ask(self, found: Escalation) -> Escalation:
        attempt = found.latest
        try:
            self._context.nova.migrate(attempt.project_id, attempt.server)
        except NovaConflict:
            return self.find_request(found)
        except NovaRefused as exc:
            return self._context.another(found, str(exc))
        except NotAllowed as exc:
            return self._context.end(found, Status.FAILED, str(exc))
        except ServerGone:
            return self._context.end(found, Status.WITHDRAWN, "the server is gone")
        except NovaAway as exc:
            LOG.warning(
                "escalation=%s vp=%s it is not known whether Nova received the request: %s",
                found.id,
                attempt.server,
                exc,
            )
            return self._context.wait(found, self._context.settings.poll_s)
        failpoints.reach("after-nova-call")
        return self._context.save(found, {"status": Status.MIGRATING}, status=Status.MIGRATING)

    def find_request(self, found: Escalation) -> Escalation:
        """Whoever was at it is gone, or does not know whether Nova heard."""
        attempt = found.latest
        try:
            state = self._context.look(attempt)
        except (NovaAway, NotAllowed) as exc:
            return self._context.wait_for_nova(found, exc)
        if state.ours or is_migrating(state):
            return self._context.save(found, {"status": Status.MIGRATING}, status=Status.MIGRATING)
        if state.server is None:
            return self._context.end(found, Status.WITHDRAWN, "the server is gone")
        if state.others:
            return self._context.end(
                found, Status.WITHDRAWN, "another migration of this server is running"
            )
        return self.ask_again(found)

    def ask_again(self, found: Escalation) -> Escalation:
        """Nova shows nothing of ours, which may still come."""
        attempt = found.latest
        asked_at = attempt.requested_at or attempt.started_at
        if (
            self._context.since.elapsed_s((found.id, "settle"), asked_at)
            < self._context.settings.settle_s
        ):
            return self._context.wait(found, self._context.settings.poll_s)
        if attempt.asked >= MOST_ASKED:
            return self._context.end(
                found, Status.FAILED, f"Nova was asked {MOST_ASKED} times without a result"
            )
        return self._context.save(found, {"status": Status.PREPARING}, status=Status.PREPARING)


class MonitorMigration:
    """A migration that Nova has accepted, until it has ended or takes too long."""

    def __init__(self, context: StepContext, ask_again: Callable[[Escalation], Escalation]) -> None:
        """`ask_again`: what is done where Nova shows no migration of ours."""
        self._context = context
        self._ask_again = ask_again
        self._down_since_s: dict[str, float] = {}

    def follow(self, found: Escalation) -> Escalation:
        attempt = found.latest
        try:
            state = self._context.look(attempt)
        except (NovaAway, NotAllowed) as exc:
            return self._context.wait_for_nova(found, exc)
        if state.ours:
            return self._follow_ours(found, state.ours, state.server)
        if state.server is None:
            return self._context.end(found, Status.WITHDRAWN, "the server was deleted")
        if state.others:
            return self._context.end(
                found, Status.WITHDRAWN, "another migration of this server is running"
            )
        if is_migrating(state):
            # For as long as it takes: what Nova has queued can still begin.
            return self._context.wait(found, self._context.settings.poll_s)
        return self._ask_again(found)

    def _follow_ours(self, found: Escalation, ours: Migration, server: Server | None) -> Escalation:
        known = {
            "nova_id": ours.id,
            "nova_uuid": ours.uuid,
            "nova_status": ours.status,
            "dest_host": ours.dest,
            # By it the budgets count: the server may have moved just before the request.
            "source_host": ours.source or found.latest.source_host,
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
                f"{found.host} is down, and only it knows how the migration ended",
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
            return self._context.end(found, Status.ABORTED, "it was aborted in Nova")
        return self._context.end(found, Status.FAILED, f"on the way to {ours.dest}, as Nova says")

    def _was_aborted(self, attempt: Attempt) -> bool:
        """Raises NovaAway."""
        try:
            return self._context.nova.was_aborted(attempt.project_id, attempt.server)
        except (NotAllowed, ServerGone) as exc:
            LOG.warning(
                "vp=%s it is not known whether the migration was aborted: %s", attempt.server, exc
            )
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
        except (*REFUSALS, NovaAway) as exc:
            # Too late, or not yet: whichever it is shows when it is looked at next.
            LOG.info(
                "escalation=%s vp=%s it cannot be aborted now: %s", found.id, attempt.server, exc
            )
        return self._context.wait(found, self._context.settings.poll_s)
