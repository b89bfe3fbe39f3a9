# SPDX-License-Identifier: Apache-2.0
"""Merlin (thesis 3.2): demands for CPU, met by the cheapest reconfiguration that hurts least.

A VP that uses more than 0.8 of the CPU it was allotted asks for more. Once per epoch one
reconfiguration is chosen for it, cheapest rung first; who shows a worse state in the repercussion
interval was hurt by it, joins the application set S, and the choice is made anew for all of S. The
aim is that weighted degradations differ by less than epsilon (equation 1). A CPU that is not used
any more is given back once another VP asks and finds none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.merlin.declaration import (
    LESS_CPU,
    MORE_CPU,
    NAME,
    REASONS,
    Demand,
    Demands,
    MerlinSettings,
)
from nova_vp.core.controllers.merlin.rungs import (
    DecisionContext,
    home_domains,
    local_cpus,
    moves_with_memory,
    raised_cap,
    remote_cpus,
    swaps,
)
from nova_vp.core.model.candidate import Candidate, rejection
from nova_vp.core.model.holds import round_robin
from nova_vp.core.model.host import Host, allotted_cores
from nova_vp.core.model.what_if import Gain
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.claim import (
    Alternative,
    ClaimGroup,
    PredictedLoss,
    Release,
    Setting,
    placements_of,
)
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.reason import Rejection, Rung
from nova_vp.core.types.state import CoreState, VpState

SATISFIED = 0.5
"""Share of its allotment, with one CPU less, below which a VP gives one back."""

EVALUATIONS = 80_000
"""Guests squared times askers that one tick may choose for: some tenths of a second."""

FORGET_EPOCHS = 3
"""A demand that was met and hurt nobody for so long is over."""


class Merlin(Controller):
    name = NAME
    summary = (
        "gives servers more CPU by the cheapest reconfiguration (Virtual Platforms thesis 2013, "
        "chapter 3)"
    )
    settings = MerlinSettings
    state = Demands
    reasons = REASONS

    def run(self, view: View, state: Demands, settings: MerlinSettings) -> Answer:
        state = watch_repercussions(view, state, settings)
        groups = tuple(demands(view, state, settings))
        state = note_asked(view.host, state, groups)
        return Answer(state, groups, tuple(_forgotten_places(view, state, settings)))

    def note(
        self, state: Demands, outcome: Outcome, core: CoreState, settings: MerlinSettings
    ) -> Demands:
        """What is allotted now: its repercussions are watched from here on."""
        action = outcome.action
        if outcome.result is not Result.APPLIED or action.reason is not MORE_CPU:
            return state
        asker = action.on_behalf_of or action.guest_uuid
        old = state.met.get(asker, Demand())
        last = old if old.degraded else Demand()  # What hurt nobody is settled.
        demand = Demand(
            acted_at_s=action.decided_s,
            application_set=last.application_set | last.degraded,
            corunners=state.corunners.get(asker, frozenset()),
            last=_name(action.guest_uuid, action.rung, action.domain_ids),
            granted=action.cpus - action.from_cpus,
            tried=last.tried | {last.last},
        )
        return replace(state, met={**state.met, asker: demand})


def demands(view: View, state: Demands, settings: MerlinSettings) -> Iterator[ClaimGroup]:
    """For each VP that asks, or whose last allocation hurt somebody, the next reconfiguration. Of
    very many some in each tick; what was not met stands meanwhile."""
    host, taken = view.host, set[int]()
    askers = [g for g in host.guests.values() if _asks_now(view, state, g, settings)]
    chosen_for = _round_robin(host, askers, view.now_s)
    for guest in askers:
        if guest.uuid not in chosen_for:
            if guest.uuid in state.unmet_since_s:
                yield _unmet(view, state, guest, (guest,))
            continue
        context = DecisionContext(view, settings, frozenset(taken))
        group = _reconfigure(context, state, guest)
        for uuid, cpus in placements_of(group).items():
            taken |= cpus - host.guests[uuid].placement
        yield group
        if group.unmet_since_s is not None:
            yield from _give_back_near(host, guest)


def _round_robin(host: Host, askers: Sequence[Guest], now_s: float) -> frozenset[str]:
    at_once = max(1, EVALUATIONS // max(1, len(host.guests)) ** 2)
    samples = (host.vps[guest.uuid].sample for guest in askers)
    interval_s = max((sample.span_s for sample in samples if sample), default=0.0)
    return frozenset(guest.uuid for guest in round_robin(askers, at_once, now_s, interval_s))


def _asks_now(view: View, state: Demands, guest: Guest, settings: MerlinSettings) -> bool:
    """Once per epoch: it needs more, or what it got last hurt somebody."""
    host, dwell = view.host, view.policy.dwell_samples
    vp, demand = host.vps[guest.uuid], state.met.get(guest.uuid)
    if not guest.takes_help or vp.incomplete is not None or vp.window.samples < dwell:
        return False
    if not host.domains_of[guest.uuid]:  # On a CPU that came online after the topology was read.
        return False
    if demand is not None and view.now_s - demand.acted_at_s < settings.epoch_s:
        return False
    return bool(demand and demand.degraded) or asks_for_cpu(guest, vp, settings)


def _give_back_near(host: Host, asker: Guest) -> Iterator[ClaimGroup]:
    """Nothing is left for the asker: who holds more than it uses in its domains gives one back."""
    near = {d.id for d in home_domains(host, asker)}
    for uuid, guest in host.guests.items():
        if (
            uuid == asker.uuid
            or guest.unmanaged
            or not near & {d.id for d in host.domains_of[uuid]}
        ):
            continue
        if _has_cpu_to_spare(host, guest, host.vps[uuid]):
            yield _give_back(host, guest)
            return


def cpu_sensitivity(vp: VpState, guest: Guest) -> float:
    """Thesis 3.2.1: CPU utilisation over allocated CPU."""
    return vp.sample.cpu_cores / allotted_cores(guest) if vp.sample else 0.0


def memory_sensitivity(guest: Guest) -> float:
    """Thesis 3.2.1: pages in use over pages allocated."""
    resident_kib = sum(kib for _, kib in guest.memory_by_node)
    return min(1.0, resident_kib / guest.memory_kib) if guest.memory_kib else 0.0


def asks_for_cpu(guest: Guest, vp: VpState, settings: MerlinSettings) -> bool:
    """It uses nearly all that it was allotted, and could use more."""
    wants_more = cpu_sensitivity(vp, guest) > settings.demand_sensitivity
    return wants_more and allotted_cores(guest) < guest.vcpus


def _has_cpu_to_spare(host: Host, guest: Guest, vp: VpState) -> bool:
    """More CPUs than it was given at first, and one of them idle."""
    original = host.original_cpus(guest.uuid)
    if not original or len(guest.placement) <= len(original) or vp.sample is None:
        return False
    if original <= guest.placement:
        return vp.sample.cpu_cores < SATISFIED * (len(guest.placement) - 1)
    return False


def watch_repercussions(view: View, state: Demands, settings: MerlinSettings) -> Demands:
    """Whose state got worse within the repercussion interval of an allocation joins its set S.

    A state needs `dwell_samples` to be believed, so the interval is longer by those.
    """
    known = {}
    for uuid, demand in state.met.items():
        age_s = view.now_s - demand.acted_at_s
        if uuid not in view.core.vps or age_s > FORGET_EPOCHS * settings.epoch_s:
            continue
        if age_s <= settings.repercussion_s + view.policy.dwell_samples:
            worse = {
                u for u in demand.corunners if _is_degraded_since(view.core, u, demand.acted_at_s)
            }
            demand = replace(demand, degraded=demand.degraded | worse)
        known[uuid] = demand
    return replace(state, met=known) if state.met else state


def _is_degraded_since(state: CoreState, uuid: str, since_s: float) -> bool:
    vp = state.vps.get(uuid)
    return vp is not None and vp.detection is not None and vp.detection.since_s >= since_s


def note_asked(host: Host, state: Demands, groups: Iterable[ClaimGroup]) -> Demands:
    """Since when a demand has found no rung that could meet it; and who would share a cache with
    what the others ask for."""
    unmet, corunners = {}, {}
    for group in groups:
        if group.unmet_since_s is not None:
            unmet[group.guest_uuid] = group.unmet_since_s
        elif group.on_behalf_of is not None:
            corunners[group.on_behalf_of] = _corunners(host, group)
    if not (unmet or corunners or state.unmet_since_s or state.corunners):
        return state
    return Demands(state.met, unmet, corunners)


def _forgotten_places(view: View, state: Demands, settings: MerlinSettings) -> Iterator[Release]:
    """Once a demand is over, what was moved for it is nobody's: others may find a better place."""
    for key, claim in view.standing(NAME):
        if view.now_s - claim.changed_at_s > FORGET_EPOCHS * settings.epoch_s:
            yield Release(*key)


