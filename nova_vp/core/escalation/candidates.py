# SPDX-License-Identifier: Apache-2.0
"""Who could leave this host for another one, and what that would bring: for the cluster to choose.

The victim takes all that it loses along; who presses on it takes the pressure along; a quiet one
leaves room, which is worth what the best move into it would bring on the node. Weighed on the
outlook, one small trial per tick, since a full host has hundreds of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nova_vp.core.model.candidate import (
    FREE_CPU,
    Candidate,
    has_room,
    move,
    move_along,
    seats_of,
    unit_of,
)
from nova_vp.core.model.host import Host, Seat, allotted_cores
from nova_vp.core.model.what_if import Gain, Outlook, Spot
from nova_vp.core.types.decision import Migrant, Role
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import Memory, Trial, Weighing

BATCH = 2
"""Guests that leave, one at a time, in one tick's trial."""
NEAR = 8
"""Of those who share a cache or a controller with the victim, the ones that press most."""
MOVERS = 3
"""The victim and the worst suspects: for whom room is sought."""
SEATS = 4
"""Places that each of them could have, the quietest first."""
LOOKED_AT = 8
MAKERS = 3
"""Of those who would leave room there, the lightest: the sooner they are elsewhere."""
MOST_FREED = 24
"""For a demand for CPU: guests weighed, the lightest first."""
PREDICTED = 0.01
"""Loss of the victim below which the model does not see what was measured."""

