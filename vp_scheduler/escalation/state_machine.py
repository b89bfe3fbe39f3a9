# SPDX-License-Identifier: Apache-2.0
"""What a worker does with an escalation that it has claimed, state by state, until it must wait.

The table says which step each state takes. The first step (whom to move) and the last (telling the
agent) are here; those that talk to Nova are in `migrate`. All share a `StepContext`.
"""

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nova_vp.core.types.policy import Mode, known_mode
from nova_vp.db.escalations import PROPOSED_FOR
from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import Status
from nova_vp.service import failpoints
from vp_scheduler.escalation.agents import AgentAway
from vp_scheduler.escalation.context import (
    MOST_WAIT_FOR_NOVA_S,
    Backends,
    StepContext,
    backoff_s,
    log_status,
    sentences,
)
from vp_scheduler.escalation.locate import ServerLocations
from vp_scheduler.escalation.migrate import MonitorMigration, RequestMigration
from vp_scheduler.escalation.nova_client import CloudNotConfigured, NovaAway
from vp_scheduler.escalation.select import (
    Candidate,
    Choice,
    candidates_of,
    choose,
    complaint_of,
    held_since,
    loss_ratio_of,
    refuse,
)
from vp_scheduler.escalation.settings import Settings

LOG = logging.getLogger(__name__)
MOST_STEPS = 30
"""At one go: a world that changes back and forth must not keep a thread for itself."""
MOST_ATTEMPTS = 2
"""Guests that are tried for one escalation: whom no host takes may stand for others like it."""

BUDGET_WAIT_S = 5.0

_WEAKEST = (Mode.OBSERVE, Mode.ADVISE, Mode.ENFORCE)
TELL_FOR_S = 86_400.0


class StateMachine:
    def __init__(self, backends: Backends, settings: Settings) -> None:
        self._context = StepContext(backends, settings)
        request = RequestMigration(self._context)
        self._finish = NotifyAgent(self._context).finish
        self._table = {
            Status.RECEIVED: SelectServer(self._context).choose,
            Status.PROPOSED: self._expire,
            Status.PREPARING: request.prepare,
            Status.REQUESTING: request.find_request,
            Status.MIGRATING: MonitorMigration(self._context, request.ask_again).follow,
        }

    def apply_config(self, settings: Settings) -> None:
        """From the next step on. From any thread."""
        self._context.settings = settings

    def run(self, escalation: Escalation) -> None:
        """Until nothing can be done now; then the claim is given back.

        Raises LostClaim, and oslo.db's exceptions.
        """
        for _ in range(MOST_STEPS):
            escalation = self._table.get(escalation.status, self._finish)(escalation)
            if escalation.owner is None:
                return
        self._context.wait(escalation, self._context.settings.poll_s)

    def _expire(self, found: Escalation) -> Escalation:
        """Its agent is told, and escalates anew what still stands."""
        why = f"Refused: no operator has accepted it within {PROPOSED_FOR.days} days."
        return self._context.save(found, status=Status.REFUSED, reason=sentences(found.reason, why))


