# SPDX-License-Identifier: Apache-2.0
"""New places for several guests at once, found step by step on the what-if model.

On a full host nobody can move unless somebody else does, so a plan has several steps: a unit goes
elsewhere, its memory is brought to it, or it changes places with one or two others. What a plan is
sought for is for the controller to say: a rule of its own that ranks arrangements comes first, and
what is predicted chooses among those that rank alike.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice

from nova_vp.core.model.candidate import (
    Candidate,
    domain_sets_of,
    is_allotted,
    is_memory_movable,
    move,
    move_along,
    move_memory,
    needs_local_memory,
    unit_of,
)
from nova_vp.core.model.cost import price
from nova_vp.core.model.host import DomainSet, Host, cpus_of
from nova_vp.core.model.location import Location
from nova_vp.core.model.what_if import Gain, WhatIfModel
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rung

PASSES = 4
LEAST_CROWD = 1e-6
"""vCPUs per CPU that make a difference: shares are not exact."""
EVALUATIONS = 40_000
"""Guests squared times arrangements that one tick may weigh: some milliseconds."""
MOST_PAID_TIMES = 3.0
"""By so much may a payer's loss exceed `most_hurt_ratio` where somebody worse off gains by it."""
LEAST_STEP = 0.01
"""Gain of one step that is worth a move."""

Unit = tuple[Guest, ...]
Rank = tuple[float, ...]
"""How far an arrangement is from what a rule wants: less is better, the first number first."""


def unranked(locations: Mapping[str, Location]) -> Rank:
    """Of who seeks by prediction alone."""
    return ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Some guests' new places."""

    settings: Mapping[tuple[str, Knob], Setting]
    locations: Mapping[str, Location]
    domain_sets: Mapping[str, DomainSet]
    gain: Gain
    worth: float
    rank: Rank

    def is_better_than(self, other: "Plan | None", rank_now: Rank) -> bool:
        """`rank_now`: of everybody where they are."""
        rank, worth = (other.rank, other.worth) if other else (rank_now, 0.0)
        return self.rank < rank or (self.rank == rank and self.worth > worth + LEAST_STEP)


