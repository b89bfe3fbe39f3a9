# SPDX-License-Identifier: Apache-2.0
"""One way to help, as settings for the host and locations for the what-if model; how to compare.

The controllers vp and rebalance build their candidates here, and Merlin's rungs their swaps, so
that a vCPU move is the same thing for all of them: within Nova's bound, whole VPs together, memory
along where it must follow. Whether there is room they ask `has_room`, or the what-if model.
Nothing here knows why a controller wants it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import cast

from nova_vp.core.model.host import DomainSet, Host, cpus_of
from nova_vp.core.model.location import Location, location_of, pinned_to, spread_over
from nova_vp.core.model.what_if import Gain, WhatIfModel
from nova_vp.core.types.claim import Alternative, PredictedLoss, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Cpus, Knob, Shares, all_cpus
from nova_vp.core.types.reason import Rejection, Rung

FREE_CPU = 0.25
"""Of a CPU, that others may use of it while it still counts as free."""

CPU_SLACK = 0.05
"""Of the CPU a VP uses: what a place may be short of it, since use is a noisy measure."""


@dataclass(frozen=True, slots=True)
class Candidate:
    rung: Rung
    guest_uuid: str
    """Whom it is mainly about."""
    domain_set: DomainSet
    """Where that guest's vCPUs will be."""
    settings: tuple[Setting, ...]
    locations: Mapping[str, Location]

    @property
    def domain_ids(self) -> tuple[int, ...]:
        return tuple(d.id for d in self.domain_set)

    @property
    def moves_memory(self) -> bool:
        return any(setting.knob is Knob.MEMORY for setting in self.settings)


def unit_of(host: Host, uuid: str) -> tuple[Guest, ...]:
    """The guests of one VP that live in the same place: they move together."""
    guest = host.guests[uuid]
    if not guest.group:
        return () if guest.unmanaged else (guest,)
    return tuple(
        one
        for one in host.guests.values()
        if one.vp_id == guest.vp_id and one.placement == guest.placement and not one.unmanaged
    )


def domain_sets_of(host: Host, unit: Sequence[Guest]) -> tuple[DomainSet, ...]:
    """Where the whole unit could live."""
    vcpus = sum(guest.vcpus for guest in unit)
    return tuple(
        domain_set
        for domain_set in host.domain_sets(max(unit, key=lambda guest: guest.vcpus))
        if len(unit) == 1
        or (
            sum(len(d.cpus) for d in domain_set) >= vcpus
            and all(len(cpus_of(domain_set, guest)) >= guest.vcpus for guest in unit)
        )
    )


def has_room(
    host: Host,
    domain_set: DomainSet,
    unit: Sequence[Guest],
    leaving: Sequence[Guest] = (),
    taken: Set[int] = frozenset(),
) -> bool:
    """Whether the CPU that the unit wants is free there, once it and `leaving` are gone; who has
    CPUs of its own needs as many that nobody uses, or gets in this tick (`taken`)."""
    without = frozenset(guest.uuid for guest in (*unit, *leaving))
    owned = sum(len(guest.placement) for guest in unit if is_allotted(host, guest))
    if owned:
        idle = sum(
            host.claim(cpu, without) <= FREE_CPU for d in domain_set for cpu in d.cpus - taken
        )
        return idle >= owned
    needed = sum(host.wanted_cores(guest.uuid) for guest in unit)
    return host.room_cores(domain_set, without) >= needed * (1 - CPU_SLACK)


def is_allotted(host: Host, guest: Guest) -> bool:
    """It has CPUs of its own (Merlin), not the run of its domains."""
    here = sum(len(d.cpus & guest.allowed_cpus) for d in host.domains_of[guest.uuid])
    return len(guest.placement) < here


