# SPDX-License-Identifier: Apache-2.0
"""Nova's call: what must be true before it, the call, and who finds that it was begun.

The one thing that cannot be undone stands between two writes; who finds the first without the
second asks Nova before it asks again.
"""

import logging

from nova_vp import rpcapi
from nova_vp.core.types.policy import Mode
from nova_vp.db.records import Escalation
from nova_vp.escalation_status import Status
from nova_vp.service import failpoints
from vp_scheduler.escalation.agents import AgentAway
from vp_scheduler.escalation.context import StepContext
from vp_scheduler.escalation.messages import backoff_s, is_migrating, unfit
from vp_scheduler.escalation.nova import NotAllowed, NovaAway, NovaConflict, NovaRefused, ServerGone
from vp_scheduler.escalation.settings import HOLD_MARGIN_S

LOG = logging.getLogger(__name__)
MOST_ASKED = 5
PREPARE_FOR_S = 300.0
"""An agent, or Nova, that is away for longer before anything was begun: the attempt has failed."""


class Requesting:
    def __init__(self, desk: StepContext) -> None:
        self._context = desk

    def prepare(self, found: Escalation) -> Escalation:
        attempt = found.latest
        hold_s = attempt.timeout_s + HOLD_MARGIN_S
        if self._context.settings.mode is Mode.OBSERVE and not attempt.asked:
            return self._context.end(found, Status.WITHDRAWN, "vp-scheduler is in mode observe now")
        try:
            why = self._context.agents.prepare(found.host, found.id, attempt.server, hold_s)
            if why == rpcapi.NO_LONGER_HURT:
                return self._context.end(found, Status.WITHDRAWN, "the victim is well again")
            if why:
                return self._context.another(found, f"its agent could not let go of it: {why}")
            return self._check(found)
        except (AgentAway, NovaAway) as exc:
            waited_s = self._context.since.elapsed_s((found.id, "prepare"), attempt.started_at)
            if waited_s > PREPARE_FOR_S and not attempt.asked:
                return self._context.end(found, Status.FAILED, str(exc))
            return self._context.wait(found, backoff_s(waited_s))
        except NotAllowed as exc:
            return self._context.end(found, Status.FAILED, str(exc))

    def _check(self, found: Escalation) -> Escalation:
        """Whether Nova will take it; an operator's hand comes first."""
        attempt = found.latest
        sight = self._context.look(attempt)
        if attempt.asked and (sight.ours or is_migrating(sight)):
            # The request that nobody could find a moment ago has arrived after all.
            return self._context.save(
                found, {"status": Status.REQUESTING}, status=Status.REQUESTING
            )
        if sight.server is None:
            return self._context.end(found, Status.WITHDRAWN, "the server is gone")
        if sight.others or is_migrating(sight):
            return self._context.end(found, Status.WITHDRAWN, "somebody else migrates it already")
        if fault := unfit(sight.server):
            return self._context.another(found, fault)
        return self._request(found, sight.highest_id)

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
                "escalation=%s vp=%s it is not known whether Nova heard: %s",
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
            sight = self._context.look(attempt)
        except (NovaAway, NotAllowed) as exc:
            return self._context.wait_for_nova(found, exc)
        if sight.ours or is_migrating(sight):
            return self._context.save(found, {"status": Status.MIGRATING}, status=Status.MIGRATING)
        if sight.server is None:
            return self._context.end(found, Status.WITHDRAWN, "the server is gone")
        if sight.others:
            return self._context.end(found, Status.WITHDRAWN, "somebody else migrates it already")
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
                found, Status.FAILED, f"Nova was asked {MOST_ASKED} times in vain"
            )
        return self._context.save(found, {"status": Status.PREPARING}, status=Status.PREPARING)
