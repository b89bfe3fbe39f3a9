# SPDX-License-Identifier: Apache-2.0
"""The ladder of a VP that waits for CPU: a place with idle CPU, a change of places, a cap.

The victim itself is moved first: that changes no other server, and leaves its neighbours with more
CPU, too. What a place costs beyond CPU (caches, memory) the what-if model tells, and vetoes it.
What it brings is measured: the waiting that ends there.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from nova_vp.core.controllers.vp.context import DecisionContext, group_of
from nova_vp.core.controllers.vp.declaration import CAP, MOVE_AGGRESSOR, MOVE_VICTIM, SWAP
from nova_vp.core.controllers.vp.partners import pairs
from nova_vp.core.controllers.vp.restrain import in_place, steps_down
from nova_vp.core.model.candidate import (
    CPU_SLACK,
    Candidate,
    domain_sets_of,
    has_room,
    is_allotted,
    move_along,
    predicted_loss_of,
    rejection,
    swap,
    unit_of,
)
from nova_vp.core.model.cpu_cap import CAP_STEP
from nova_vp.core.model.host import DomainSet, Host
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.detection import Detection
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.state import Pending

SUSPECTS = 3
"""Of a detection, the heaviest: who uses less of the CPUs will not relieve it by leaving."""


def is_on_trial(detection: Detection, pending: Iterable[Pending]) -> bool:
    """Whether the victim, or who uses its CPUs, was changed a moment ago: it may wait no more."""
    changed = {change.guest_uuid for one in pending for change in one.action.changes}
    return not changed.isdisjoint(
        (detection.victim_uuid, *(suspect.guest_uuid for suspect in detection.suspects))
    )


def move_to_idle_cpu(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """The victim, else a suspect that uses as much of its CPUs as it waits for."""
    victim = detection.victim_uuid
    waited_cores = _waited_cores(context.host, victim)
    using = {one.guest_uuid: one.pressure_per_s for one in detection.suspects}
    for uuid in (victim, *suspects[:SUSPECTS]):
        guest = context.host.guests[uuid]
        if guest.unmanaged:
            rejected.append(Alternative(uuid, detection.domain_id, Rejection.UNMANAGED))
        elif uuid != victim and using[uuid] < waited_cores:
            rejected.append(Alternative(uuid, detection.domain_id, Rejection.GAINS_TOO_LITTLE))
        else:
            reason = MOVE_VICTIM if uuid == victim else MOVE_AGGRESSOR
            places = _places(context.host, uuid, victim)
            candidates = list(_moves(context, detection, uuid, places, rejected))
            group = _cheapest(context, detection, candidates, reason, rejected)
            if group is not None:
                return group
    return None


def _places(host: Host, uuid: str, victim: str) -> list[DomainSet]:
    """Where it could run instead, the nearest first: its own caches, its own node, the others.
    Who has no CPUs of its own runs everywhere in its domains already."""
    unit = unit_of(host, uuid)
    here = host.domains_of[uuid]
    nodes = {domain.node for domain in here}
    shared = {domain.id for domain in host.domains_of[victim]} if uuid != victim else set()
    has_own = all(is_allotted(host, guest) for guest in unit)
    found = [
        place
        for place in domain_sets_of(host, unit)
        if (place != here or has_own) and (has_own or not shared & {d.id for d in place})
    ]
    return sorted(found, key=lambda place: (place != here, place[0].node not in nodes))


def _moves(
    context: DecisionContext,
    detection: Detection,
    uuid: str,
    places: Sequence[DomainSet],
    rejected: list[Alternative],
) -> Iterator[Candidate]:
    host = context.host
    unit = unit_of(host, uuid)
    for place in places:
        if _has_idle_cpu(host, place, unit):
            yield move_along(host, unit, place)
        else:
            rejected.append(Alternative(uuid, place[0].id, Rejection.NO_FREE_CPU))
    if not places:
        rejected.append(Alternative(uuid, detection.domain_id, Rejection.SHARED_EVERYWHERE))


def _has_idle_cpu(
    host: Host, place: DomainSet, unit: Sequence[Guest], leaving: Sequence[Guest] = ()
) -> bool:
    """Whether the unit gets there what it wants, once it and `leaving` are gone, and leaves the
    others what they want."""
    if any(is_allotted(host, guest) for guest in unit):
        return has_room(host, place, unit, leaving)
    gone = {guest.uuid for guest in (*unit, *leaving)}
    needed = sum(_wanted_cores(host, guest.uuid) for guest in unit)
    taken = sum(
        host.share(uuid, domain) * _wanted_cores(host, uuid)
        for domain in place
        for uuid in host.members[domain.id]
        if uuid not in gone
    )
    return sum(len(domain.cpus) for domain in place) - taken >= needed * (1 - CPU_SLACK)


def _wanted_cores(host: Host, uuid: str) -> float:
    """Where it is seen what it lacks, nobody has to guess what it could use."""
    use = _use_of(host, uuid)
    if use is None:
        return host.wanted_cores(uuid)
    return max(use.ran_cores + use.waited_cores, host.vps[uuid].peak_cores)


def _waited_cores(host: Host, uuid: str) -> float:
    use = _use_of(host, uuid)
    return use.waited_cores if use else 0.0


def _use_of(host: Host, uuid: str) -> CpuUse | None:
    return host.vps[uuid].recent_cpu_use or host.vps[uuid].cpu_use


def _cheapest(
    context: DecisionContext,
    detection: Detection,
    candidates: Sequence[Candidate],
    reason: Reason,
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """The first of them that costs nobody as much as the victim waits, and memory only where it
    must."""
    terms = context.terms(detection)
    for candidate in context.fresh(detection, candidates, rejected):
        gain = context.what_if.evaluate(candidate.locations)
        if -gain.worst > terms.most_hurt:
            rejected.append(rejection(candidate, Rejection.HURTS_OTHERS, gain))
        elif detection.waiting_ratio + gain.total < terms.price_of(candidate.settings):
            rejected.append(rejection(candidate, Rejection.GAINS_TOO_LITTLE, gain))
        else:
            loss = predicted_loss_of(candidate.locations, gain)
            return group_of(context.host, candidate, reason, loss, detection, rejected)
    return None


def change_places(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """No CPU is idle elsewhere: the victim, or the heaviest suspect, with somebody who uses less,
    where there is enough for both then."""
    host = context.host
    victim = detection.victim_uuid
    candidates = [
        swap(host, one, other, follow=True)
        for one, other in pairs(host, (victim, *suspects[:1]), victim, host.used_cores)
        if _is_enough_for_both(host, one, other)
    ]
    return _cheapest(context, detection, candidates, SWAP, rejected)


def _is_enough_for_both(host: Host, one: Sequence[Guest], other: Sequence[Guest]) -> bool:
    there, here = host.domains_of[other[0].uuid], host.domains_of[one[0].uuid]
    return (
        there in domain_sets_of(host, one)
        and here in domain_sets_of(host, other)
        and _has_idle_cpu(host, there, one, other)
        and _has_idle_cpu(host, here, other, one)
    )


def cap_users(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """A tenth less CPU for the heaviest suspect that has more of it than is fair."""
    if Knob.CPU_CAP not in context.host.knobs:
        return None
    use = _use_of(context.host, detection.victim_uuid)
    if use is None or use.samples < context.policy.settle_samples:
        return None
    for setting in steps_down(context, detection, suspects, rejected):
        uuid = setting.guest_uuid
        if _is_fair(context.host, detection, use, uuid):
            candidate, loss = in_place(Rung.CAP, setting), PredictedLoss(CAP_STEP, 0.0)
            return group_of(context.host, candidate, CAP, loss, detection, rejected)
        rejected.append(Alternative(uuid, detection.domain_id, Rejection.UNFAIR, rung=Rung.CAP))
    return None


def _is_fair(host: Host, detection: Detection, use: CpuUse, payer_uuid: str) -> bool:
    """Whether what the victim can take of the step is worth more to it than it costs the payer, in
    logarithms of performance, by their priorities: of two that wait alike nobody is capped.

    `use`: the victim's.
    """
    victim, payer = host.guests[detection.victim_uuid], host.guests[payer_uuid]
    freed = CAP_STEP * next(
        one.pressure_per_s for one in detection.suspects if one.guest_uuid == payer_uuid
    )
    gain = math.log(1 + min(freed, use.waited_cores) / use.ran_cores)
    return victim.priority * gain + payer.priority * math.log(1 - CAP_STEP) > 0