def move(host: Host, unit: Sequence[Guest], domain_set: DomainSet, with_memory: bool) -> Candidate:
    """The vCPUs of a unit to a domain set, and its memory to that node if it must follow."""
    node = domain_set[0].node
    settings = [Setting(g.uuid, Knob.PLACEMENT, (cpus_of(domain_set, g),)) for g in unit]
    movable = [g for g in unit if with_memory and is_memory_movable(host, g, node)]
    settings += [Setting(guest.uuid, Knob.MEMORY, ((node, 1.0),)) for guest in movable]
    goes = {guest.uuid for guest in movable}
    return Candidate(
        rung=Rung.MOVE_WITH_MEMORY if movable else Rung.MOVE,
        guest_uuid=unit[0].uuid,
        domain_set=domain_set,
        settings=tuple(settings),
        locations={
            guest.uuid: Location(
                domains=spread_over(domain_set),
                memory={node: 1.0} if guest.uuid in goes else host.memory_due(guest.uuid),
                cpus=pinned_to(domain_set, cpus_of(domain_set, guest)),
            )
            for guest in unit
        },
    )


def move_along(
    host: Host, unit: Sequence[Guest], domain_set: DomainSet, follow: bool = True
) -> Candidate:
    """With `follow`, its memory too, if it needs that local and may have it."""
    return move(host, unit, domain_set, with_memory=follow and needs_local_memory(host, unit))


def move_memory(host: Host, guest: Guest, node: int) -> Candidate:
    """Its memory alone: to where its vCPUs are, or away from a hot controller."""
    shares: Shares = ((node, 1.0),)
    return Candidate(
        rung=Rung.MOVE_MEMORY,
        guest_uuid=guest.uuid,
        domain_set=host.domains_of[guest.uuid],
        settings=(Setting(guest.uuid, Knob.MEMORY, shares),),
        locations={guest.uuid: location_of(host, guest.uuid)._replace(memory={node: 1.0})},
    )


def swap(host: Host, one: Sequence[Guest], other: Sequence[Guest], follow: bool) -> Candidate:
    """Two units change places; with `follow`, the memory of those who need it local goes along."""
    there, here = host.domains_of[other[0].uuid], host.domains_of[one[0].uuid]
    parts = move_along(host, one, there, follow), move_along(host, other, here, follow)
    return Candidate(
        rung=Rung.SWAP,
        guest_uuid=one[0].uuid,
        domain_set=there,
        settings=parts[0].settings + parts[1].settings,
        locations={**parts[0].locations, **parts[1].locations},
    )


def swap_has_room(
    host: Host, one: Sequence[Guest], other: Sequence[Guest], taken: Set[int] = frozenset()
) -> bool:
    there, here = host.domains_of[other[0].uuid], host.domains_of[one[0].uuid]
    return (
        there in domain_sets_of(host, one)
        and here in domain_sets_of(host, other)
        and has_room(host, there, one, other, taken)
        and has_room(host, here, other, one, taken)
    )


def within_allotment(
    host: Host, settings: Iterable[Setting], taken: Set[int] = frozenset()
) -> tuple[Setting, ...]:
    """Placements narrowed to as many CPUs as each guest was allotted (Merlin), the idlest of the
    place that nobody gets in this tick (`taken`), those of idle cores before siblings of busy ones;
    who may use a whole domain here may use a whole one there."""
    wanted = tuple(settings)
    if not any(_has_allotment(host, setting) for setting in wanted):
        return wanted
    moved = {setting.guest_uuid for setting in wanted if setting.knob is Knob.PLACEMENT}
    claims = {c: host.claim(c, without=moved) + (c in taken) for c in host.topology.cpus}
    # Who has the fewest to choose from chooses first.
    places = sorted(
        (one for one in wanted if _has_allotment(host, one)),
        key=lambda one: len(all_cpus(cast(Cpus, one.value))),
    )
    narrowed = {one: _narrowed(host, one, claims) for one in places}
    return tuple(narrowed.get(one, one) for one in wanted)


def _has_allotment(host: Host, setting: Setting) -> bool:
    is_place = setting.knob is Knob.PLACEMENT
    return is_place and is_allotted(host, host.guests[setting.guest_uuid])


def _narrowed(host: Host, setting: Setting, claims: dict[int, float]) -> Setting:
    """`claims` grows by what this guest takes."""
    guest = host.guests[setting.guest_uuid]
    there = all_cpus(cast(Cpus, setting.value))
    size = min(len(guest.placement), len(there))
    part = host.used_cores(guest.uuid) / size
    cpus = frozenset(islice(idlest_first(host, there, claims, part), size))
    return Setting(guest.uuid, Knob.PLACEMENT, (cpus,))


