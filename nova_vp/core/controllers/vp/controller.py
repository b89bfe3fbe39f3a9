# SPDX-License-Identifier: Apache-2.0
"""What the VP platform manager would do about a detection: the thesis's ladder (2.1.3), in order.

(1) move a suspect's vCPUs, or the victim's, with memory where the moved one needs it local;
(2) change places with somebody elsewhere; (3) where nothing can move, `restrain`. A want names what
it chose by predicted loss and every alternative it rejected. Whether the host allows it now is for
`arbitrate` and `rate_limit`.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence

from nova_vp.core.controllers.vp.context import DecisionContext, want_of
from nova_vp.core.controllers.vp.restrain import cap, partition
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
from nova_vp.core.model.host import DomainSet, Host
from nova_vp.core.model.predict import predict
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Controller, Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.want import Alternative, PredictedLoss, Want

SUSPECTS = 3
"""Of a detection, the worst: who adds less will not mend it by leaving."""
AT_ONCE = 2
"""Victims for whom a ladder is climbed in one tick."""
PARTNERS = 8
"""Guests elsewhere, the quietest first, with whom a change of places is weighed."""


def mitigate(
    host: Host, what_if: WhatIfModel, state: CoreState, now_s: float, policy: Policy
) -> Iterator[Want]:
    """One want for each detection whose last mitigation is not still being judged, nor a cap of one
    of its suspects for somebody else's sake: that changes what this victim feels, too. One whose
    memory is on its way is left out, except in the cache: its vCPUs would be sent after memory that
    is coming to them."""
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

    context = DecisionContext(host, what_if, state, now_s, policy, loss_in)
    found = [
        detection
        for vp in host.vps.values()
        if (detection := vp.detection)
        and detection.victim_uuid not in waiting
        and (detection.kind is Kind.CACHE or detection.victim_uuid not in host.memory_moves)
        and not any(suspect.guest_uuid in on_trial for suspect in detection.suspects)
    ]
    # Of many victims some in each tick: they suspect the same few, and moves are rationed.
    interval_s = max((detection.now.span_s for detection in found), default=0.0)
    for detection in round_robin(found, AT_ONCE, now_s, interval_s):
        if detection.kind is Kind.REMOTE:
            yield _come_together(context, detection)
        elif detection.suspects:
            yield _mitigate(context, detection)


def _mitigate(context: DecisionContext, detection: Detection) -> Want:
    rejected: list[Alternative] = []
    suspects = _tried_in_turn(context, detection, rejected)
    ladder = (
        _move_from_cache if detection.kind is Kind.CACHE else _move_from_node,
        _change_places,
        partition,
        cap,
    )
    for rung in ladder:
        want = rung(context, detection, suspects, rejected)
        if want is not None:
            return want
    return nothing_helps(detection, rejected)


def nothing_helps(detection: Detection, rejected: Iterable[Alternative]) -> Want:
    """A want without settings: these are the reasons."""
    nowhere = PredictedLoss(detection.measured_loss_ratio, 0.0)
    victim = detection.victim_uuid
    return Want(
        Controller.VP.value, victim, (), (), Reason.MOVE_VICTIM, nowhere, detection, tuple(rejected)
    )


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
) -> Want | None:
    """A suspect to another LLC, else the victim: by what `predict` says of the place."""
    for uuid in suspects:
        want = _move_away(context, uuid, detection, Reason.MOVE_AGGRESSOR, rejected)
        if want is not None:
            return want
    return _move_away(context, detection.victim_uuid, detection, Reason.MOVE_VICTIM, rejected)


def _move_away(
    context: DecisionContext,
    uuid: str,
    detection: Detection,
    reason: Reason,
    rejected: list[Alternative],
) -> Want | None:
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
            return want_of(host, candidate, reason, predicted_loss, detection, rejected)
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
) -> Want | None:
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


def _come_together(context: DecisionContext, detection: Detection) -> Want:
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
            return want_of(
                host, chosen.candidate, Reason.BRING_HOME, predicted_loss, detection, rejected
            )
    if not there and not here:
        rejected.append(Alternative(victim, detection.domain_id, Rejection.NO_FREE_CPU))
    return nothing_helps(detection, rejected)


def _change_places(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> Want | None:
    """No CPU is free elsewhere: a suspect, or the victim, with somebody who minds it less."""
    host = context.host
    shared = {d.id for d in host.domains_of[detection.victim_uuid]}
    partners = sorted(
        (
            uuid
            for uuid, guest in host.guests.items()
            if not guest.unmanaged and not shared & {d.id for d in host.domains_of[uuid]}
        ),
        key=lambda uuid: (context.what_if.residents[uuid].pressure_per_s, uuid),
    )[:PARTNERS]
    moved = (*suspects[:1], detection.victim_uuid)
    pairs = [
        (unit_of(host, uuid), unit_of(host, partner))
        for uuid in moved
        if not host.guests[uuid].unmanaged
        for partner in partners
        if host.guests[uuid].vp_id != host.guests[partner].vp_id
    ]
    candidates = [
        swap(host, one, other, follow=True)
        for one, other in pairs
        if swap_has_room(host, one, other)
    ]
    fresh = context.fresh(detection, candidates, rejected)
    chosen, refused = best_of(fresh, context.what_if, context.terms(detection))
    rejected += refused
    return _chosen(context, chosen, detection, rejected, Reason.SWAP)


def _chosen(
    context: DecisionContext,
    choice: Choice | None,
    detection: Detection,
    rejected: list[Alternative],
    reason: Reason | None = None,
) -> Want | None:
    if choice is None:
        return None
    candidate = choice.candidate
    is_victim = candidate.guest_uuid == detection.victim_uuid
    why = reason or (Reason.MOVE_VICTIM if is_victim else Reason.MOVE_AGGRESSOR)
    return want_of(
        context.host,
        candidate,
        why,
        predicted_loss_of(candidate.locations, choice.gain),
        detection,
        rejected,
    )
