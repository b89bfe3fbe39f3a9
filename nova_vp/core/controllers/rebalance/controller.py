# SPDX-License-Identifier: Apache-2.0
"""Places that are bad although nobody's state changed: hurt from the first second.

The thesis mends those whatever the initial configuration was (2.3.1), and separates the State-8 VPs
of a hot node, vCPUs and memory, one node each (2.1.3). On a full host nobody can move unless
somebody else does, so several steps are planned on the what-if model and claimed together; what is
measured afterwards judges them, like any other action.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.rebalance.declaration import (
    NAME,
    REARRANGE,
    REASONS,
    SEPARATE,
    Looks,
    RebalanceSettings,
)
from nova_vp.core.model.candidate import (
    Candidate,
    domain_sets_of,
    is_allotted,
    is_memory_movable,
    move,
    move_along,
    move_memory,
    predicted_loss_of,
    unit_of,
    within_allotment,
)
from nova_vp.core.model.cost import price
from nova_vp.core.model.holds import failed_lately, is_change_allowed
from nova_vp.core.model.host import DomainSet, Host, cpus_of
from nova_vp.core.model.what_if import Gain, Location, WhatIfModel
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.claim import ClaimGroup, Setting
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Reason, Rung
from nova_vp.core.types.sample import Incomplete
from nova_vp.core.types.state import CoreState

PASSES = 4
LEAST_CROWD = 1e-6
"""vCPUs per CPU that make a difference: shares are not exact."""
EVALUATIONS = 40_000
"""Guests squared times arrangements that one tick may weigh: some milliseconds."""
MOST_PAID_TIMES = 3.0
"""By so much may a payer's loss exceed `most_hurt_ratio` where somebody worse off gains by it."""
LEAST_STEP = 0.01
"""Gain of one step that is worth a move."""
FIRST_WAIT_S = 30.0
MOST_DOUBLINGS = 4
"""Of the wait after a look for a better arrangement that brought nothing."""

_NEVER_KNOWN = frozenset({Incomplete.UNREADABLE, Incomplete.PARTIAL, Incomplete.IDLE})


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a plan is sought among."""

    view: View
    host: Host
    what_if: WhatIfModel
    units: tuple[tuple[Guest, ...], ...]
    vcpus_per_cpu: Mapping[int, float] | None
    """By LLC domain, as it is now; None on a host that has not enough CPUs for all."""
    places: Mapping[str, tuple[DomainSet, ...]] = field(default_factory=dict)
    """By first guest of a unit: domain sets that Nova and the holds leave it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Some guests' new places."""

    settings: Mapping[tuple[str, Knob], Setting]
    locations: Mapping[str, Location]
    domain_sets: Mapping[str, DomainSet]
    gain: Gain
    worth: float


class Rebalance(Controller):
    name = NAME
    summary = (
        "rebalances servers by prediction, before a degradation is measured (Virtual Platforms "
        "thesis 2013, section 2.3.1)"
    )
    is_default = True
    settings = RebalanceSettings
    state = Looks
    reasons = REASONS

    def run(self, view: View, state: Looks, settings: RebalanceSettings) -> Answer:
        if not is_due(view, state, settings):
            return Answer(state)
        return Answer(back_off(state, view.now_s), tuple(rebalance(view, settings)))

    def note(
        self, state: Looks, outcome: Outcome, core: CoreState, settings: RebalanceSettings
    ) -> Looks:
        """A plan that helped makes up for the fruitless looks before it."""
        if outcome.result is Result.MENDED:
            return replace(state, fruitless=0)
        if outcome.result in (Result.INEFFECTIVE, Result.UNDONE) and outcome.settled_s is not None:
            return back_off(state, outcome.settled_s)
        return state


def back_off(state: Looks, now_s: float) -> Looks:
    """The next look is farther away, until one of them brings some."""
    wait_s = FIRST_WAIT_S * 2.0 ** min(state.fruitless, MOST_DOUBLINGS)
    return Looks(now_s + wait_s, state.fruitless + 1)


def rebalance(view: View, settings: RebalanceSettings) -> Iterator[ClaimGroup]:
    """The best plan that was found, if any brings enough."""
    host, what_if = view.host, view.what_if
    if not any(what_if.loss(uuid) > settings.felt_loss_ratio for uuid in host.undisturbed):
        return
    plan = _best_plan(_context(view))
    if plan is not None:
        yield _group(host, plan, frozenset(one.node for one in view.nodes if one.is_hot))


