# SPDX-License-Identifier: Apache-2.0
"""Merlin's ladder (thesis 3.1): every way to give a VP one CPU more, each rung a function.

A cap of its own raised, a CPU at home, a CPU elsewhere, changing places, a move with memory. For
one VP alone, or for all of its application set S. Nothing here compares: `controller` chooses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.merlin.declaration import MORE_CPU, NAME, MerlinSettings
from nova_vp.core.controllers.merlin.shortage import (
    speedup_without_waiting,
    use_while_waiting,
    waits_for_cpu,
)
from nova_vp.core.model.candidate import (
    FREE_CPU,
    Candidate,
    domain_sets_of,
    has_room,
    idlest_first,
    is_allotted,
    is_memory_movable,
    move,
    needs_local_memory,
    swap,
    swap_has_room,
    unit_of,
    within_allotment,
)
from nova_vp.core.model.cpu_cap import CAP_STEP, quota_of
from nova_vp.core.model.holds import left_lately
from nova_vp.core.model.host import Host
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.model.location import Location, pinned_to
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.claim import Alternative, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Cpus, Knob, Quota, all_cpus
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rejection, Rung
from nova_vp.core.types.topology import LlcDomain


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What one choice is made from."""

    view: View
    settings: MerlinSettings
    taken: frozenset[int]
    """CPUs that others get in this tick."""

    @property
    def host(self) -> Host:
        return self.view.host

    @property
    def what_if(self) -> WhatIfModel:
        return self.view.what_if

    @property
    def policy(self) -> Policy:
        return self.view.policy

    def may_go(self, guest_uuid: str, cpus: frozenset[int]) -> bool:
        """Not back to where it was taken away lately, nor against a claim of a lower rank."""
        vp, now_s = self.host.vps[guest_uuid], self.view.now_s
        return self.view.may_claim(
            guest_uuid, Knob.PLACEMENT, NAME, MORE_CPU.rank
        ) and not left_lately(vp, cpus, now_s, self.policy)


def _free_cpus(context: DecisionContext, guest: Guest, domain: LlcDomain) -> list[int]:
    """CPUs of a domain that it may use and nobody else does, the idlest first, as if it kept each
    of them busy."""
    host = context.host
    usable = (domain.cpus & guest.allowed_cpus) - guest.placement - context.taken
    free = [
        cpu
        for cpu in usable
        if host.claim(cpu) <= FREE_CPU and context.may_go(guest.uuid, frozenset((cpu,)))
    ]
    claims = {cpu: host.claim(cpu) for cpu in domain.cpus}
    return list(idlest_first(host, free, claims, part=1.0))


def _grown(context: DecisionContext, guest: Guest, cpu: int) -> Candidate:
    """The guest with one CPU more."""
    host, vp = context.host, context.host.vps[guest.uuid]
    cpus = guest.placement | {cpu}
    domains = tuple(d for d in host.topology.domains if d.cpus & cpus)
    speed = min(guest.vcpus, len(cpus)) / min(guest.vcpus, len(guest.placement))
    waiting = use_while_waiting(vp, context.policy)
    if waiting is not None:
        speed = max(speed, speedup_without_waiting(waiting, more_cpus=1))
    return Candidate(
        rung=Rung.LOCAL_CPU,
        guest_uuid=guest.uuid,
        domain_set=tuple(d for d in domains if cpu in d.cpus),
        settings=(Setting(guest.uuid, Knob.PLACEMENT, (cpus,)),),
        locations={
            guest.uuid: Location(
                domains={d.id: len(d.cpus & cpus) / len(cpus) for d in domains},
                memory=host.memory_due(guest.uuid),
                speed=speed,
                cpus=pinned_to(domains, cpus),
            )
        },
    )


