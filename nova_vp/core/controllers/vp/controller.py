# SPDX-License-Identifier: Apache-2.0
"""The VP platform manager: what it would do about a detection is the thesis's ladder (2.1.3).

(1) move a suspect's vCPUs, or the victim's, with memory where the moved one needs it local;
(2) change places with somebody elsewhere; (3) where nothing can move, `restrain`. Who waits for CPU
has a ladder of its own, `relieve_cpu`. A group of claims
names what it chose by predicted loss and every alternative it rejected. Whether the host allows it
now is for `arbitrate` and `rate_limit`.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.vp.context import DecisionContext, group_of
from nova_vp.core.controllers.vp.declaration import (
    BRING_HOME,
    MOVE_AGGRESSOR,
    MOVE_VICTIM,
    NAME,
    REASONS,
    SWAP,
    CapHistory,
    VpSettings,
)
from nova_vp.core.controllers.vp.partners import pairs
from nova_vp.core.controllers.vp.relieve_cpu import (
    cap_users,
    change_places,
    is_on_trial,
    move_to_idle_cpu,
)
from nova_vp.core.controllers.vp.restrain import cap, partition
from nova_vp.core.controllers.vp.separate import is_due, is_ready, isolate_memory
from nova_vp.core.controllers.vp.standing_limits import (
    is_victim_degraded,
    is_victim_here,
    standing_limits,
)
from nova_vp.core.model.budgets import why_nothing_of_others
from nova_vp.core.model.candidate import (
    Candidate,
    Choice,
    best_of,
    domain_sets_of,
    has_room,
    is_memory_movable,
    move,
    move_along,
    move_memory,
    predicted_loss_of,
    swap,
    swap_has_room,
    unit_of,
)
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
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.state import CoreState

SUSPECTS = 3
"""Of a detection, the worst: who adds less will not mend it by leaving."""
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
        and (detection.kind is not Kind.CPU or not is_on_trial(detection, state.pending))
    ]
    # Of many victims some in each tick: they suspect the same few, and moves are rationed.
    interval_s = max((detection.now.span_s for detection in found), default=0.0)
    is_relieved = False
    for detection in round_robin(found, AT_ONCE, now_s, interval_s):
        is_cpu = detection.kind is Kind.CPU
        if detection.kind is Kind.REMOTE:
            yield _come_together(context, detection)
        elif detection.suspects and not (is_cpu and is_relieved):
            group = _mitigate(context, detection)
            is_relieved = is_relieved or (is_cpu and bool(group.settings))
            yield group


def _mitigate(context: DecisionContext, detection: Detection) -> ClaimGroup:
    rejected: list[Alternative] = []
    suspects = _tried_in_turn(context, detection, rejected)
    ladder: tuple[Step, ...] = (
        _move_from_cache if detection.kind is Kind.CACHE else _move_from_node,
        _change_places,
        partition,
        cap,
    )
    if detection.kind is Kind.CPU:
        ladder = (move_to_idle_cpu, change_places, cap_users)
    why = why_nothing_of_others(detection.victim_uuid, context.state, context.now_s, context.policy)
    if why is not None:  # It may still move itself.
        rejected += [Alternative(uuid, detection.domain_id, why) for uuid in suspects]
        return ladder[0](context, detection, (), rejected) or nothing_helps(detection, rejected)
    for rung in ladder:
        group = rung(context, detection, suspects, rejected)
        if group is not None:
            return group
    return nothing_helps(detection, rejected)


def nothing_helps(detection: Detection, rejected: Iterable[Alternative]) -> ClaimGroup:
    """A group without claims: these are the reasons."""
    nowhere = PredictedLoss(detection.measured_loss_ratio, 0.0)
    victim = detection.victim_uuid
    return ClaimGroup(NAME, victim, (), (), MOVE_VICTIM, nowhere, detection, tuple(rejected))


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


def _move_from_cache(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """A suspect to another LLC, else the victim: by what `predict` says of the place."""
    for uuid in suspects:
        group = _move_away(context, uuid, detection, MOVE_AGGRESSOR, rejected)
        if group is not None:
            return group
    return _move_away(context, detection.victim_uuid, detection, MOVE_VICTIM, rejected)


def _move_away(
    context: DecisionContext,
    uuid: str,
    detection: Detection,
    reason: Reason,
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """The best other domain set for one VP's guests, or None with the rejections noted."""
    host = context.host
    if host.guests[uuid].unmanaged:
        rejected.append(Alternative(uuid, detection.domain_id, Rejection.UNMANAGED))
        return None
    unit = unit_of(host, uuid)
    shared = {d.id for d in host.domains_of[detection.victim_uuid]}
    loss = detection.measured_loss_ratio
    options: list[tuple[PredictedLoss, DomainSet]] = []
    noted = len(rejected)
    for domain_set in domain_sets_of(host, unit):
        if shared & {d.id for d in domain_set}:
            continue
        predicted_loss = context.loss_in(uuid, domain_set)
        if not has_room(host, domain_set, unit):
            rejected.append(
                Alternative(uuid, domain_set[0].id, Rejection.NO_FREE_CPU, predicted_loss)
            )
        elif predicted_loss.worst_ratio >= loss:
            rejected.append(
                Alternative(uuid, domain_set[0].id, Rejection.HURTS_MORE, predicted_loss)
            )
        else:
            options.append((predicted_loss, domain_set))
    options.sort(key=lambda option: (option[0].worst_ratio, option[1][0].id))
    for place, (predicted_loss, domain_set) in enumerate(options):
        candidate = move_along(host, unit, domain_set)
        if not context.fresh(detection, [candidate], rejected):
            continue
        if _is_worth_it(context, detection, candidate):
            rejected += [
                Alternative(uuid, other[0].id, Rejection.NOT_BEST, worse)
                for worse, other in options[place + 1 :]
            ]
            return group_of(host, candidate, reason, predicted_loss, detection, rejected)
        rejected.append(Alternative(uuid, domain_set[0].id, Rejection.HURTS_OTHERS, predicted_loss))
    if len(rejected) == noted:
        everywhere = Rejection.SHARED_EVERYWHERE
        rejected.append(Alternative(uuid, detection.domain_id, everywhere))
    return None


