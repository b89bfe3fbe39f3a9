# SPDX-License-Identifier: Apache-2.0
"""The VP platform manager: what it would do about a detection is the thesis's ladder (2.1.3).

(1) move a suspect's vCPUs, or the victim's, with memory where the moved one needs it local;
(2) change places with somebody elsewhere (both in `relocate`); (3) where nothing can move,
`restrain`. Who waits for CPU has a ladder of its own, `relieve_cpu`. A group of claims names what
it chose by predicted loss and every alternative it rejected. Whether the host allows it now is for
`arbitrate` and `rate_limit`.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.vp import relieve_cpu, relocate, restrain
from nova_vp.core.controllers.vp.context import DecisionContext, nothing_helps
from nova_vp.core.controllers.vp.declaration import NAME, REASONS, CapHistory, VpSettings
from nova_vp.core.controllers.vp.separate import is_due, is_ready, isolate_memory
from nova_vp.core.controllers.vp.standing_limits import (
    is_victim_degraded,
    is_victim_here,
    standing_limits,
)
from nova_vp.core.model.budgets import why_nothing_of_others
from nova_vp.core.model.candidate import unit_of
from nova_vp.core.model.holds import round_robin
from nova_vp.core.model.host import DomainSet
from nova_vp.core.model.limits import LIMITS, size
from nova_vp.core.model.predict import predict
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.claim import (
    Alternative,
    Claim,
    ClaimGroup,
    ClaimKey,
    PredictedLoss,
    Release,
)
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.state import CoreState

AT_ONCE = 2
"""Victims for whom a ladder is climbed in one tick."""

_BEYOND_CACHE = frozenset({Kind.CONTROLLER, Kind.LINK, Kind.REMOTE})
"""Detected by cycles per instruction."""

Step = Callable[[DecisionContext, Detection, Sequence[str], list[Alternative]], ClaimGroup | None]
"""Of a ladder: what it would do with these suspects, or None with the reasons noted."""


class Vp(Controller):
    name = NAME
    summary = "mitigates interference (Virtual Platforms thesis 2013, chapter 2)"
    is_default = True
    sees_virtual_places = True
    settings = VpSettings
    state = CapHistory
    reasons = REASONS

    def run(self, view: View, state: CapHistory, settings: VpSettings) -> Answer:
        state = _without_ended(view, state)
        isolating: tuple[ClaimGroup, ...] = ()
        is_isolating = is_due(view, state.looked_at_s)
        if is_isolating and is_ready(view):
            isolating = tuple(isolate_memory(view))
            is_isolating = bool(isolating)
            state = state if is_isolating else replace(state, looked_at_s=view.now_s)
        mitigating = mitigate(view, state, settings, is_isolating)
        groups = (*isolating, *mitigating, *standing_limits(view, state, settings))
        return Answer(state, groups, tuple(_settled_places(view)))

    def note(
        self, state: CapHistory, outcome: Outcome, core: CoreState, settings: VpSettings
    ) -> CapHistory:
        """When each cap was first set, by what it was measured, and when it was last raised."""
        if outcome.result is not Result.APPLIED:
            return state
        busiest, raised = dict(state.busiest_cores), dict(state.raised_at_s)
        for change in outcome.action.changes:
            if change.knob is not Knob.CPU_CAP or change.guest_uuid not in core.vps:
                continue
            if size(change.to) > size(change.now):
                raised[change.guest_uuid] = outcome.at_s
            else:
                cores = core.vps[change.guest_uuid].busiest_cores
                busiest.setdefault(change.guest_uuid, cores)
        return replace(state, busiest_cores=busiest, raised_at_s=raised)

    def grants(self, view: View, key: ClaimKey, claim: Claim, settings: VpSettings) -> bool:
        """As long as the one that it was made for is not degraded."""
        return is_victim_here(view.host, claim) and not is_victim_degraded(view.host, claim)


def _without_ended(view: View, state: CapHistory) -> CapHistory:
    """A cap that ended is forgotten, so that the next one begins by what is used then."""
    if not state.busiest_cores and not state.raised_at_s:
        return state
    capped = {uuid for (uuid, knob), _ in view.standing(NAME) if knob is Knob.CPU_CAP}
    if state.busiest_cores.keys() <= capped and state.raised_at_s.keys() <= view.host.guests.keys():
        return state
    here = view.host.guests
    return replace(
        state,
        busiest_cores={u: cores for u, cores in state.busiest_cores.items() if u in capped},
        raised_at_s={u: at_s for u, at_s in state.raised_at_s.items() if u in here},
    )


def _settled_places(view: View) -> Iterator[Release]:
    """Once it is judged, a move is nobody's: others may find a better place."""
    on_trial = {pending.action.id for pending in view.core.pending}
    for key, claim in view.standing(NAME):
        if key[1] not in LIMITS and claim.action_id not in on_trial:
            yield Release(*key)