class SelectServer:
    """An escalation that has come in, or whose last attempt failed: whom to move, and whether to
    begin. Only servers that Nova says are on that host are chosen; Nova and the budgets may delay
    it."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._locations = ServerLocations(context.nova, context.clock)

    def choose(self, found: Escalation) -> Escalation:
        failpoints.reach("after-acknowledgement")
        message = json.loads(found.message)
        candidates = candidates_of(message)
        mode = self._mode(found, message)
        complaint = complaint_of(message, candidates)
        unchecked = ""
        try:
            absent = self._locations.faults(found, candidates)
        except NovaAway as exc:
            return self._wait_for_nova(found, mode, complaint, exc)
        except CloudNotConfigured as exc:
            if mode is Mode.OBSERVE:
                # It needs no [cloud], and records what the host claims.
                absent, unchecked = {}, f"The hosts of the servers are not checked: {exc}."
            else:
                absent = {found.victim: str(exc)}
        choice = self._choice(found, message, candidates, absent)
        return self._act_on(found, mode, choice, sentences(complaint, choice.sentence, unchecked))

    def _choice(
        self,
        found: Escalation,
        message: Mapping[str, Any],
        candidates: list[Candidate],
        absent: Mapping[str, str],
    ) -> Choice:
        loss_ratio = loss_ratio_of(message, candidates)
        if found.victim in absent:
            return refuse(loss_ratio, absent[found.victim])
        held = self._held(found, candidates)
        return choose(loss_ratio, candidates, absent, held, self._context.settings.terms)

    def _act_on(self, found: Escalation, mode: Mode, choice: Choice, text: str) -> Escalation:
        record = json.dumps(choice.as_json())
        tried = len(found.attempts)
        if tried and (choice.mover is None or tried >= MOST_ATTEMPTS or mode is Mode.OBSERVE):
            told = sentences(found.reason, choice.sentence if choice.mover is None else "")
            return self._context.save(found, status=Status.FAILED, reason=told)
        if mode is Mode.OBSERVE:
            return self._observed(found, text, choice=record)
        if choice.mover is None:
            return self._context.save(found, status=Status.REFUSED, choice=record, reason=text)
        if mode is Mode.ADVISE:
            return self._context.save(
                found, status=Status.PROPOSED, choice=record, reason=text, owner=None
            )
        reason = sentences(found.reason, choice.sentence) if tried else text
        return self._begin(found, choice.mover, {"choice": record, "reason": reason})

    def _observed(self, found: Escalation, text: str, **changes: Any) -> Escalation:
        reason = f"Observed only. {text}"
        return self._context.settled(found, status=Status.OBSERVED, reason=reason, **changes)

    def _mode(self, found: Escalation, message: Mapping[str, Any]) -> Mode:
        """The weaker of the cloud's and the host's; what an operator has accepted is done."""
        mode = min(self._context.settings.mode, known_mode(message["mode"]), key=_WEAKEST.index)
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
            # Nova has just confirmed that it is there.
            source_host=found.host,
            status=Status.PREPARING,
            started_at=now,
        )
        changes = {**changes, "changed_at": now}
        begun = self._context.ledger.begin(found, attempt, changes, self._context.settings.budgets)
        if isinstance(begun, Escalation):
            log_status(begun, begun.reason)
            return begun
        if self._waited_s(found) <= self._context.settings.wait_s:
            reason = f"Waits: {begun}. {changes['reason']}"
            if found.attempts:  # What was tried before stands there already.
                return self._context.wait(found, BUDGET_WAIT_S)
            return self._context.wait(found, BUDGET_WAIT_S, choice=changes["choice"], reason=reason)
        reason = sentences(changes["reason"], f"Waited too long: {begun}.")
        return self._give_up(found, choice=changes["choice"], reason=reason)

    def _wait_for_nova(
        self, found: Escalation, mode: Mode, complaint: str, exc: NovaAway
    ) -> Escalation:
        LOG.warning("escalation=%s host=%s %s", found.id, found.host, exc)
        why = f"Nova cannot be asked where the servers are ({exc})."
        waited_s = self._waited_s(found)
        if waited_s <= self._context.settings.wait_s:
            wait_s = min(backoff_s(waited_s), MOST_WAIT_FOR_NOVA_S)
            if found.attempts:  # As with the budgets.
                return self._context.wait(found, wait_s)
            return self._context.wait(found, wait_s, reason=f"Waits: {why} {complaint}")
        text = f"Waited too long: {why}"
        if mode is Mode.OBSERVE and not found.attempts:
            return self._observed(found, f"{complaint} {text}")
        before = found.reason if found.attempts else complaint
        return self._give_up(found, reason=sentences(before, text))

    def _waited_s(self, found: Escalation) -> float:
        asked_at = found.accepted_at or found.received_at
        return self._context.since.elapsed_s((found.id, "begin"), asked_at)

    def _give_up(self, found: Escalation, **changes: Any) -> Escalation:
        status = Status.FAILED if found.attempts else Status.REFUSED
        return self._context.save(found, status=status, **changes)


class NotifyAgent:
    """An escalation that has ended, until its agent knows."""

    def __init__(self, context: StepContext) -> None:
        self._context = context

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
        """Of one without attempts the agent is told by its victim. Not why: the reason can say on
        which host Nova has a server, and whoever claimed it need not know that."""
        if found.status is Status.REFUSED and not found.attempts:
            outcome, detail = found.status.value, f"see openstack vp escalation show {found.id}"
            try:
                self._context.agents.end(found.host, found.id, found.victim, outcome, detail)
            except AgentAway as exc:
                if wait_s := self._wait_to_tell_s(found, found.changed_at, exc):
                    return self._context.wait(found, wait_s)
        return self._context.settled(found)

    def _wait_to_tell_s(self, found: Escalation, since: datetime, exc: AgentAway) -> float:
        """0: long enough; its hold has ended by itself."""
        waited_s = self._context.since.elapsed_s((found.id, "tell"), since)
        if waited_s > TELL_FOR_S:
            LOG.warning(
                "escalation=%s host=%s the agent was not notified of the end: %s",
                found.id,
                found.host,
                exc,
            )
            return 0.0
        return backoff_s(waited_s)