def _is_worth_it(context: DecisionContext, detection: Detection, candidate: Candidate) -> bool:
    """Beyond the caches: memory that stays behind, controllers and links that get busier."""
    return -context.worst_of(candidate) <= context.terms(detection).most_hurt


def _move_from_node(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """Off a hot controller or link: vCPU moves alone cannot unload a controller, so memory goes
    along, or goes alone; the smaller footprint is weighed first (thesis 3.2.3)."""
    host = context.host
    moved = [*suspects[:SUSPECTS], detection.victim_uuid]
    candidates: list[Candidate] = []
    for uuid in sorted(moved, key=lambda one: host.guests[one].memory_kib):
        guest = host.guests[uuid]
        if guest.unmanaged:
            continue
        here = {d.id for d in host.domains_of[uuid]}
        unit = unit_of(host, uuid)
        for domain_set in domain_sets_of(host, unit):
            if here != {d.id for d in domain_set} and has_room(host, domain_set, unit):
                candidates.append(move(host, unit, domain_set, with_memory=True))
        candidates += [
            move_memory(host, guest, node)
            for node in host.topology.nodes
            if is_memory_movable(host, guest, node)
        ]
    useful = [one for one in candidates if one.moves_memory or detection.kind is Kind.LINK]
    fresh = context.fresh(detection, useful, rejected)
    chosen, refused = best_of(fresh, context.what_if, context.terms(detection))
    rejected += refused
    if not useful:
        rejected.append(
            Alternative(
                detection.victim_uuid,
                detection.domain_id,
                Rejection.NO_FREE_CPU,
                rung=Rung.MOVE_WITH_MEMORY,
            )
        )
    return _chosen(context, chosen, detection, rejected)


def _come_together(context: DecisionContext, detection: Detection) -> ClaimGroup:
    """Memory is remote: its vCPUs to the memory while there is room, else the memory to them."""
    host, victim = context.host, detection.victim_uuid
    guest = host.guests[victim]
    rejected: list[Alternative] = []
    if guest.unmanaged:
        rejected.append(Alternative(victim, detection.domain_id, Rejection.UNMANAGED))
        return nothing_helps(detection, rejected)
    memory = host.memory_of(victim)
    home = max(memory, key=lambda node: memory[node])
    unit = unit_of(host, victim)
    there = [
        move(host, unit, domain_set, with_memory=False)
        for domain_set in domain_sets_of(host, unit)
        if domain_set[0].node == home
        and domain_set != host.domains_of[victim]
        and has_room(host, domain_set, unit)
    ]
    here = [
        move_memory(host, guest, node)
        for node in sorted({d.node for d in host.domains_of[victim]})
        if is_memory_movable(host, guest, node)
    ]
    for candidates in (there, here):
        fresh = context.fresh(detection, candidates, rejected)
        chosen, refused = best_of(fresh, context.what_if, context.terms(detection))
        rejected += refused
        if chosen is not None:
            predicted_loss = predicted_loss_of(chosen.candidate.locations, chosen.gain)
            return group_of(host, chosen.candidate, BRING_HOME, predicted_loss, detection, rejected)
    if not there and not here:
        rejected.append(Alternative(victim, detection.domain_id, Rejection.NO_FREE_CPU))
    return nothing_helps(detection, rejected)


def _change_places(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """No CPU is free elsewhere: a suspect, or the victim, with somebody who minds it less."""
    host = context.host
    victim, residents = detection.victim_uuid, context.what_if.residents
    moved = (*suspects[:1], victim)
    candidates = [
        swap(host, one, other, follow=True)
        for one, other in pairs(host, moved, victim, lambda uuid: residents[uuid].pressure_per_s)
        if swap_has_room(host, one, other)
    ]
    fresh = context.fresh(detection, candidates, rejected)
    chosen, refused = best_of(fresh, context.what_if, context.terms(detection))
    rejected += refused
    return _chosen(context, chosen, detection, rejected, SWAP)


def _chosen(
    context: DecisionContext,
    choice: Choice | None,
    detection: Detection,
    rejected: list[Alternative],
    reason: Reason | None = None,
) -> ClaimGroup | None:
    if choice is None:
        return None
    candidate = choice.candidate
    is_victim = candidate.guest_uuid == detection.victim_uuid
    why = reason or (MOVE_VICTIM if is_victim else MOVE_AGGRESSOR)
    return group_of(
        context.host,
        candidate,
        why,
        predicted_loss_of(candidate.locations, choice.gain),
        detection,
        rejected,
    )