def _corunners(host: Host, group: ClaimGroup) -> frozenset[str]:
    """Who shares a cache with the moved one, where it was and where it goes."""
    domains = {*group.domain_ids, *(d.id for d in host.domains_of[group.guest_uuid])}
    return frozenset(u for d in domains for u in host.members[d] if u != group.guest_uuid)


def _reconfigure(context: DecisionContext, state: Demands, guest: Guest) -> ClaimGroup:
    """The cheapest option that hurts S least and stays fair; without claims, none is left."""
    host, demand = context.host, state.met.get(guest.uuid, Demand())
    members = [
        host.guests[uuid]
        for uuid in sorted({guest.uuid} | demand.application_set | demand.degraded)
        if uuid in host.guests
    ]
    rejected: list[Alternative] = []
    failed = demand.tried | {demand.last} if demand.degraded else demand.tried
    for options in (
        raised_cap(context, guest),
        local_cpus(context, guest),
        remote_cpus(context, members, guest, demand),
        swaps(context, members),
        moves_with_memory(context, members),
    ):
        fresh = [one for one in options if _name_of(one) not in failed]
        chosen = _least_degrading(context, fresh, members, guest, rejected)
        if chosen is not None:
            candidate, gain = chosen
            is_relaxed = candidate.rung is Rung.RAISE_CAP
            return ClaimGroup(
                controller=NAME,
                guest_uuid=candidate.guest_uuid,
                settings=() if is_relaxed else candidate.settings,
                relaxes=candidate.settings if is_relaxed else (),
                domain_ids=candidate.domain_ids,
                reason=MORE_CPU,
                rung=candidate.rung,
                on_behalf_of=guest.uuid,
                predicted_loss=PredictedLoss(0.0, max(0.0, -gain.worst)),
                rejected=tuple(rejected),
                evidence={
                    **_evidence(host, guest, members),
                    "predicted_gain_ratio": gain.total,
                },
            )
    return _unmet(context.view, state, guest, members, rejected)