def is_due(view: View, looks: Looks, settings: RebalanceSettings) -> bool:
    """Everything is settled and known, nobody is being helped, and the last look is long ago."""
    host, state, now_s, policy = view.host, view.core, view.now_s, view.policy
    return (
        now_s >= looks.next_s
        and now_s - state.placed_at_s >= settings.rearrange_after_s
        and not state.pending
        and not host.memory_moves
        and not _is_being_mitigated(host)
        and all(_is_settled(host, uuid, policy) for uuid in host.guests)
    )


def _is_being_mitigated(host: Host) -> bool:
    """A VP is hurt in its cache by somebody known: that comes first."""
    return any(
        vp.detection is not None and vp.detection.kind is Kind.CACHE and vp.detection.suspects
        for vp in host.vps.values()
    )


def _is_settled(host: Host, uuid: str, policy: Policy) -> bool:
    """Known well enough to predict by, or never to be known."""
    guest, vp = host.guests[uuid], host.vps[uuid]
    if not guest.is_running or vp.incomplete in _NEVER_KNOWN:
        return True
    return vp.samples_seen >= policy.settle_samples


def _context(view: View) -> DecisionContext:
    """Those who lose most come first: on a full host there is no time for all."""
    host, what_if = view.host, view.what_if
    movable = [
        uuid
        for uuid, guest in host.guests.items()
        if not guest.unmanaged and not is_allotted(host, guest)
    ]
    movable.sort(key=lambda uuid: (-what_if.loss(uuid), uuid))
    found = (unit_of(host, uuid) for uuid in movable)
    units = tuple({unit[0].uuid: unit for unit in found}.values())
    context = DecisionContext(view, host, what_if, units, _vcpus_per_cpu(host))
    places = {unit[0].uuid: tuple(_open_domain_sets(context, unit)) for unit in units}
    return replace(context, places=places)


def _vcpus_per_cpu(host: Host) -> Mapping[int, float] | None:
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


def _open_domain_sets(context: DecisionContext, unit: Sequence[Guest]) -> Iterator[DomainSet]:
    """Those it may go to now: not back, not too soon."""
    for domain_set in domain_sets_of(context.host, unit):
        moves = (Setting(g.uuid, Knob.PLACEMENT, (cpus_of(domain_set, g),)) for g in unit)
        if all(_is_allowed(context, setting) for setting in moves):
            yield domain_set


def _is_allowed(context: DecisionContext, setting: Setting) -> bool:
    view = context.view
    if not view.may_claim(setting.guest_uuid, setting.knob, NAME, REARRANGE.rank):
        return False
    return is_change_allowed(setting, view.core, NAME, view.now_s, view.policy)


def _has_failed(context: DecisionContext, plan: Plan) -> bool:
    """It was made lately and brought nothing: the next best one is sought."""
    view = context.view
    return failed_lately("", plan.settings.values(), view.core, view.now_s)