def home_domains(host: Host, guest: Guest) -> tuple[LlcDomain, ...]:
    """LLC domains of its home node: where most of its vCPUs are (thesis 3.1)."""
    weights: dict[int, float] = {}
    for domain in host.domains_of[guest.uuid]:
        weights[domain.node] = weights.get(domain.node, 0.0) + host.share(guest.uuid, domain)
    home = max(weights, key=lambda node: (weights[node], -node))
    return tuple(d for d in host.topology.domains if d.node == home)


def raised_cap(context: DecisionContext, guest: Guest) -> Iterator[Candidate]:
    """Its own cap by one step, if the controller that set it grants that."""
    host = context.host
    own = cast(Quota, value_from_nova(guest, Knob.CPU_CAP, host.applied.get(guest.uuid)))
    before = guest.quota.cores / own.cores
    if guest.quota == own or Knob.CPU_CAP not in host.knobs:
        return
    ratio = min(1.0, round(before + CAP_STEP, 6))
    raised = Setting(guest.uuid, Knob.CPU_CAP, quota_of(own, ratio))
    if not context.view.grants(raised):
        return
    location = context.what_if.locations[guest.uuid]
    yield Candidate(
        rung=Rung.RAISE_CAP,
        guest_uuid=guest.uuid,
        domain_set=host.domains_of[guest.uuid],
        settings=(raised,),
        locations={guest.uuid: location._replace(speed=ratio / before)},
    )


def local_cpus(context: DecisionContext, guest: Guest) -> Iterator[Candidate]:
    """A free CPU of its home node; who has as many as vCPUs, and waits, goes to a quieter domain
    of that node."""
    home = home_domains(context.host, guest)
    for domain in home:
        for cpu in _free_cpus(context, guest, domain)[:1]:
            yield _grown(context, guest, cpu)
    if _has_all_its_cpus(guest):
        near = frozenset(d.id for d in home)
        for one in _moved_whole(context, guest, with_memory=False):
            if near.issuperset(one.domain_ids):
                yield replace(one, rung=Rung.LOCAL_CPU)


def remote_cpus(
    context: DecisionContext, members: Sequence[Guest], asker: Guest
) -> Iterator[Candidate]:
    """All vCPUs of a member of S to free CPUs of another node, which makes room for the others.
    Only who is insensitive to memory leaves it (thesis 3.2.3)."""
    host = context.host
    for guest in members:
        if needs_local_memory(host, (guest,)) or guest.unmanaged:
            continue
        is_asker = guest.uuid == asker.uuid
        home = {d.id for d in home_domains(host, guest)} if is_asker else frozenset[int]()
        for one in _moved_whole(context, guest, with_memory=False):
            if not home.issuperset(one.domain_ids):
                yield replace(one, rung=Rung.REMOTE_CPU if is_asker else Rung.MOVE)


def _has_all_its_cpus(guest: Guest) -> bool:
    return len(guest.placement) >= guest.vcpus


def _moved_whole(context: DecisionContext, guest: Guest, with_memory: bool) -> Iterator[Candidate]:
    """All of a member to another place: with its whole VP where it has the run of its domains,
    else onto free CPUs, as many as it has and one more."""
    host = context.host
    if is_allotted(host, guest):
        yield from _onto_free_cpus(context, guest, with_memory)
        return
    unit = unit_of(host, guest.uuid)
    here = host.domains_of[guest.uuid]
    for domain_set in domain_sets_of(host, unit) if unit else ():
        moved = move(host, unit, domain_set, with_memory)
        goes = {s.guest_uuid: all_cpus(cast(Cpus, s.value)) for s in moved.settings[: len(unit)]}
        is_taken = context.taken & frozenset().union(*goes.values())
        if domain_set == here or is_taken or not has_room(host, domain_set, unit):
            continue
        if all(context.may_go(uuid, cpus) for uuid, cpus in goes.items()):
            yield _at_full_speed(context, moved, guest)


