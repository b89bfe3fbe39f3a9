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
from nova_vp.core.model.what_if import Gain, WhatIfModel
from nova_vp.core.types.action import Action
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.state import CoreState, Demand, VpState
from nova_vp.core.types.want import Alternative, PredictedLoss, Setting, Want, placements_of

MERLIN = "merlin"

SATISFIED = 0.5
"""Share of its allotment, with one CPU less, below which a VP gives one back."""

EVALUATIONS = 80_000
"""Guests squared times askers that one tick may choose for: some tenths of a second."""

FORGET_EPOCHS = 3
"""A demand that was met and hurt nobody for so long is over."""


def demands(
    host: Host, what_if: WhatIfModel, state: CoreState, now_s: float, policy: Policy
) -> Iterator[Want]:
    """For each VP that asks, or whose last allocation hurt somebody, the next reconfiguration. Of
    very many some in each tick; what was not met stands meanwhile."""
    taken: set[int] = set()
    askers = [g for g in host.guests.values() if _asks_now(host, state, g, now_s, policy)]
    chosen_for = _round_robin(host, askers, now_s)
    for guest in askers:
        if guest.uuid not in chosen_for:
            if guest.uuid in state.unmet_since_s:
                yield _unmet(host, guest, (guest,))
            continue
        context = DecisionContext(host, what_if, policy, state.caps, frozenset(taken), now_s)
        want = _reconfigure(context, guest, state.demands.get(guest.uuid, Demand()))
        for uuid, cpus in placements_of(want).items():
            taken |= cpus - host.guests[uuid].placement
        yield want
        if not want.settings:
            yield from _give_back_near(host, guest)


