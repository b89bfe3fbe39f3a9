# SPDX-License-Identifier: Apache-2.0
"""The rungs that move servers: a suspect's vCPUs, or the victim's, to another cache or node, with
memory where it must follow; a victim together with its memory; two that change places.

Who waits for CPU is moved by `relieve_cpu`; who stays where it is `restrain` limits.
"""

from collections.abc import Sequence

from nova_vp.core.controllers.vp.context import DecisionContext, group_of, nothing_helps
from nova_vp.core.controllers.vp.declaration import BRING_HOME, MOVE_AGGRESSOR, MOVE_VICTIM, SWAP
from nova_vp.core.controllers.vp.partners import pairs
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
from nova_vp.core.model.host import DomainSet
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.reason import Reason, Rejection, Rung

SUSPECTS = 3
"""Of a detection, the worst: who adds less will not mend it by leaving."""


def move_from_cache(
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


def move_from_node(
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


def come_together(context: DecisionContext, detection: Detection) -> ClaimGroup:
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


def change_places(
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