def _at_full_speed(context: DecisionContext, moved: Candidate, guest: Guest) -> Candidate:
    """Where it waits although its domains have room, the what-if model does not see what it would
    gain: that was measured."""
    host = context.host
    is_seen = host.room_cores(host.domains_of[guest.uuid], ()) < 0
    waiting = use_while_waiting(host.vps[guest.uuid], context.policy)
    if is_seen or waiting is None:
        return moved
    speed = speedup_without_waiting(waiting, more_cpus=guest.vcpus)
    location = moved.locations[guest.uuid]._replace(speed=speed)
    return replace(moved, locations={**moved.locations, guest.uuid: location})


def _onto_free_cpus(
    context: DecisionContext, guest: Guest, with_memory: bool
) -> Iterator[Candidate]:
    host = context.host
    here = {d.id for d in host.domains_of[guest.uuid]}
    for domain in host.topology.domains:
        free = _free_cpus(context, guest, domain)
        size = min(len(guest.placement), guest.vcpus)
        if domain.id in here or len(free) < size:
            continue
        cpus = frozenset(free[: min(size + 1, guest.vcpus)])
        follows = with_memory and is_memory_movable(host, guest, domain.node)
        settings = [Setting(guest.uuid, Knob.PLACEMENT, (cpus,))]
        if follows:
            settings.append(Setting(guest.uuid, Knob.MEMORY, ((domain.node, 1.0),)))
        yield Candidate(
            rung=Rung.MOVE_WITH_MEMORY if follows else Rung.MOVE,
            guest_uuid=guest.uuid,
            domain_set=(domain,),
            settings=tuple(settings),
            locations={
                guest.uuid: Location(
                    domains={domain.id: 1.0},
                    memory={domain.node: 1.0} if follows else host.memory_due(guest.uuid),
                    speed=len(cpus) / size,
                    cpus=pinned_to((domain,), cpus),
                )
            },
        )


def swaps(context: DecisionContext, members: Sequence[Guest]) -> Iterator[Candidate]:
    """No CPU is free elsewhere: a member of S with somebody there, neither of them sensitive to
    memory. For who asks alone only if it waits: it brings nobody a CPU of its own."""
    host, taken = context.host, context.taken
    if len(members) == 1 and not waits_for_cpu(host.vps[members[0].uuid], context.policy):
        return
    local = {guest.uuid for guest in members}
    for guest in members:
        for uuid, other in host.guests.items():
            if uuid in local or guest.unmanaged or other.unmanaged:
                continue
            if guest.vp_id == other.vp_id:
                continue
            if host.domains_of[uuid] == host.domains_of[guest.uuid]:
                continue
            if needs_local_memory(host, (other,)) or needs_local_memory(host, (guest,)):
                continue
            one, two = unit_of(host, guest.uuid), unit_of(host, uuid)
            if swap_has_room(host, one, two, taken):
                change = swap(host, one, two, follow=False)
                settings = within_allotment(host, change.settings, taken)
                goes = {s.guest_uuid: all_cpus(cast(Cpus, s.value)) for s in settings}
                if all(context.may_go(uuid, cpus) for uuid, cpus in goes.items()):
                    yield replace(change, settings=settings)


def moves_with_memory(context: DecisionContext, members: Sequence[Guest]) -> Iterator[Candidate]:
    """Nobody in S may leave its memory: the smaller footprint goes, and takes it along."""
    for guest in sorted(members, key=lambda one: one.memory_kib):
        if not guest.unmanaged:
            yield from _moved_whole(context, guest, with_memory=True)


def occupied(context: DecisionContext, guest: Guest) -> Iterator[Alternative]:
    """CPUs that it could use if others did not, by domain: what it lacks exists on this host."""
    host = context.host
    for domain in host.topology.domains:
        others = (domain.cpus & guest.allowed_cpus) - guest.placement
        if any(host.claim(cpu) > FREE_CPU or cpu in context.taken for cpu in others):
            yield Alternative(guest.uuid, domain.id, Rejection.NO_FREE_CPU)