GONE = Spot(domains={}, memory={}, speed=0.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One victim that nothing on its host helps."""

    victim: Guest
    detection: Detection | None
    """None: it is short of CPU."""
    host: Host
    outlook: Outlook
    memory: Memory
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


def trials(case: Case) -> Weighing:
    """All that is to be weighed for this escalation."""
    first = (Trial((case.victim.uuid,)),)
    if case.detection is None:
        return Weighing(case.now_s, (*first, *_batches(_freeing(case))))
    return Weighing(case.now_s, (*first, *_batches(_near(case)), *_rooms(case)))


def _batches(uuids: Sequence[str]) -> Iterator[Trial]:
    return (Trial(tuple(uuids[i : i + BATCH])) for i in range(0, len(uuids), BATCH))


def _near(case: Case) -> Sequence[str]:
    """The suspects, then whoever else shares the victim's caches or the nodes of its memory."""
    host, victim = case.host, case.victim.uuid
    nodes = host.memory_of(victim).keys()
    shared = {u for d in host.domains_of[victim] for u in host.members[d.id]}
    shared |= {u for u in host.guests if nodes & host.memory_of(u).keys()}
    others = sorted(
        shared - {victim, *case.suspects},
        key=lambda uuid: (-case.outlook.residents[uuid].pressure_per_s, uuid),
    )
    return (*case.suspects, *others)[:NEAR]


def _freeing(case: Case) -> list[str]:
    others = (guest for guest in case.host.guests.values() if _freed(case, guest))
    return [g.uuid for g in sorted(others, key=lambda g: (g.memory_kib, g.uuid))[:MOST_FREED]]


def _freed(case: Case, leaver: Guest) -> int:
    """CPUs that the victim could take over from this one."""
    if leaver.uuid == case.victim.uuid:
        return 0
    usable = leaver.placement & case.victim.allowed_cpus - case.victim.placement
    return sum(case.host.claim(cpu, {leaver.uuid}) <= FREE_CPU for cpu in usable)


def _rooms(case: Case) -> Iterator[Trial]:
    """Places, other than the hot point, that the victim or a suspect could have if somebody there
    made room."""
    is_cache = case.detection is not None and case.detection.kind is Kind.CACHE
    movers = [u for u in (case.victim.uuid, *case.suspects) if not _is_acquitted(case, u)]
    for uuid in movers[:MOVERS]:
        unit = unit_of(case.host, uuid)
        here = {d.id for d in case.host.domains_of[case.victim.uuid if is_cache else uuid]}
        if not unit:
            continue
        seats = [s for s in seats_of(case.host, unit) if not here & {d.id for d in s}]
        for seat in sorted(seats, key=lambda seat: _pressure(case, seat))[:SEATS]:
            yield Trial((), uuid, tuple(d.id for d in seat))


def _pressure(case: Case, seat: Seat) -> float:
    uuids = {uuid for d in seat for uuid in case.host.members[d.id]}
    return sum(case.outlook.residents[uuid].pressure_per_s for uuid in uuids)


def weigh_on(case: Case, weighing: Weighing) -> Weighing:
    """One trial further. Of a guest that was tried twice the better result counts."""
    found = dict(weighing.found)
    for uuid, worth in _tried(case, weighing.todo[0]):
        found[uuid] = max(worth, found.get(uuid, worth))
    return replace(weighing, todo=weighing.todo[1:], found=found)


def _tried(case: Case, trial: Trial) -> Iterator[tuple[str, tuple[float, float]]]:
    if trial.mover:
        yield from _moved_into_room(case, trial)
        return
    for uuid in trial.leavers:
        if uuid in case.host.guests:
            gain = case.outlook.gain_of({uuid: GONE})
            others = _others(case, gain, uuid)
            yield uuid, (_relief_by_leaving(case, uuid, gain), sum(others.values()))


def _others(case: Case, gain: Gain, leaver: str) -> dict[str, float]:
    without = (leaver, case.victim.uuid)
    return {uuid: won for uuid, won in gain.by_guest.items() if uuid not in without}


def _is_acquitted(case: Case, uuid: str) -> bool:
    """They were apart, and it mended nothing."""
    return case.memory.acquitted.get((case.victim.uuid, uuid), case.now_s) > case.now_s


def _relief_by_leaving(case: Case, leaver: str, gain: Gain) -> float:
    if leaver == case.victim.uuid:
        return case.lost_ratio
    if case.detection is None:
        vcpus = case.victim.vcpus
        freed = _freed(case, case.host.guests[leaver])
        return min(case.lost_ratio, freed / vcpus)
    return 0.0 if _is_acquitted(case, leaver) else _relief(case, gain, leaver)


def _relief(case: Case, gain: Gain, goes: str) -> float:
    """What was measured, in the proportion that the model predicts; where the model does not see
    that the victim loses anything, in that of the load which goes from the hot point."""
    predicted = case.outlook.loss(case.victim.uuid)
    part = gain.by_guest.get(case.victim.uuid, 0.0) / max(predicted, PREDICTED)
    if predicted < PREDICTED:
        part = 1.0 if goes == case.victim.uuid else _part_of_load(case.detection, goes)
    return case.lost_ratio * max(-1.0, min(1.0, part))


def _part_of_load(detection: Detection | None, goes: str) -> float:
    loads = {s.guest_uuid: s.pressure_per_s for s in detection.suspects} if detection else {}
    return loads.get(goes, 0.0) / max(sum(loads.values()), 1.0)


def _moved_into_room(case: Case, trial: Trial) -> Iterator[tuple[str, tuple[float, float]]]:
    """By whoever leaves that place: the mover's going there, if the ladder would do it then."""
    host = case.host
    unit = unit_of(host, trial.mover) if trial.mover in host.guests else ()
    seat = tuple(d for d in host.topology.domains if d.id in trial.domain_ids)
    if not unit or seat not in seats_of(host, unit):
        return
    moved = _move(case, unit, seat)
    for uuid in _room_makers(case, unit, seat):
        gain = case.outlook.gain_of({**moved.spots, uuid: GONE})
        others = _others(case, gain, uuid)
        most_hurt = max(case.policy.most_hurt_ratio, case.lost_ratio / 2)
        if -min(others.values(), default=0.0) <= most_hurt:
            yield uuid, (_relief(case, gain, trial.mover), sum(others.values()))


def _move(case: Case, unit: tuple[Guest, ...], seat: Seat) -> Candidate:
    if case.detection and case.detection.kind is Kind.CONTROLLER:
        return move(case.host, unit, seat, with_memory=True)
    return move_along(case.host, unit, seat)


def _room_makers(case: Case, unit: tuple[Guest, ...], seat: Seat) -> Iterator[str]:
    """Whose leaving leaves room enough: of the one that presses most there and the lightest."""
    host, residents = case.host, case.outlook.residents
    lodgers = {uuid for d in seat for uuid in host.members[d.id]}
    lodgers -= {case.victim.uuid, *(guest.uuid for guest in unit)}
    loudest = sorted(lodgers, key=lambda u: (-residents[u].pressure_per_s, u))[:1]
    lightest = sorted(lodgers, key=lambda u: (host.guests[u].memory_kib, u))[:LOOKED_AT]
    tried = dict.fromkeys((*loudest, *lightest))
    return islice((u for u in tried if has_room(host, seat, unit, (host.guests[u],))), MAKERS)


def migrants(
    host: Host, victim_uuid: str, detection: Detection | None, weighing: Weighing
) -> tuple[Migrant, ...]:
    """All who run here, the greatest relief first; none before all is weighed."""
    if weighing.todo:
        return ()
    roles = dict.fromkeys(_suspects(host, detection), Role.AGGRESSOR) | {victim_uuid: Role.VICTIM}
    found = (
        Migrant(uuid, roles.get(uuid, Role.CO_RUNNER), *weighing.found.get(uuid, (0.0, 0.0)))
        for uuid, guest in host.guests.items()
        if guest.is_running
    )
    return tuple(sorted(found, key=lambda one: (-one.relief_ratio, one.guest_uuid)))
