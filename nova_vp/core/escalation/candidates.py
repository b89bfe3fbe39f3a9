# SPDX-License-Identifier: Apache-2.0
"""Who could leave this host for another one, and what that would bring: for the cluster to choose.

The victim takes all that it loses along; who presses on it takes the pressure along; a quiet one
leaves room, which is worth what the best move into it would bring on the node. A few what-ifs are
evaluated per tick, since a full host has hundreds of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nova_vp.core.model.candidate import (
    FREE_CPU,
    Candidate,
    domain_sets_of,
    has_room,
    move,
    move_along,
    unit_of,
)
from nova_vp.core.model.host import DomainSet, Host, allotted_cores
from nova_vp.core.model.location import GONE
from nova_vp.core.model.what_if import Gain, WhatIfModel
from nova_vp.core.types.decision import Migrant, Role
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CandidateEvaluation, CoreState, WhatIf

BATCH = 2
"""Guests that leave, one at a time, in one tick's what-if."""
NEAR = 8
"""Of those who share a cache or a controller with the victim, the ones that press most."""
MOVERS = 3
"""The victim and the worst suspects: for whom room is sought."""
DOMAIN_SETS = 4
"""Places that each of them could have, the quietest first."""
LOOKED_AT = 8
MAKERS = 3
"""Of those who would leave room there, the lightest: the sooner they are elsewhere."""
MOST_FREED = 24
"""For a demand for CPU: guests weighed, the lightest first."""
PREDICTED = 0.01
"""Loss of the victim below which the model does not see what was measured."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """One victim that nothing on its host helps."""

    victim: Guest
    detection: Detection | None
    """None: it is short of CPU."""
    host: Host
    what_if: WhatIfModel
    state: CoreState
    now_s: float
    policy: Policy

    @property
    def suspects(self) -> tuple[str, ...]:
        return _suspects(self.host, self.detection)

    @property
    def lost_ratio(self) -> float:
        """Share of its undisturbed performance that the victim lacks now, as measured."""
        if self.detection:
            return self.detection.measured_loss_ratio
        return 1 - allotted_cores(self.victim) / self.victim.vcpus


def _suspects(host: Host, detection: Detection | None) -> tuple[str, ...]:
    found = detection.suspects if detection else ()
    return tuple(s.guest_uuid for s in found if s.guest_uuid in host.guests)


def what_ifs(context: DecisionContext) -> CandidateEvaluation:
    """All that is to be weighed for this escalation."""
    first = (WhatIf((context.victim.uuid,)),)
    if context.detection is None:
        return CandidateEvaluation(context.now_s, (*first, *_batches(_freeing(context))))
    return CandidateEvaluation(context.now_s, (*first, *_batches(_near(context)), *_rooms(context)))


def _batches(uuids: Sequence[str]) -> Iterator[WhatIf]:
    return (WhatIf(tuple(uuids[i : i + BATCH])) for i in range(0, len(uuids), BATCH))


def _near(context: DecisionContext) -> Sequence[str]:
    """The suspects, then whoever else shares the victim's caches or the nodes of its memory."""
    host, victim = context.host, context.victim.uuid
    nodes = host.memory_of(victim).keys()
    shared = {u for d in host.domains_of[victim] for u in host.members[d.id]}
    shared |= {u for u in host.guests if nodes & host.memory_of(u).keys()}
    others = sorted(
        shared - {victim, *context.suspects},
        key=lambda uuid: (-context.what_if.residents[uuid].pressure_per_s, uuid),
    )
    return (*context.suspects, *others)[:NEAR]


def _freeing(context: DecisionContext) -> list[str]:
    others = (guest for guest in context.host.guests.values() if _freed(context, guest))
    return [g.uuid for g in sorted(others, key=lambda g: (g.memory_kib, g.uuid))[:MOST_FREED]]


def _freed(context: DecisionContext, leaver: Guest) -> int:
    """CPUs that the victim could take over from this one."""
    if leaver.uuid == context.victim.uuid:
        return 0
    usable = leaver.placement & context.victim.allowed_cpus - context.victim.placement
    return sum(context.host.claim(cpu, {leaver.uuid}) <= FREE_CPU for cpu in usable)


def _rooms(context: DecisionContext) -> Iterator[WhatIf]:
    """Places, other than the hot point, that the victim or a suspect could have if somebody there
    made room."""
    is_cache = context.detection is not None and context.detection.kind is Kind.CACHE
    movers = [u for u in (context.victim.uuid, *context.suspects) if not _is_cleared(context, u)]
    for uuid in movers[:MOVERS]:
        unit = unit_of(context.host, uuid)
        here = {d.id for d in context.host.domains_of[context.victim.uuid if is_cache else uuid]}
        if not unit:
            continue
        domain_sets = [
            s for s in domain_sets_of(context.host, unit) if not here & {d.id for d in s}
        ]
        for domain_set in sorted(
            domain_sets, key=lambda domain_set: _pressure(context, domain_set)
        )[:DOMAIN_SETS]:
            yield WhatIf((), uuid, tuple(d.id for d in domain_set))


def _pressure(context: DecisionContext, domain_set: DomainSet) -> float:
    uuids = {uuid for d in domain_set for uuid in context.host.members[d.id]}
    return sum(context.what_if.residents[uuid].pressure_per_s for uuid in uuids)


