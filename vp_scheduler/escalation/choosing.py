# SPDX-License-Identifier: Apache-2.0
"""An escalation that has come in, or whose last attempt failed: whom to move, and whether to begin.

Nothing is asked of anybody here; the budgets may hold it up.
"""

import json
from collections.abc import Mapping
from typing import Any

from nova_vp.core.types.policy import Mode
from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import Status
from nova_vp.service import failpoints
from vp_scheduler.escalation.context import StepContext, tell
from vp_scheduler.escalation.messages import (
    candidates_of,
    complaint_of,
    held_since,
    loss_ratio_of,
    sentences,
)
from vp_scheduler.escalation.select import Candidate, choose

MOST_ATTEMPTS = 2
"""Guests that are tried for one escalation: whom no host takes may stand for others like it."""
BUDGET_WAIT_S = 5.0
_WEAKEST = (Mode.OBSERVE, Mode.ADVISE, Mode.ENFORCE)


class Choosing:
    def __init__(self, desk: StepContext) -> None:
        self._context = desk

    def choose(self, found: Escalation) -> Escalation:
        failpoints.reach("after-acknowledgement")
        message = json.loads(found.message)
        candidates = candidates_of(message)
        choice = choose(
            loss_ratio_of(message, candidates),
            candidates,
            self._held(found, candidates),
            self._context.settings.terms,
        )
        record = json.dumps(choice.as_json())
        text = sentences(complaint_of(message, candidates), choice.sentence)
        mode = self._mode(found, message)
        tried = len(found.attempts)
        if tried and (choice.mover is None or tried >= MOST_ATTEMPTS or mode is Mode.OBSERVE):
            told = sentences(found.reason, choice.sentence if choice.mover is None else "")
            return self._context.save(found, status=Status.FAILED, reason=told)
        if mode is Mode.OBSERVE:
            told = f"Observed only. {text}"
            return self._context.settled(found, status=Status.OBSERVED, choice=record, reason=told)
        if choice.mover is None:
            return self._context.save(found, status=Status.REFUSED, choice=record, reason=text)
        if mode is Mode.ADVISE:
            return self._context.save(
                found, status=Status.PROPOSED, choice=record, reason=text, owner=None
            )
        reason = sentences(found.reason, choice.sentence) if tried else text
        return self._begin(found, choice.mover, {"choice": record, "reason": reason})

    def _mode(self, found: Escalation, message: Mapping[str, Any]) -> Mode:
        """The weaker of the cloud's and the host's; what an operator has accepted is done."""
        mode = min(self._context.settings.mode, Mode(message["mode"]), key=_WEAKEST.index)
        is_accepted = found.accepted_at is not None and mode is Mode.ADVISE
        return Mode.ENFORCE if is_accepted else mode

    def _held(self, found: Escalation, candidates: list[Candidate]) -> dict[str, str]:
        now = self._context.clock.now()
        since = now - self._context.settings.budgets.hold
        servers = [one.uuid for one in candidates]
        latest = self._context.ledger.moved_since(servers, since)
        held = {server: held_since(attempt) for server, attempt in latest.items()}
        return held | {attempt.server: attempt.detail for attempt in found.attempts}

    def _begin(self, found: Escalation, mover: Candidate, changes: Mapping[str, Any]) -> Escalation:
        now = self._context.clock.now()
        attempt = Attempt(
            attempt=len(found.attempts) + 1,
            server=mover.uuid,
            name=mover.name,
            project_id=mover.project_id,
            role=mover.role,
            memory_kib=mover.memory_kib,
            timeout_s=self._context.settings.timeout_s(mover.memory_kib),
            source_host=found.host,
            status=Status.PREPARING,
            started_at=now,
        )
        changes = {**changes, "changed_at": now}
        begun = self._context.ledger.begin(found, attempt, changes, self._context.settings.budgets)
        if isinstance(begun, Escalation):
            tell(begun, begun.reason)
            return begun
        asked_at = found.accepted_at or found.received_at
        if (
            self._context.since.elapsed_s((found.id, "budget"), asked_at)
            <= self._context.settings.wait_s
        ):
            reason = f"Waits: {begun}. {changes['reason']}"
            if found.attempts:  # What was tried before stands there already.
                return self._context.wait(found, BUDGET_WAIT_S)
            return self._context.wait(found, BUDGET_WAIT_S, choice=changes["choice"], reason=reason)
        refused = Status.FAILED if found.attempts else Status.REFUSED
        reason = sentences(changes["reason"], f"Waited too long: {begun}.")
        return self._context.save(found, status=refused, choice=changes["choice"], reason=reason)
