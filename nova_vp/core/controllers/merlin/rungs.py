# SPDX-License-Identifier: Apache-2.0
"""Merlin's ladder (thesis 3.1): every way to give a VP one CPU more, each rung a function.

A cap of its own raised, a CPU at home, a CPU elsewhere, changing places, a move with memory. For
one VP alone, or for all of its application set S. Nothing here compares: `controller` chooses.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.merlin.declaration import MORE_CPU, NAME, Demand, MerlinSettings
from nova_vp.core.model.candidate import (
    FREE_CPU,
    Candidate,
    is_memory_movable,
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
from nova_vp.core.model.what_if import Location, WhatIfModel
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Cpus, Knob, Quota, all_cpus
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rung
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
    """CPUs of a domain that it may use and nobody else does, the idlest first."""
    host = context.host
    usable = (domain.cpus & guest.allowed_cpus) - guest.placement - context.taken
    free = [
        cpu
        for cpu in usable
        if host.claim(cpu) <= FREE_CPU and context.may_go(guest.uuid, frozenset((cpu,)))
    ]
    return sorted(free, key=lambda cpu: (host.claim(cpu), cpu))


def _grown(
    host: Host, guest: Guest, cpu: int, rung: Rung, instead_of: Collection[int] = ()
) -> Candidate:
    """The guest with one CPU more, or with this one instead of those that hurt somebody; a CPU
    elsewhere makes its memory partly remote."""
    cpus = guest.placement.difference(instead_of) | {cpu}
    domains = tuple(d for d in host.topology.domains if d.cpus & cpus)
    size = min(guest.vcpus, len(cpus))
    return Candidate(
        rung=rung,
        guest_uuid=guest.uuid,
        domain_set=tuple(d for d in domains if cpu in d.cpus),
        settings=(Setting(guest.uuid, Knob.PLACEMENT, (cpus,)),),
        locations={
            guest.uuid: Location(
                domains={d.id: len(d.cpus & cpus) / len(cpus) for d in domains},
                memory=host.memory_due(guest.uuid),
                speed=size / min(guest.vcpus, len(guest.placement)),
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
    for domain in home_domains(context.host, guest):
        for cpu in _free_cpus(context, guest, domain)[:1]:
            yield _grown(context.host, guest, cpu, Rung.LOCAL_CPU)


def remote_cpus(
    context: DecisionContext, members: Sequence[Guest], asker: Guest, demand: Demand
) -> Iterator[Candidate]:
    """The asker takes a CPU of another node. With others hurt, only who is insensitive to memory
    leaves it: the asker, for the CPU that hurt; or a member of S altogether, to make room (thesis
    3.2.3)."""
    host = context.host
    home = {d.id for d in home_domains(host, asker)}
    is_reassessed = len(members) > 1
    if not is_reassessed or not needs_local_memory(host, (asker,)):
        for domain in host.topology.domains:
            free = () if domain.id in home else _free_cpus(context, asker, domain)[:1]
            for cpu in free:
                instead_of = demand.granted if demand.degraded else ()
                yield _grown(host, asker, cpu, Rung.REMOTE_CPU, instead_of)
    if is_reassessed:
        for guest in members:
            if not needs_local_memory(host, (guest,)) and not guest.unmanaged:
                yield from _moved_whole(context, guest, with_memory=False)


def _moved_whole(context: DecisionContext, guest: Guest, with_memory: bool) -> Iterator[Candidate]:
    """All of a member onto free CPUs of another domain, as many as it has and one more."""
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
                )
            },
        )


def swaps(context: DecisionContext, members: Sequence[Guest]) -> Iterator[Candidate]:
    """No CPU is free elsewhere, and somebody is hurt: a member of S with somebody there, neither of
    them sensitive to memory. It brings nobody a CPU, so that it is nothing for who asks alone."""
    host, taken = context.host, context.taken
    if len(members) == 1:
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