def idlest_first(
    host: Host, cpus: Iterable[int], claims: dict[int, float], part: float
) -> Iterator[int]:
    """CPUs as a guest would take them that wants `part` of each: of idle cores first, then free
    siblings of busy ones. `claims`, by CPU, grows by each one taken."""
    left = set(cpus)
    cores = {cpu: host.core_of(cpu) for cpu in left}

    def load(cpu: int) -> tuple[bool, float, float, int]:
        of_core = sum(claims.get(one, 0.0) for one in cores[cpu])
        return (claims[cpu] > FREE_CPU, of_core, claims[cpu], cpu)

    while left:
        cpu = min(left, key=load)
        left.remove(cpu)
        claims[cpu] += part
        yield cpu


def needs_local_memory(host: Host, unit: Iterable[Guest]) -> bool:
    """Thesis 2.1.3: memory follows only who is sensitive to its latency (states 4, 5, 7, 8)."""
    return any(
        (profile := host.undisturbed.get(guest.uuid)) is not None and profile.sensitivity.memory
        for guest in unit
    )


def is_memory_movable(host: Host, guest: Guest, node: int) -> bool:
    """Whether more of its memory could be brought to this node."""
    return may_move_memory(host, guest) and host.memory_of(guest.uuid).get(node, 0.0) < 1.0


def may_move_memory(host: Host, guest: Guest) -> bool:
    return (
        Knob.MEMORY in host.knobs
        and not guest.memory_obstacle
        and not guest.unmanaged
        and bool(guest.memory_by_node)
        and guest.uuid not in host.memory_moves
    )


@dataclass(frozen=True, slots=True)
class Choice:
    candidate: Candidate
    gain: Gain


@dataclass(frozen=True, slots=True)
class AcceptanceLimits:
    """What a candidate must bring, and may cost others."""

    least_gain: float
    most_hurt: float
    """Share of its performance that anybody may lose by it."""
    price_of: Callable[[Sequence[Setting]], float]
    """Gain that settings must bring on top, for what they cost by themselves."""


def best_of(
    candidates: Iterable[Candidate], what_if: WhatIfModel, terms: AcceptanceLimits
) -> tuple[Choice | None, tuple[Alternative, ...]]:
    """The candidate that brings most on the whole, and why not the others."""
    chosen: Choice | None = None
    score = terms.least_gain
    rejected: list[Alternative] = []
    for candidate in candidates:
        gain = what_if.evaluate(candidate.locations)
        worth = gain.total - terms.price_of(candidate.settings)
        if -gain.worst > terms.most_hurt:
            rejected.append(rejection(candidate, Rejection.HURTS_OTHERS, gain))
        elif worth < terms.least_gain:
            rejected.append(rejection(candidate, Rejection.GAINS_TOO_LITTLE, gain))
        elif chosen is None or worth > score:
            if chosen is not None:
                rejected.append(rejection(chosen.candidate, Rejection.NOT_BEST, chosen.gain))
            chosen, score = Choice(candidate, gain), worth
        else:
            rejected.append(rejection(candidate, Rejection.NOT_BEST, gain))
    return chosen, tuple(rejected)


def rejection(candidate: Candidate, why: Rejection, gain: Gain) -> Alternative:
    return Alternative(
        guest_uuid=candidate.guest_uuid,
        domain_id=candidate.domain_ids[0],
        rejection=why,
        predicted_loss=predicted_loss_of(candidate.locations, gain),
        rung=candidate.rung,
    )


def predicted_loss_of(moved: Collection[str], gain: Gain) -> PredictedLoss:
    """What the moved ones, and the worst of the others, would lose in all."""
    others = [loss for uuid, loss in gain.losses.items() if uuid not in moved]
    mine = [gain.losses[uuid] for uuid in moved]
    return PredictedLoss(max(0.0, *mine), max([0.0, *others]))
