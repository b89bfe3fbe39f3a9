# SPDX-License-Identifier: Apache-2.0
"""What each controller would like: homing a newcomer, mitigating a detection.

A want names the place it chose by `predict`, and the alternatives it rejected with the numbers.
Nothing here asks whether the host allows it now: that is for `arbitrate` and `pace`.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping

from nova_vp.core.host import Host, Seat, cpus_of
from nova_vp.core.memory import Memory
from nova_vp.core.model import (
    Alternative,
    Detection,
    Guest,
    Homing,
    Hurt,
    Mode,
    Policy,
    Reason,
    Rejection,
    Want,
)
from nova_vp.core.predict import predict

HOME = "home"
VP = "vp"

HurtIn = Callable[[str, Seat], Hurt]
"""What everybody would lose if this guest moved there."""


def homing(host: Host, mode: Mode, policy: Policy) -> Iterator[Want]:
    """One LLC domain for each VP that has none of its own yet.

    CPU first, then the cache: among the seats that keep vCPUs evenly spread, the one where least
    is lost; losses up to `strict_max_hurt_ratio` count as none. In `advise` it is proposed like
    anything else, since VPs that float share every cache and cannot be told apart.
    """
    if policy.home_on_arrival is Homing.NEVER:
        return
    if policy.home_on_arrival is Homing.ENFORCE and mode is Mode.OBSERVE:
        return
    homeless = [
        guest
        for uuid, guest in host.guests.items()
        if guest.is_running and not guest.unmanaged and not _has_a_home(host, uuid)
    ]
    unsettled = frozenset(guest.uuid for guest in homeless)
    taken: dict[int, float] = {}
    for guest in homeless:
        want = _home(host, guest, unsettled, taken, policy)
        if want is not None:
            for domain_id in want.domain_ids:
                taken[domain_id] = taken.get(domain_id, 0) + guest.vcpus / len(want.domain_ids)
            yield want


def _has_a_home(host: Host, uuid: str) -> bool:
    """Once homed it stays: balancing later arrivals is no reason to move anybody."""
    return host.vps[uuid].is_homed or len(host.domains_of[uuid]) == 1


def _home(
    host: Host,
    guest: Guest,
    unsettled: frozenset[str],
    taken: Mapping[int, float],
    policy: Policy,
) -> Want | None:
    all_seats = host.seats(guest)
    if len(all_seats) < 2:
        return None

    def load(seat: Seat) -> float:
        settled = host.allocated_vcpus(seat, unsettled) + sum(taken.get(d.id, 0) for d in seat)
        return (settled + guest.vcpus) / len(cpus_of(seat, guest))

    vcpus_in_all = sum(g.vcpus for g in host.guests.values())
    fair = math.ceil(vcpus_in_all / len(host.topology.cpus))
    roomy = [seat for seat in all_seats if load(seat) <= fair] or [min(all_seats, key=load)]
    hurts = {seat: _hurt_in(host, guest.uuid, seat, unsettled, policy) for seat in all_seats}

    def rank(seat: Seat) -> tuple[float, float, int]:
        worst = hurts[seat].worst_ratio
        felt = worst if worst > policy.strict_max_hurt_ratio else 0.0
        return (felt, load(seat), seat[0].id)

    best = min(roomy, key=rank)
    rejected = tuple(
        Alternative(
            guest.uuid,
            seat[0].id,
            Rejection.NOT_BEST if seat in roomy else Rejection.MORE_CROWDED,
            hurts[seat],
        )
        for seat in all_seats
        if seat != best
    )
    return _want(HOME, guest, best, Reason.HOME, hurts[best], None, rejected)


def mitigation(host: Host, memory: Memory, now_s: float, policy: Policy) -> Iterator[Want]:
    """For each detection: the worst suspect to another LLC domain, else the victim itself."""
    waiting = {p.action.victim_uuid for p in memory.pending}

    # Twenty victims suspect the same few: what a move would do is worked out once for all.
    @functools.cache
    def hurt_in(uuid: str, seat: Seat) -> Hurt:
        return _hurt_in(host, uuid, seat, frozenset(), policy)

    for uuid in host.guests:
        detection = host.vps[uuid].detection
        if detection is not None and detection.suspects and uuid not in waiting:
            yield _mitigate(host, detection, memory, now_s, hurt_in)


def _mitigate(
    host: Host, detection: Detection, memory: Memory, now_s: float, hurt_in: HurtIn
) -> Want:
    """A want without CPUs says: nothing helps, and these are the reasons."""
    rejected: list[Alternative] = []
    victim = detection.victim_uuid
    for suspect in detection.suspects:
        uuid = suspect.guest_uuid
        if memory.acquitted.get((victim, uuid), now_s) > now_s:
            rejected.append(Alternative(uuid, detection.domain_id, Rejection.FAILED_BEFORE))
            continue
        want = _move_away(host, uuid, detection, Reason.MOVE_AGGRESSOR, rejected, hurt_in)
        if want is not None:
            return want
    want = _move_away(host, victim, detection, Reason.MOVE_VICTIM, rejected, hurt_in)
    if want is not None:
        return want
    nowhere = Hurt(measured_loss_ratio(detection), 0.0)
    guest = host.guests[victim]
    return _want(VP, guest, (), Reason.MOVE_VICTIM, nowhere, detection, tuple(rejected))


def _move_away(
    host: Host,
    uuid: str,
    detection: Detection,
    reason: Reason,
    rejected: list[Alternative],
    hurt_in: HurtIn,
) -> Want | None:
    """The best other seat of one guest, or None with the rejections noted."""
    guest = host.guests[uuid]
    if guest.unmanaged:
        rejected.append(Alternative(uuid, detection.domain_id, Rejection.UNMANAGED))
        return None
    sample = host.vps[uuid].sample
    needed_cores = sample.cpu_cores if sample else 0.0
    itself = frozenset({uuid})
    shared = {d.id for d in host.domains_of[detection.victim_uuid]}
    options: list[tuple[Hurt, Seat]] = []
    for seat in host.seats(guest):
        if shared & {d.id for d in seat}:
            continue
        hurt = hurt_in(uuid, seat)
        if host.free_cores(seat, itself) < needed_cores:
            rejected.append(Alternative(uuid, seat[0].id, Rejection.NO_FREE_CPU, hurt))
        elif hurt.worst_ratio >= measured_loss_ratio(detection):
            rejected.append(Alternative(uuid, seat[0].id, Rejection.HURTS_MORE, hurt))
        else:
            options.append((hurt, seat))
    if not options:
        if not any(r.guest_uuid == uuid for r in rejected):
            everywhere = Rejection.SHARED_EVERYWHERE
            rejected.append(Alternative(uuid, detection.domain_id, everywhere))
        return None
    best = min(options, key=lambda o: (o[0].worst_ratio, o[1][0].id))
    for hurt, seat in options:
        if seat != best[1]:
            rejected.append(Alternative(uuid, seat[0].id, Rejection.NOT_BEST, hurt))
    return _want(VP, guest, best[1], reason, best[0], detection, tuple(rejected))


def measured_loss_ratio(detection: Detection) -> float:
    """What the victim loses now, from its cycles per instruction before and during."""
    return max(0.0, 1 - detection.before.cpi / detection.now.cpi) if detection.now.cpi else 0.0


def _hurt_in(host: Host, uuid: str, seat: Seat, without: frozenset[str], policy: Policy) -> Hurt:
    return predict(host.resident(uuid, policy), host.residents(seat, policy, without | {uuid}))


def _want(
    controller: str,
    guest: Guest,
    seat: Seat,
    reason: Reason,
    hurt: Hurt,
    detection: Detection | None,
    rejected: tuple[Alternative, ...],
) -> Want:
    return Want(
        controller=controller,
        guest_uuid=guest.uuid,
        domain_ids=tuple(d.id for d in seat),
        cpus=cpus_of(seat, guest),
        reason=reason,
        hurt=hurt,
        detection=detection,
        rejected=rejected,
    )