def mitigate(
    view: View, history: CapHistory, settings: VpSettings, is_isolating: bool = False
) -> Iterator[ClaimGroup]:
    """One group for each detection whose last mitigation is not still being judged, nor a cap of
    one of its suspects for somebody else's sake: that changes what this victim feels, too. While
    memory is on its way, or who needs it for itself is looked for, nothing is done beyond the
    cache: copying slows many, vCPUs would be sent after memory that is coming to them, and busy
    controllers are what State-8 VPs are separated for. One that refuses help is left out. Of VPs
    that wait for each other one is helped at a time: the others may wait no more then."""
    host, state, now_s, policy = view.host, view.core, view.now_s, view.policy
    if not any(vp.detection for vp in host.vps.values()):
        return
    is_copying = is_isolating or bool(host.memory_moves)
    waiting = {p.action.victim_uuid for p in state.pending}
    on_trial = {
        change.guest_uuid
        for pending in state.pending
        for change in pending.action.changes
        if change.knob is Knob.CPU_CAP
    }

    # Twenty victims suspect the same few: what a move would do is worked out once for all.
    @functools.cache
    def loss_in(uuid: str, domain_set: DomainSet) -> PredictedLoss:
        unit = frozenset(guest.uuid for guest in unit_of(host, uuid))
        return predict(
            host.resident(uuid, policy), host.residents(domain_set, policy, unit | {uuid})
        )

    context = DecisionContext(view, history, settings, loss_in)
    found = [
        detection
        for vp in host.vps.values()
        if (detection := vp.detection)
        and detection.victim_uuid not in waiting
        and not host.refuses_help(detection.victim_uuid)
        and not (is_copying and detection.kind in _BEYOND_CACHE)
        and not any(suspect.guest_uuid in on_trial for suspect in detection.suspects)
        and not (detection.kind is Kind.CPU and relieve_cpu.is_on_trial(detection, state.pending))
    ]
    # Of many victims some in each tick: they suspect the same few, and moves are rationed.
    interval_s = max((detection.now.span_s for detection in found), default=0.0)
    is_relieved = False
    for detection in round_robin(found, AT_ONCE, now_s, interval_s):
        is_cpu = detection.kind is Kind.CPU
        if detection.kind is Kind.REMOTE:
            yield relocate.come_together(context, detection)
        elif detection.suspects and not (is_cpu and is_relieved):
            group = _mitigate(context, detection)
            is_relieved = is_relieved or (is_cpu and bool(group.settings))
            yield group


def _mitigate(context: DecisionContext, detection: Detection) -> ClaimGroup:
    rejected: list[Alternative] = []
    suspects = _tried_in_turn(context, detection, rejected)
    ladder: tuple[Step, ...] = (
        relocate.move_from_cache if detection.kind is Kind.CACHE else relocate.move_from_node,
        relocate.change_places,
        restrain.partition,
        restrain.cap,
    )
    if detection.kind is Kind.CPU:
        ladder = (relieve_cpu.move_to_idle_cpu, relieve_cpu.change_places, relieve_cpu.cap_users)
    why = why_nothing_of_others(detection.victim_uuid, context.state, context.now_s, context.policy)
    if why is not None:  # It may still move itself.
        rejected += [Alternative(uuid, detection.domain_id, why) for uuid in suspects]
        return ladder[0](context, detection, (), rejected) or nothing_helps(detection, rejected)
    for rung in ladder:
        group = rung(context, detection, suspects, rejected)
        if group is not None:
            return group
    return nothing_helps(detection, rejected)


def _tried_in_turn(
    context: DecisionContext, detection: Detection, rejected: list[Alternative]
) -> tuple[str, ...]:
    """The suspects, worst first, without those acquitted and those that are not ours to touch."""
    found = []
    for suspect in detection.suspects:
        uuid = suspect.guest_uuid
        if uuid not in context.host.guests:
            continue  # It left since the victim was last seen.
        pair = (detection.victim_uuid, uuid)
        if context.state.cleared_suspects.get(pair, context.now_s) > context.now_s:
            rejected.append(Alternative(uuid, detection.domain_id, Rejection.FAILED_BEFORE))
        elif context.host.guests[uuid].unmanaged:
            rejected.append(Alternative(uuid, detection.domain_id, Rejection.UNMANAGED))
        else:
            found.append(uuid)
    return tuple(found)