@dataclass(frozen=True)
class Search:
    """What a plan is sought among."""

    host: Host
    what_if: WhatIfModel
    policy: Policy
    copy_kib_per_s: float | None
    hot_nodes: frozenset[int]
    may_change: Callable[[Setting], bool]
    has_failed: Callable[[Collection[Setting]], bool]
    rank_of: Callable[[Mapping[str, Location]], Rank] = unranked
    """Of an arrangement in which these are there and the others where they are."""
    helped: Sequence[str] = ()
    """Guests that the plan is for, the first ones first; the others only make room."""

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All that may be moved, those that the plan is for first."""
        return tuple({unit[0].uuid: unit for unit in (*self.seeking, *self._movable())}.values())

    @cached_property
    def seeking(self) -> tuple[Unit, ...]:
        may = {guest.uuid for unit in self._movable() for guest in unit}
        found = (unit_of(self.host, uuid) for uuid in self.helped if uuid in may)
        return tuple({unit[0].uuid: unit for unit in found}.values())

    def _movable(self) -> Iterator[Unit]:
        for uuid, guest in self.host.guests.items():
            if not guest.unmanaged and not is_allotted(self.host, guest):
                yield unit_of(self.host, uuid)

    @cached_property
    def places(self) -> Mapping[str, tuple[DomainSet, ...]]:
        """By first guest of a unit: domain sets that Nova and the holds leave it."""
        return {unit[0].uuid: tuple(self._open_to(unit)) for unit in self.units}

    def _open_to(self, unit: Unit) -> Iterator[DomainSet]:
        """Not back, not too soon."""
        for domain_set in domain_sets_of(self.host, unit):
            moves = (Setting(g.uuid, Knob.PLACEMENT, (cpus_of(domain_set, g),)) for g in unit)
            if all(map(self.may_change, moves)):
                yield domain_set

    @cached_property
    def vcpus_per_cpu(self) -> Mapping[int, float] | None:
        """By LLC domain, as it is now; None on a host that has not enough CPUs for all."""
        host = self.host
        if host.is_overcommitted():
            return None
        return {
            domain.id: sum(
                host.share(uuid, domain) * host.occupiable_cpus(uuid)
                for uuid in host.members[domain.id]
            )
            / len(domain.cpus)
            for domain in host.topology.domains
        }

    def may_follow(self, unit: Unit) -> bool:
        """Whether its memory may be moved: it is sensitive to its latency (thesis 2.1.3: states 4,
        5, 7 and 8), or it fills a hot controller."""
        return needs_local_memory(self.host, unit) or any(
            self.host.memory_of(guest.uuid).get(node, 0.0) > 0
            for guest in unit
            for node in self.hot_nodes
        )


def best_plan(search: Search) -> Plan | None:
    """Unit by unit its best next step, in their order, until none is worth it."""
    guests = max(len(search.host.guests), 1)
    budget = max(EVALUATIONS // guests**2, 1)
    rank_now = search.rank_of({})
    plan: Plan | None = None
    passes, is_longer = PASSES, True
    while passes and is_longer:
        before = plan
        for unit in search.seeking:
            best = plan
            for step in islice(_steps(search, plan, unit), budget):
                budget -= 1
                longer = _extended(search, plan, step)
                if longer is None or not longer.is_better_than(best, rank_now):
                    continue
                if not search.has_failed(longer.settings.values()):
                    best = longer
            plan = best
        passes, is_longer = passes - 1, plan is not before
    return plan


def _steps(search: Search, plan: Plan | None, unit: Unit) -> Iterator[tuple[Candidate, ...]]:
    """This unit elsewhere; or its memory brought to it; or it changes places with another one, or
    with two that are as large together."""
    host = search.host
    mine = _domain_set(host, plan, unit)
    for domain_set in search.places[unit[0].uuid]:
        if domain_set != mine:
            yield from ((one,) for one in _moves(search, unit, domain_set))
    yield from ((one,) for one in _homeward(search, unit, mine))
    others: dict[DomainSet, list[Unit]] = {}
    for other in search.units:
        there = _domain_set(host, plan, other)
        may_swap = there in search.places[unit[0].uuid] and mine in search.places[other[0].uuid]
        if there != mine and may_swap:
            others.setdefault(there, []).append(other)
    for there, partners in others.items():
        pairs = (p for p in combinations(partners, 2) if _vcpus(*p) == _vcpus(unit))
        for leaving in (*((one,) for one in partners), *pairs):
            for follow in (False, True):
                yield (
                    move_along(host, unit, there, follow),
                    *(move_along(host, other, mine, follow) for other in leaving),
                )


def _vcpus(*units: Unit) -> int:
    return sum(guest.vcpus for unit in units for guest in unit)


def _domain_set(host: Host, plan: Plan | None, unit: Unit) -> DomainSet:
    planned = plan.domain_sets.get(unit[0].uuid) if plan else None
    return planned or host.domains_of[unit[0].uuid]


def _moves(search: Search, unit: Unit, domain_set: DomainSet) -> Iterator[Candidate]:
    """vCPUs alone; and with memory that may follow."""
    yield move(search.host, unit, domain_set, with_memory=False)
    along = move(search.host, unit, domain_set, with_memory=search.may_follow(unit))
    if along.moves_memory:
        yield along


def _homeward(search: Search, unit: Unit, domain_set: DomainSet) -> Iterator[Candidate]:
    for guest in unit if search.may_follow(unit) else ():
        for node in sorted({d.node for d in domain_set}):
            if is_memory_movable(search.host, guest, node):
                yield move_memory(search.host, guest, node)


def _extended(search: Search, plan: Plan | None, step: Sequence[Candidate]) -> Plan | None:
    """The plan with one more step; None if that must wait, or if somebody would pay for it or lose
    the CPU it has."""
    if not all(map(search.may_change, _memory_of(step))):
        return None
    settings = dict(plan.settings) if plan else {}
    locations = dict(plan.locations) if plan else {}
    domain_sets = dict(plan.domain_sets) if plan else {}
    for candidate in step:
        # Where an earlier step would have sent it no longer counts.
        for uuid in candidate.locations:
            settings.pop((uuid, Knob.MEMORY), None)
        for setting in candidate.settings:
            settings[setting.guest_uuid, setting.knob] = setting
        for uuid, location in candidate.locations.items():
            locations[uuid] = _merged(locations.get(uuid), location, candidate)
        if candidate.rung is not Rung.MOVE_MEMORY:
            domain_sets[candidate.guest_uuid] = candidate.domain_set
    if _is_crowding(search, locations):
        return None
    gain = search.what_if.evaluate(locations)
    if not is_bearable(gain, search.policy):
        return None
    cost = price(settings.values(), search.host, search.copy_kib_per_s, search.policy)
    rank = search.rank_of(locations)
    return Plan(settings, locations, domain_sets, gain, gain.utility - cost, rank)


def _is_crowding(search: Search, locations: Mapping[str, Location]) -> bool:
    """Whether vCPUs would outnumber CPUs, where anybody will be, by more than where it is now: a
    light phase is soon over. A host that has not enough for all goes by what is used."""
    host, now = search.host, search.vcpus_per_cpu
    if now is None:
        return False
    after = dict(now)
    for uuid, location in locations.items():
        cpus = host.occupiable_cpus(uuid)
        for domain in host.domains_of[uuid]:
            after[domain.id] -= host.share(uuid, domain) * cpus / len(domain.cpus)
        cpus = max(cpus, _cpus_at(host, uuid, location))
        for domain in host.topology.domains:
            share = location.domains.get(domain.id, 0.0)
            after[domain.id] += share * cpus / len(domain.cpus)
    worse = {d for d, ratio in after.items() if ratio > max(1.0, now[d]) + LEAST_CROWD}
    if any(host.members[domain_id] - locations.keys() for domain_id in worse):
        return True
    return any(
        max(after[domain_id] for domain_id in location.domains)
        > max([1.0, *(now[d.id] for d in host.domains_of[uuid])]) + LEAST_CROWD
        for uuid, location in locations.items()
    )


def _cpus_at(host: Host, uuid: str, location: Location) -> int:
    """CPUs that its vCPUs could be on there at once: more than now, where it has few."""
    guest = host.guests[uuid]
    there = (d.cpus & guest.allowed_cpus for d in host.topology.domains if d.id in location.domains)
    return min(guest.vcpus, sum(map(len, there)))


def is_bearable(gain: Gain, policy: Policy) -> bool:
    """Nobody pays much for it; or somewhat more, but not more than half of what it brings to
    somebody who was worse off than the payer will be."""
    payers = {u: -won for u, won in gain.by_guest.items() if -won > policy.most_hurt_ratio}
    if not payers:
        return True
    dearest = max(payers.values())
    if dearest > MOST_PAID_TIMES * policy.most_hurt_ratio:
        return False
    helped = [gain.losses[u] + won for u, won in gain.by_guest.items() if won >= 2 * dearest]
    return all(gain.losses[uuid] < max(helped, default=0.0) for uuid in payers)


def _memory_of(step: Sequence[Candidate]) -> Iterator[Setting]:
    """Where it sends memory. Open places were found once, for `Search.places`."""
    for candidate in step:
        yield from (setting for setting in candidate.settings if setting.knob is Knob.MEMORY)


def _merged(old: Location | None, new: Location, candidate: Candidate) -> Location:
    """Memory may be brought to where an earlier step of the plan puts the vCPUs."""
    if old is not None and candidate.rung is Rung.MOVE_MEMORY:
        return old._replace(memory=new.memory)
    return new