def evaluate_further(
    context: DecisionContext, evaluation: CandidateEvaluation
) -> CandidateEvaluation:
    """One what-if further. Of a guest that was in two of them the better result counts."""
    found = dict(evaluation.found)
    for uuid, worth in _tried(context, evaluation.todo[0]):
        found[uuid] = max(worth, found.get(uuid, worth))
    return replace(evaluation, todo=evaluation.todo[1:], found=found)


def _tried(context: DecisionContext, asked: WhatIf) -> Iterator[tuple[str, tuple[float, float]]]:
    if asked.mover:
        yield from _moved_into_room(context, asked)
        return
    for uuid in asked.leavers:
        if uuid in context.host.guests:
            gain = context.what_if.evaluate({uuid: GONE})
            others = _others(context, gain, uuid)
            yield uuid, (_relief_by_leaving(context, uuid, gain), sum(others.values()))


def _others(context: DecisionContext, gain: Gain, leaver: str) -> dict[str, float]:
    without = (leaver, context.victim.uuid)
    return {uuid: won for uuid, won in gain.by_guest.items() if uuid not in without}


def _is_cleared(context: DecisionContext, uuid: str) -> bool:
    """They were apart, and it mended nothing."""
    return (
        context.state.cleared_suspects.get((context.victim.uuid, uuid), context.now_s)
        > context.now_s
    )


def _relief_by_leaving(context: DecisionContext, leaver: str, gain: Gain) -> float:
    if leaver == context.victim.uuid:
        return context.lost_ratio
    if context.detection is None:
        vcpus = context.victim.vcpus
        freed = _freed(context, context.host.guests[leaver])
        return min(context.lost_ratio, freed / vcpus)
    return 0.0 if _is_cleared(context, leaver) else _relief(context, gain, leaver)


def _relief(context: DecisionContext, gain: Gain, goes: str) -> float:
    """What was measured, in the proportion that the model predicts; where the model does not see
    that the victim loses anything, in that of the load which goes from the hot point."""
    predicted = context.what_if.loss(context.victim.uuid)
    part = gain.by_guest.get(context.victim.uuid, 0.0) / max(predicted, PREDICTED)
    if predicted < PREDICTED:
        part = 1.0 if goes == context.victim.uuid else _part_of_load(context.detection, goes)
    return context.lost_ratio * max(-1.0, min(1.0, part))


def _part_of_load(detection: Detection | None, goes: str) -> float:
    loads = {s.guest_uuid: s.pressure_per_s for s in detection.suspects} if detection else {}
    return loads.get(goes, 0.0) / max(sum(loads.values()), 1.0)


def _moved_into_room(
    context: DecisionContext, asked: WhatIf
) -> Iterator[tuple[str, tuple[float, float]]]:
    """By whoever leaves that place: the mover's going there, if the ladder would do it then."""
    host = context.host
    unit = unit_of(host, asked.mover) if asked.mover in host.guests else ()
    domain_set = tuple(d for d in host.topology.domains if d.id in asked.domain_ids)
    if not unit or domain_set not in domain_sets_of(host, unit):
        return
    moved = _move(context, unit, domain_set)
    for uuid in _room_makers(context, unit, domain_set):
        gain = context.what_if.evaluate({**moved.locations, uuid: GONE})
        others = _others(context, gain, uuid)
        most_hurt = max(context.policy.most_hurt_ratio, context.lost_ratio / 2)
        if -min(others.values(), default=0.0) <= most_hurt:
            yield uuid, (_relief(context, gain, asked.mover), sum(others.values()))


def _move(context: DecisionContext, unit: tuple[Guest, ...], domain_set: DomainSet) -> Candidate:
    if context.detection and context.detection.kind is Kind.CONTROLLER:
        return move(context.host, unit, domain_set, with_memory=True)
    return move_along(context.host, unit, domain_set)


def _room_makers(
    context: DecisionContext, unit: tuple[Guest, ...], domain_set: DomainSet
) -> Iterator[str]:
    """Whose leaving leaves room enough: of the one that presses most there and the lightest."""
    host, residents = context.host, context.what_if.residents
    lodgers = {uuid for d in domain_set for uuid in host.members[d.id]}
    lodgers -= {context.victim.uuid, *(guest.uuid for guest in unit)}
    loudest = sorted(lodgers, key=lambda u: (-residents[u].pressure_per_s, u))[:1]
    lightest = sorted(lodgers, key=lambda u: (host.guests[u].memory_kib, u))[:LOOKED_AT]
    tried = dict.fromkeys((*loudest, *lightest))
    return islice((u for u in tried if has_room(host, domain_set, unit, (host.guests[u],))), MAKERS)


def migrants(
    host: Host, victim_uuid: str, detection: Detection | None, evaluation: CandidateEvaluation
) -> tuple[Migrant, ...]:
    """All who run here, the greatest relief first; none before all is weighed."""
    if evaluation.todo:
        return ()
    roles = dict.fromkeys(_suspects(host, detection), Role.AGGRESSOR) | {victim_uuid: Role.VICTIM}
    found = (
        Migrant(uuid, roles.get(uuid, Role.CO_RUNNER), *evaluation.found.get(uuid, (0.0, 0.0)))
        for uuid, guest in host.guests.items()
        if guest.is_running
    )
    return tuple(sorted(found, key=lambda one: (-one.relief_ratio, one.guest_uuid)))
