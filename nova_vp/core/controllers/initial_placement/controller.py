# SPDX-License-Identifier: Apache-2.0
"""Creation (thesis 2.2): CPU and memory of a new VP from one node, its vCPUs in one LLC domain.

The servers of one VP go to the same place while it has room. `vp:memory_split` spreads a guest's
memory over several nodes by percentage instead. Nothing here moves a guest that is placed.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.initial_placement.declaration import (
    HOME,
    MEMORY_SPLIT,
    NAME,
    Homing,
    Placed,
    PlacementSettings,
)
from nova_vp.core.model.candidate import may_move_memory
from nova_vp.core.model.host import DomainSet, Host, cpus_of
from nova_vp.core.model.location import Location, spread_over
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss, Release, Setting
from nova_vp.core.types.guest import LET_GO_OF, Guest
from nova_vp.core.types.knob import Knob, Shares
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.state import CoreState


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """Those that are placed in this tick, and what they took so far."""

    placed: Placed
    is_always: bool
    """The operator lets them be placed in mode `advise` without being asked."""
    unsettled: frozenset[str]
    taken_vcpus: dict[int, float] = field(default_factory=dict)
    """By domain id."""
    domain_set_of_vp: dict[str, DomainSet] = field(default_factory=dict)


class InitialPlacement(Controller):
    name = NAME
    summary = "places new servers (Virtual Platforms thesis 2013, section 2.2)"
    is_default = True
    needs_counters = False
    sees_virtual_places = True
    settings = PlacementSettings
    state = Placed
    reasons = (HOME,)
    flavor_keys = (MEMORY_SPLIT,)

    def run(self, view: View, state: Placed, settings: PlacementSettings) -> Answer:
        state = _with_known(view, state)
        groups = tuple(initial_placement(view, state, settings))
        # Once it is placed, others may find a better place.
        return Answer(state, groups, tuple(Release(*key) for key, _ in view.standing(NAME)))

    def note(
        self, state: Placed, outcome: Outcome, core: CoreState, settings: PlacementSettings
    ) -> Placed:
        if outcome.result is not Result.APPLIED or outcome.action.reason is not HOME:
            return state
        placed = {change.guest_uuid for change in outcome.action.changes} & core.vps.keys()
        now = {uuid: core.vps[uuid].generation for uuid in placed}
        return Placed({**state.generations, **now})

    def places_newcomers(self, mode: Mode, settings: PlacementSettings) -> bool:
        if settings.home_on_arrival is Homing.ALWAYS:
            return mode is not Mode.OBSERVE
        return settings.home_on_arrival is Homing.ENFORCE and mode is Mode.ENFORCE


def _with_known(view: View, state: Placed) -> Placed:
    """With those that our journal holds something of, and without those that left, were started
    anew, or were let go of: opted in again, or still here after a failed migration, one of those
    arrives anew."""
    now, applied = state.generations, view.picture.applied
    found = {
        uuid: guest.generation
        for uuid, guest in view.host.guests.items()
        if uuid in applied
        or (now.get(uuid) == guest.generation and guest.unmanaged not in LET_GO_OF)
    }
    return state if found == now else Placed(found)


def initial_placement(
    view: View, placed: Placed, settings: PlacementSettings
) -> Iterator[ClaimGroup]:
    """One LLC domain for each guest that has none of its own yet.

    CPU first, then the cache: among the domain sets that keep vCPUs evenly spread, the one where
    least is lost; losses up to `strict_max_hurt_ratio` count as none. In `advise` it is proposed
    like anything else, since VPs that float share every cache and cannot be told apart.
    """
    host = view.host
    if settings.home_on_arrival is Homing.NEVER:
        return
    unplaced = [
        guest
        for uuid, guest in host.guests.items()
        if not _is_placed(host, placed, uuid)
        and guest.is_running
        and not guest.unmanaged
        and _may_be_placed(view, guest)
    ]
    # The widest first: the narrow ones even out what the wide ones leave.
    unplaced.sort(key=lambda guest: -guest.vcpus)
    is_always = settings.home_on_arrival is Homing.ALWAYS
    arrivals = _Arrivals(placed, is_always, frozenset(guest.uuid for guest in unplaced))
    for guest in unplaced:
        group = _place(view, guest, arrivals)
        if group is not None:
            for domain_id in group.domain_ids:
                taken = arrivals.taken_vcpus.get(domain_id, 0)
                arrivals.taken_vcpus[domain_id] = taken + guest.vcpus / len(group.domain_ids)
            yield group


def _may_be_placed(view: View, guest: Guest) -> bool:
    """In mode `observe` virtually, which needs a host that does nothing else."""
    picture = view.picture
    return picture.only_observes or (guest.mode or picture.mode) is not Mode.OBSERVE


def _is_placed(host: Host, placed: Placed, uuid: str) -> bool:
    """Once placed it stays: balancing later arrivals is no reason to move anybody."""
    if uuid not in placed.generations and _leaves_its_island(host.guests[uuid]):
        return False
    return uuid in placed.generations or len(host.domains_of[uuid]) == 1


def _leaves_its_island(guest: Guest) -> bool:
    return bool(guest.placement & guest.beyond_island)


def _place(view: View, guest: Guest, arrivals: _Arrivals) -> ClaimGroup | None:
    host, policy = view.host, view.policy
    all_sets = host.domain_sets(guest)
    # Where there is one place, it is only brought there that runs beyond it.
    is_within = guest.placement <= guest.allowed_cpus
    if len(all_sets) < 2 and is_within and not _leaves_its_island(guest):
        return None

    def load(domain_set: DomainSet) -> float:
        taken = sum(arrivals.taken_vcpus.get(d.id, 0) for d in domain_set)
        settled = host.allocated_vcpus(domain_set, arrivals.unsettled) + taken
        return (settled + guest.vcpus) / _cores_of(domain_set, guest)

    vcpus_in_all = sum(g.vcpus for g in host.guests.values())
    fair = math.ceil(vcpus_in_all / sum(domain.cores for domain in host.topology.domains))
    roomy = [domain_set for domain_set in all_sets if load(domain_set) <= fair] or [
        min(all_sets, key=load)
    ]
    predicted_losses = {
        domain_set: _loss_in(view, guest, domain_set, arrivals.unsettled) for domain_set in all_sets
    }
    siblings = _domain_sets_of_its_vp(host, guest, arrivals)

    def rank(domain_set: DomainSet) -> tuple[bool, float, float, int]:
        worst = predicted_losses[domain_set].worst_ratio
        felt = worst if worst > policy.strict_max_hurt_ratio else 0.0
        return (domain_set not in siblings, felt, load(domain_set), domain_set[0].id)

    best = min(roomy, key=rank)
    arrivals.domain_set_of_vp.setdefault(guest.vp_id, best)
    rejected = tuple(
        Alternative(
            guest.uuid,
            domain_set[0].id,
            Rejection.NOT_BEST if domain_set in roomy else Rejection.MORE_CROWDED,
            predicted_losses[domain_set],
        )
        for domain_set in all_sets
        if domain_set != best
    )
    return ClaimGroup(
        controller=NAME,
        guest_uuid=guest.uuid,
        settings=(
            Setting(guest.uuid, Knob.PLACEMENT, (cpus_of(best, guest),)),
            *_memory(host, guest, best),
        ),
        domain_ids=tuple(d.id for d in best),
        reason=HOME,
        predicted_loss=predicted_losses[best],
        rejected=rejected,
        ignores_mode=arrivals.is_always,
        is_first_place=True,
    )


def _cores_of(domain_set: DomainSet, guest: Guest) -> int:
    """Physical ones: a core that is free comes before a free sibling."""
    return sum(domain.cores_among(guest.allowed_cpus) for domain in domain_set)


def _domain_sets_of_its_vp(host: Host, guest: Guest, arrivals: _Arrivals) -> set[DomainSet]:
    """Where other servers of the same VP live, or will."""
    found = {
        host.domains_of[one.uuid]
        for one in host.guests.values()
        if one.vp_id == guest.vp_id
        and one.uuid != guest.uuid
        and _is_placed(host, arrivals.placed, one.uuid)
    }
    planned = arrivals.domain_set_of_vp.get(guest.vp_id)
    return found | ({planned} if planned else set())


def _memory(host: Host, guest: Guest, domain_set: DomainSet) -> tuple[Setting, ...]:
    """Only where a flavor splits it: the kernel gives a newcomer memory where it runs."""
    split = split_over(host, guest, domain_set[0].node)
    if not split or not may_move_memory(host, guest):
        return ()
    return (Setting(guest.uuid, Knob.MEMORY, split),)


def split_over(host: Host, guest: Guest, home: int) -> Shares:
    """`vp:memory_split` on this host: the first share at home, the others on the nodes that are
    nearest to it. Empty if the host has fewer nodes than the flavor names."""
    distance: Mapping[int, int] = {
        there: far for here, there, far in host.topology.distances if here == home
    }
    nodes = sorted(
        host.topology.nodes, key=lambda node: (node != home, distance.get(node, 0), node)
    )
    shares = MEMORY_SPLIT.of(guest)
    if len(shares) > len(nodes):
        return ()
    return tuple(sorted(zip(nodes, shares, strict=False)))


def _loss_in(
    view: View, guest: Guest, domain_set: DomainSet, unsettled: frozenset[str]
) -> PredictedLoss:
    """With its memory where the kernel or its flavor will put it."""
    split = _memory(view.host, guest, domain_set)
    memory = dict(cast(Shares, split[0].value)) if split else {domain_set[0].node: 1.0}
    location = Location(spread_over(domain_set), memory)
    return view.what_if.predict(guest.uuid, location, without=unsettled - {guest.uuid})