def _unmet(
    view: View,
    state: Demands,
    guest: Guest,
    members: Sequence[Guest],
    rejected: Iterable[Alternative] = (),
) -> ClaimGroup:
    return ClaimGroup(
        controller=NAME,
        guest_uuid=guest.uuid,
        settings=(),
        domain_ids=(),
        reason=MORE_CPU,
        predicted_loss=PredictedLoss(0.0, 0.0),
        rejected=tuple(rejected),
        evidence=_evidence(view.host, guest, members),
        unmet_since_s=state.unmet_since_s.get(guest.uuid, view.now_s),
    )


def _evidence(host: Host, guest: Guest, members: Sequence[Guest]) -> dict[str, float]:
    return {
        "cpu_sensitivity": cpu_sensitivity(host.vps[guest.uuid], guest),
        "application_set": float(len(members)),
    }


def _name_of(candidate: Candidate) -> str:
    return _name(candidate.guest_uuid, candidate.rung, candidate.domain_ids)


def _name(guest_uuid: str, rung: Rung | None, domain_ids: Iterable[int]) -> str:
    """What makes two reconfigurations the same one."""
    return f"{rung.value if rung else ''} {guest_uuid} {sorted(domain_ids)}"


def _least_degrading(
    context: DecisionContext,
    options: Iterable[Candidate],
    members: Sequence[Guest],
    asker: Guest,
    rejected: list[Alternative],
) -> tuple[Candidate, Gain] | None:
    best: tuple[float, Candidate, Gain] | None = None
    before = unfairness(context, members, asker, {}, 0.0)
    for candidate in options:
        gain = context.what_if.evaluate(candidate.locations)
        after = unfairness(context, members, asker, gain.losses, 1.0)
        losses = sum(max(0.0, -one) for one in gain.by_guest.values())
        if after >= max(before, context.settings.epsilon):
            rejected.append(rejection(candidate, Rejection.UNFAIR, gain))
        elif -gain.worst > context.policy.most_hurt_ratio and gain.total <= 0:
            rejected.append(rejection(candidate, Rejection.HURTS_OTHERS, gain))
        elif best is None or losses < best[0]:
            if best is not None:
                rejected.append(rejection(best[1], Rejection.NOT_BEST, best[2]))
            best = (losses, candidate, gain)
        else:
            rejected.append(rejection(candidate, Rejection.NOT_BEST, gain))
    return (best[1], best[2]) if best else None


