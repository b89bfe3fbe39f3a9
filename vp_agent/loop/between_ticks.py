# SPDX-License-Identifier: Apache-2.0
"""What happens between two ticks: calls of overlays are answered at once, on the tick's thread.

They are decided from the picture of the last tick with what was applied since. Nothing is measured;
whoever ended meanwhile is met by the driver, and the call refused.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from nova_vp.core.model.turned import turned
from nova_vp.core.overlay_step import answer_calls
from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.overlay import Call, CallAnswer, CallResource, Nack, Overlay
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.state import CoreState
from vp_agent.loop.picture import OwnHost
from vp_agent.loop.recorder import Snapshot

_NO_PICTURE = "the agent has not seen its servers yet; try again in a second"


class Asked(NamedTuple):
    """What was told of applications, and by them."""

    calls: tuple[Call, ...]
    """None: only what has ended since is taken back."""
    overlays: Mapping[str, Overlay]
    mode: Mode


class Answered(NamedTuple):
    state: CoreState
    answers: tuple[CallAnswer, ...]
    outcomes: tuple[Outcome, ...] = ()
    snapshot: Snapshot | None = None
    """For recordings; None: nothing was decided."""


class BetweenTicks:
    def __init__(self) -> None:
        self._picture: Picture | None = None
        self.next_end_s = math.inf
        """When something that was granted ends."""

    def begin(self, picture: Picture, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        """After a tick."""
        self._picture = _with_applied(picture, outcomes)
        self.next_end_s = _next_end_s(decision)

    def answer(
        self,
        host: OwnHost,
        asked: Asked,
        state: CoreState,
        policy: Policy,
        now_s: float,
    ) -> Answered:
        """Raises HostUnavailable: nothing was changed then."""
        if self._picture is None:
            return Answered(state, refused(asked.calls, _NO_PICTURE))
        # If the host is unavailable, the next tick takes back what has ended.
        self.next_end_s = math.inf
        ours = {u: one for u, one in host.journal.read().items() if one.epoch == host.epoch}
        picture = replace(
            self._picture,
            at_s=now_s,
            mode=asked.mode,
            guests=_looked_at(host, self._picture.guests, asked.calls),
            applied=ours,
            overlays=asked.overlays,
            calls=asked.calls,
        )
        decided, decision = answer_calls(state, picture, policy)
        outcomes = host.executor.apply(decision.actions, now_s)
        self._picture = _with_applied(picture, outcomes)
        self.next_end_s = _next_end_s(decision)
        after = confirm(decided, outcomes, policy)
        seen = Snapshot(policy, state, picture, decision, outcomes, after, is_between=True)
        return Answered(after, _answers(decision, outcomes), outcomes, seen)


def _next_end_s(decision: Decision) -> float:
    return math.inf if decision.next_end_s is None else decision.next_end_s


def refused(calls: Iterable[Call], why: str) -> tuple[CallAnswer, ...]:
    return tuple(CallAnswer(call.id, Nack.HOST_REFUSED, why) for call in calls)


def _answers(decision: Decision, outcomes: Iterable[Outcome]) -> tuple[CallAnswer, ...]:
    """Whatever was decided, what the host did not do is refused."""
    failed = {
        call_id: outcome.detail
        for outcome in outcomes
        if outcome.result is Result.FAILED
        for call_id in outcome.action.call_ids
    }
    return tuple(
        CallAnswer(one.call_id, Nack.HOST_REFUSED, failed[one.call_id])
        if one.call_id in failed
        else one
        for one in decision.answers
    )


def _looked_at(
    host: OwnHost, guests: tuple[Guest, ...], calls: tuple[Call, ...]
) -> tuple[Guest, ...]:
    """What a guest uses of its memory is asked for when somebody wants to change that."""
    about = {call.guest_uuid for call in calls if call.resource is CallResource.MEMORY_SIZE}
    if not about:
        return guests
    return tuple(host.balloon.look(guest) if guest.uuid in about else guest for guest in guests)


def _with_applied(picture: Picture, outcomes: Iterable[Outcome]) -> Picture:
    changes = [
        change
        for outcome in outcomes
        if outcome.result is Result.APPLIED
        for change in outcome.action.changes
    ]
    if not changes:
        return picture
    guests = {guest.uuid: guest for guest in picture.guests}
    for change in changes:
        if guest := guests.get(change.guest_uuid):
            guests[guest.uuid] = turned(guest, change.knob, change.to)
    return replace(picture, guests=tuple(guests.values()))
