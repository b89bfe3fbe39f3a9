# SPDX-License-Identifier: Apache-2.0
"""Merlin (thesis 3.2): demands for CPU, met by the cheapest reconfiguration that hurts least.

A VP that uses more than 0.8 of the CPU it was allotted asks for more. Once per epoch one
reconfiguration is chosen for it, cheapest rung first; who shows a worse state in the repercussion
interval was hurt by it, joins the application set S, and the choice is made anew for all of S. The
aim is that weighted degradations differ by less than epsilon (equation 1). A CPU that is not used
any more is given back once another VP asks and finds none.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
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
from nova_vp.core.controllers.merlin.fairness import unfairness
from nova_vp.core.controllers.merlin.rungs import (
    DecisionContext,
    home_domains,
    local_cpus,
    moves_with_memory,
    occupied,
    raised_cap,
    remote_cpus,
    swaps,
)
from nova_vp.core.controllers.merlin.shortage import cpu_sensitivity, is_short_of_cpu
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
from nova_vp.core.types.sample import State
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
    sees_virtual_places = True
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
            corunners=state.corunners.get(asker, {}),
            last=_name(action.guest_uuid, action.rung, action.domain_ids),
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
        for uuid, cpus in placements_of(group).items() if group else ():
            taken |= cpus - host.guests[uuid].placement
        if group is None:
            continue
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
    age_s = view.now_s - demand.acted_at_s if demand else math.inf
    if age_s < settings.epoch_s:
        return False
    is_recent = age_s <= FORGET_EPOCHS * settings.epoch_s
    if demand and demand.degraded and (is_recent or _is_any_degraded(host, demand.degraded)):
        return True
    return is_short_of_cpu(guest, vp, settings, view.policy)


def _is_any_degraded(host: Host, uuids: Iterable[str]) -> bool:
    return any(uuid in host.guests and host.vps[uuid].detection for uuid in uuids)


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
        is_over = age_s > FORGET_EPOCHS * settings.epoch_s and uuid not in state.unmet_since_s
        if uuid not in view.core.vps or is_over:
            continue
        if age_s <= settings.repercussion_s + view.policy.dwell_samples:
            worse = {
                u
                for u, before in demand.corunners.items()
                if _is_degraded_since(view.core, u, before, demand.acted_at_s)
            }
            demand = replace(demand, degraded=demand.degraded | worse)
        known[uuid] = demand
    return replace(state, met=known) if state.met else state


def _is_degraded_since(state: CoreState, uuid: str, before: int, since_s: float) -> bool:
    """Detected as degraded, or by a transition of figure 4 to a higher memory factor."""
    vp = state.vps.get(uuid)
    if vp is None:
        return False
    if vp.detection is not None and vp.detection.since_s >= since_s:
        return True
    was, now = State.from_number(before), vp.state
    if now is None or vp.since_s is None or vp.since_s < since_s:
        return False
    return now.factor > was.factor


def note_asked(host: Host, state: Demands, groups: Iterable[ClaimGroup]) -> Demands:
    """Since when a demand has found no rung that could meet it; and who would share a cache with
    what the others ask for."""
    unmet, corunners = {}, {}
    for group in groups:
        if group.unmet_since_s is not None:
            unmet[group.guest_uuid] = group.unmet_since_s
        elif group.on_behalf_of is not None:
            states = {u: host.vps[u].state for u in _corunners(host, group)}
            corunners[group.on_behalf_of] = {u: s.number for u, s in states.items() if s}
    if not (unmet or corunners or state.unmet_since_s or state.corunners):
        return state
    return Demands(state.met, unmet, corunners)


def _forgotten_places(view: View, state: Demands, settings: MerlinSettings) -> Iterator[Release]:
    """Once a demand is over, what was moved for it is nobody's: others may find a better place."""
    for key, claim in view.standing(NAME):
        if view.now_s - claim.changed_at_s > FORGET_EPOCHS * settings.epoch_s:
            yield Release(*key)


def _corunners(host: Host, group: ClaimGroup) -> frozenset[str]:
    """Who shares a cache, a memory controller or a CPU with the moved one, where it was and where
    it goes."""
    moved = group.guest_uuid
    domains = {*group.domain_ids, *(d.id for d in host.domains_of[moved])}
    nodes = {d.node for d in host.topology.domains if d.id in domains}
    nodes |= host.memory_due(moved).keys()
    beside = {u for d in domains for u in host.members[d]}
    beside |= {u for u in host.guests if nodes & host.memory_due(u).keys()}
    return frozenset(beside - {moved})


def _reconfigure(context: DecisionContext, state: Demands, guest: Guest) -> ClaimGroup | None:
    """The cheapest option that hurts S least and stays fair. Without claims, all that could give
    more is spent; None: nothing could, so that there is nothing to ask for."""
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
        remote_cpus(context, members, guest),
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
                    **_evidence(context.view, guest, members),
                    "predicted_gain_ratio": gain.total,
                },
            )
    if allotted_cores(guest) < guest.quota.cores * guest.vcpus:
        rejected += occupied(context, guest)
    is_spent = any(one.rejection is not Rejection.GAINS_TOO_LITTLE for one in rejected)
    if not is_spent and not failed - {""}:
        return None
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
        evidence=_evidence(view, guest, members),
        unmet_since_s=state.unmet_since_s.get(guest.uuid, view.now_s),
    )


def _evidence(view: View, guest: Guest, members: Sequence[Guest]) -> dict[str, float]:
    return {
        "cpu_sensitivity": cpu_sensitivity(view.host.vps[guest.uuid], guest, view.policy),
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
    before = unfairness(context, members, asker, {}, {}, 0.0)
    for candidate in options:
        gain = context.what_if.evaluate(candidate.locations)
        after = unfairness(context, members, asker, candidate.locations, gain.losses, 1.0)
        losses = sum(max(0.0, -one) for one in gain.by_guest.values())
        most = max(gain.by_guest.get(guest.uuid, 0.0) for guest in members)
        price = context.policy.memory_move_price_ratio if candidate.moves_memory else 0.0
        if most < context.policy.least_gain_ratio or sum(gain.by_guest.values()) < price:
            rejected.append(rejection(candidate, Rejection.GAINS_TOO_LITTLE, gain))
        elif after >= max(before, context.settings.epsilon):
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
