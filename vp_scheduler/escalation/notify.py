# SPDX-License-Identifier: Apache-2.0
"""An escalation that has ended, until its agent knows: the last thing that is done for it."""

import json
import logging
from datetime import datetime

from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import Status
from vp_scheduler.escalation.agents import AgentAway
from vp_scheduler.escalation.context import StepContext
from vp_scheduler.escalation.messages import backoff_s

LOG = logging.getLogger(__name__)
TELL_FOR_S = 86_400.0


class Telling:
    def __init__(self, desk: StepContext) -> None:
        self._context = desk

    def finish(self, found: Escalation) -> Escalation:
        """It has ended. Its agent is told now and not before: who is told that one attempt has
        failed takes the escalation for over."""
        untold = next((one for one in found.attempts if one.told_at is None), None)
        return self._settle(found) if untold is None else self._tell(found, untold)

    def _tell(self, found: Escalation, attempt: Attempt) -> Escalation:
        outcome, detail = attempt.status.value, attempt.detail
        ended_at = attempt.ended_at or self._context.clock.now()
        try:
            self._context.agents.end(found.host, found.id, attempt.server, outcome, detail)
        except AgentAway as exc:
            if wait_s := self._wait_to_tell_s(found, ended_at, exc):
                return self._context.wait(found, wait_s)
        told = {"told_at": self._context.clock.now()}
        return self._context.ledger.save(found, {}, told, attempt.attempt)

    def _settle(self, found: Escalation) -> Escalation:
        """Of one without attempts the agent is told by its victim."""
        if found.status is Status.REFUSED and not found.attempts:
            victim = json.loads(found.message)["victim"]
            outcome = found.status.value
            try:
                self._context.agents.end(found.host, found.id, victim, outcome, found.reason)
            except AgentAway as exc:
                if wait_s := self._wait_to_tell_s(found, found.changed_at, exc):
                    return self._context.wait(found, wait_s)
        return self._context.settled(found)

    def _wait_to_tell_s(self, found: Escalation, since: datetime, exc: AgentAway) -> float:
        """0: long enough; its hold has ended by itself."""
        waited_s = self._context.since.elapsed_s((found.id, "tell"), since)
        if waited_s > TELL_FOR_S:
            LOG.warning(
                "escalation=%s host=%s nobody was told how it ended: %s", found.id, found.host, exc
            )
            return 0.0
        return backoff_s(waited_s)