def _round_robin(host: Host, askers: Sequence[Guest], now_s: float) -> frozenset[str]:
    at_once = max(1, EVALUATIONS // max(1, len(host.guests)) ** 2)
    samples = (host.vps[guest.uuid].sample for guest in askers)
    interval_s = max((sample.span_s for sample in samples if sample), default=0.0)
    return frozenset(guest.uuid for guest in round_robin(askers, at_once, now_s, interval_s))


def _asks_now(host: Host, state: CoreState, guest: Guest, now_s: float, policy: Policy) -> bool:
    """Once per epoch: it needs more, or what it got last hurt somebody."""
    vp, demand = host.vps[guest.uuid], state.demands.get(guest.uuid)
    if guest.unmanaged or vp.incomplete is not None or vp.window.samples < policy.dwell_samples:
        return False
    if not host.domains_of[guest.uuid]:  # On a CPU that came online after the topology was read.
        return False
    if demand is not None and now_s - demand.acted_at_s < policy.epoch_s:
        return False
    return bool(demand and demand.degraded) or asks_for_cpu(guest, vp, policy)


def _give_back_near(host: Host, asker: Guest) -> Iterator[Want]:
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


def asks_for_cpu(guest: Guest, vp: VpState, policy: Policy) -> bool:
    """It uses nearly all that it was allotted, and could use more."""
    wants_more = cpu_sensitivity(vp, guest) > policy.demand_sensitivity
    return wants_more and allotted_cores(guest) < guest.vcpus


def _has_cpu_to_spare(host: Host, guest: Guest, vp: VpState) -> bool:
    """More CPUs than it was given at first, and one of them idle."""
    original = host.original_cpus(guest.uuid)
    if not original or len(guest.placement) <= len(original) or vp.sample is None:
        return False
    if original <= guest.placement:
        return vp.sample.cpu_cores < SATISFIED * (len(guest.placement) - 1)
    return False


def watch_repercussions(state: CoreState, now_s: float, policy: Policy) -> CoreState:
    """Whose state got worse within the repercussion interval of an allocation joins its set S.

    A state needs `dwell_samples` to be believed, so the interval is longer by those.
    """
    known = {}
    for uuid, demand in state.demands.items():
        age_s = now_s - demand.acted_at_s
        if uuid not in state.vps or age_s > FORGET_EPOCHS * policy.epoch_s:
            continue
        if age_s <= policy.repercussion_s + policy.dwell_samples:
            worse = {u for u in demand.corunners if _is_degraded_since(state, u, demand.acted_at_s)}
            demand = replace(demand, degraded=demand.degraded | worse)
        known[uuid] = demand
    return replace(state, demands=known) if state.demands else state


def _is_degraded_since(state: CoreState, uuid: str, since_s: float) -> bool:
    vp = state.vps.get(uuid)
    return vp is not None and vp.detection is not None and vp.detection.since_s >= since_s


def note_allocations(state: CoreState, host: Host, actions: Iterable[Action]) -> CoreState:
    """What is allotted now: its repercussions are watched from here on."""
    known = dict(state.demands)
    for action in actions:
        if action.reason is not Reason.MORE_CPU:
            continue
        asker = action.on_behalf_of or action.guest_uuid
        old = known.get(asker, Demand())
        last = old if old.degraded else Demand()  # What hurt nobody is settled.
        known[asker] = Demand(
            acted_at_s=action.decided_s,
            application_set=last.application_set | last.degraded,
            corunners=_corunners(host, action),
            last=_name(action.guest_uuid, action.rung, action.domain_ids),
            granted=action.cpus - action.from_cpus,
            tried=last.tried | {last.last},
        )
    return replace(state, demands=known) if known != state.demands else state


def note_unmet(state: CoreState, wants: Iterable[Want], now_s: float) -> CoreState:
    """Since when a demand has found no rung that could meet it."""
    unmet = {
        want.guest_uuid: state.unmet_since_s.get(want.guest_uuid, now_s)
        for want in wants
        if want.reason is Reason.MORE_CPU and not want.settings
    }
    return replace(state, unmet_since_s=unmet) if unmet or state.unmet_since_s else state


def _corunners(host: Host, action: Action) -> frozenset[str]:
    """Who shares a cache with the moved one, where it was and where it goes."""
    domains = {*action.domain_ids, *(d.id for d in host.domains_of[action.guest_uuid])}
    return frozenset(u for d in domains for u in host.members[d] if u != action.guest_uuid)


def _reconfigure(context: DecisionContext, guest: Guest, demand: Demand) -> Want:
    """The cheapest option that hurts S least and stays fair; without settings, none is left."""
    host = context.host
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
            return Want(
                controller=MERLIN,
                guest_uuid=candidate.guest_uuid,
                settings=candidate.settings,
                domain_ids=candidate.domain_ids,
                reason=Reason.MORE_CPU,
                rung=candidate.rung,
                on_behalf_of=guest.uuid,
                predicted_loss=PredictedLoss(0.0, max(0.0, -gain.worst)),
                rejected=tuple(rejected),
                evidence={
                    **_evidence(host, guest, members),
                    "predicted_gain_ratio": gain.total,
                },
            )
    return _unmet(host, guest, members, rejected)


def _unmet(
    host: Host, guest: Guest, members: Sequence[Guest], rejected: Iterable[Alternative] = ()
) -> Want:
    return Want(
        controller=MERLIN,
        guest_uuid=guest.uuid,
        settings=(),
        domain_ids=(),
        reason=Reason.MORE_CPU,
        predicted_loss=PredictedLoss(0.0, 0.0),
        rejected=tuple(rejected),
        evidence=_evidence(host, guest, members),
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
        if after >= max(before, context.policy.epsilon):
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


def _give_back(host: Host, guest: Guest) -> Want:
    """The CPU it took last, nearest to where it started."""
    original = host.original_cpus(guest.uuid)
    extra = sorted(guest.placement - original, key=lambda cpu: (host.node_of(cpu), cpu))
    cpus = guest.placement - {extra[-1]}
    return Want(
        controller=MERLIN,
        guest_uuid=guest.uuid,
        settings=(Setting(guest.uuid, Knob.PLACEMENT, (cpus,)),),
        domain_ids=tuple(d.id for d in host.topology.domains if d.cpus & cpus),
        reason=Reason.LESS_CPU,
        predicted_loss=PredictedLoss(0.0, 0.0),
    )