def unfairness(
    context: DecisionContext,
    members: Sequence[Guest],
    asker: Guest,
    losses: Mapping[str, float],
    granted_cpus: float,
) -> float:
    """Equation 1: the largest difference of weighted degradations `w (1 - u)` over all pairs.

    u = sum of beta * s over sum of beta, s = received / needed (in [0, 1]) of CPU, memory and
    memory bandwidth, beta = the sensitivity to each.
    """
    weighted = []
    for guest in members:
        vp = context.host.vps[guest.uuid]
        allotted = allotted_cores(guest)
        needs = allotted
        if guest.uuid == asker.uuid:
            needs = min(guest.vcpus, allotted + 1)
            allotted = min(needs, allotted + granted_cpus)
        profile = context.host.undisturbed.get(guest.uuid)
        is_sensitive = profile is not None and (
            profile.sensitivity.memory or profile.sensitivity.cache
        )
        loss = max(0.0, losses.get(guest.uuid, context.what_if.loss(guest.uuid)))
        shares = (
            (min(1.0, cpu_sensitivity(vp, guest)), allotted / needs),
            (memory_sensitivity(guest), 1.0),
            (1.0 if is_sensitive else 0.2, 1.0 - loss),
        )
        total = sum(beta for beta, _ in shares)
        utility = sum(beta * share for beta, share in shares) / total
        weighted.append(guest.priority * (1 - utility))
    return max(weighted) - min(weighted) if len(weighted) > 1 else max(weighted)


def _give_back(host: Host, guest: Guest) -> ClaimGroup:
    """The CPU it took last, nearest to where it started."""
    original = host.original_cpus(guest.uuid)
    extra = sorted(guest.placement - original, key=lambda cpu: (host.node_of(cpu), cpu))
    cpus = guest.placement - {extra[-1]}
    return ClaimGroup(
        controller=NAME,
        guest_uuid=guest.uuid,
        settings=(Setting(guest.uuid, Knob.PLACEMENT, (cpus,)),),
        domain_ids=tuple(d.id for d in host.topology.domains if d.cpus & cpus),
        reason=LESS_CPU,
        predicted_loss=PredictedLoss(0.0, 0.0),
    )