def _best_plan(context: DecisionContext) -> Plan | None:
    """Unit by unit its best next step, the worst off first, until none is worth it."""
    guests = max(len(context.host.guests), 1)
    budget = max(EVALUATIONS // guests**2, 1)
    plan: Plan | None = None
    passes, is_longer = PASSES, True
    while passes and is_longer:
        before = plan
        for unit in context.units:
            best = plan
            for step in islice(_steps(context, plan, unit), budget):
                budget -= 1
                longer = _extended(context, plan, step)
                least = (best.worth if best else 0.0) + LEAST_STEP
                if longer is not None and longer.worth > least and not _has_failed(context, longer):
                    best = longer
            plan = best
        passes, is_longer = passes - 1, plan is not before
    return plan if plan is not None and plan.worth >= context.view.policy.least_gain_ratio else None


def _steps(
    context: DecisionContext, plan: Plan | None, unit: Sequence[Guest]
) -> Iterator[tuple[Candidate, ...]]:
    """This unit elsewhere; or its memory brought to it; or it changes places with another one, or
    with two that are as large together."""
    host = context.host
    mine = _domain_set(host, plan, unit)
    for domain_set in context.places[unit[0].uuid]:
        if domain_set != mine:
            yield from ((one,) for one in _moves(host, unit, domain_set))
    yield from ((one,) for one in _homeward(host, unit, mine))
    others: dict[DomainSet, list[tuple[Guest, ...]]] = {}
    for other in context.units:
        there = _domain_set(host, plan, other)
        may_swap = there in context.places[unit[0].uuid] and mine in context.places[other[0].uuid]
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


def _vcpus(*units: Sequence[Guest]) -> int:
    return sum(guest.vcpus for unit in units for guest in unit)


def _domain_set(host: Host, plan: Plan | None, unit: Sequence[Guest]) -> DomainSet:
    planned = plan.domain_sets.get(unit[0].uuid) if plan else None
    return planned or host.domains_of[unit[0].uuid]


def _moves(host: Host, unit: Sequence[Guest], domain_set: DomainSet) -> Iterator[Candidate]:
    """vCPUs alone; and with memory, for a unit whose memory is elsewhere. The what-if model says
    what that is worth, not the state classes that mitigation goes by."""
    yield move(host, unit, domain_set, with_memory=False)
    along = move(host, unit, domain_set, with_memory=True)
    if along.moves_memory:
        yield along


def _homeward(host: Host, unit: Sequence[Guest], domain_set: DomainSet) -> Iterator[Candidate]:
    for guest in unit:
        for node in sorted({d.node for d in domain_set}):
            if is_memory_movable(host, guest, node):
                yield move_memory(host, guest, node)


def _extended(
    context: DecisionContext, plan: Plan | None, step: Sequence[Candidate]
) -> Plan | None:
    """The plan with one more step; None if that must wait, or if somebody would pay for it or lose
    the CPU it has."""
    if not all(_is_allowed(context, setting) for setting in _memory_of(step)):
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
    if _is_crowding(context, locations):
        return None
    gain = context.what_if.evaluate(locations)
    if not _is_bearable(gain, context.view.policy):
        return None
    measured = context.view.core.copy_kib_per_s
    worth = gain.utility - price(settings.values(), context.host, measured, context.view.policy)
    return Plan(settings, locations, domain_sets, gain, worth)


def _is_crowding(context: DecisionContext, locations: Mapping[str, Location]) -> bool:
    """Whether vCPUs would outnumber CPUs, where anybody will be, by more than where it is now: a
    light phase is soon over. A host that has not enough for all goes by what is used."""
    host, now = context.host, context.vcpus_per_cpu
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


def _is_bearable(gain: Gain, policy: Policy) -> bool:
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
    """Where it sends memory. Open places were found once, for `DecisionContext.places`."""
    for candidate in step:
        yield from (setting for setting in candidate.settings if setting.knob is Knob.MEMORY)


def _merged(old: Location | None, new: Location, candidate: Candidate) -> Location:
    """Memory may be brought to where an earlier step of the plan puts the vCPUs."""
    if old is not None and candidate.rung is Rung.MOVE_MEMORY:
        return old._replace(memory=new.memory)
    return new


def _group(host: Host, plan: Plan, hot_nodes: frozenset[int]) -> ClaimGroup:
    settings = within_allotment(host, plan.settings.values())
    main = max(plan.locations, key=lambda uuid: (plan.gain.by_guest[uuid], uuid))
    domain_set = plan.domain_sets.get(main, host.domains_of[main])
    return ClaimGroup(
        controller=NAME,
        guest_uuid=main,
        settings=settings,
        domain_ids=tuple(d.id for d in domain_set),
        reason=_why(host, plan, hot_nodes),
        predicted_loss=predicted_loss_of(plan.locations, plan.gain),
        rung=Rung.MOVE if len(plan.locations) == 1 else Rung.SWAP,
        evidence={"predicted_gain_ratio": plan.gain.total, "guests": float(len(plan.locations))},
    )


def _why(host: Host, plan: Plan, hot_nodes: frozenset[int]) -> Reason:
    """The thesis's separation where memory of a State-8 VP leaves a hot node."""
    for uuid, knob in plan.settings:
        profile = host.undisturbed.get(uuid)
        is_state_8 = profile is not None and profile.state.number == 8
        if knob is Knob.MEMORY and is_state_8 and host.memory_of(uuid).keys() & hot_nodes:
            return SEPARATE
    return REARRANGE
