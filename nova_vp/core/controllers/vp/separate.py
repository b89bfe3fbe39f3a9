# SPDX-License-Identifier: Apache-2.0
"""Who needs memory to itself, or near, from the first second: nobody's state has to change for it.

The thesis calls the manager also for high memory intensity (2.2), since in its cache a State-8 VP
cannot be seen to be degraded. Where a node is hot its State-8 VPs are spread over the nodes, vCPUs
and memory, wherever they started (2.1.3, 2.3.1). Who lives off the cache is kept from sharing one
with them, if others can: lbm shares it rather than mcf (2.3.1). And a VP that is sensitive to the
latency of its memory gets that local (2.3.4). Among what these rules leave the prediction chooses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.vp.declaration import BRING_HOME, NAME, SEPARATE
from nova_vp.core.model.arrangement import Plan, Rank, Search, best_plan, unranked
from nova_vp.core.model.candidate import (
    may_move_memory,
    needs_local_memory,
    predicted_loss_of,
    unit_of,
    within_allotment,
)
from nova_vp.core.model.holds import failed_for_anybody
from nova_vp.core.model.host import Host
from nova_vp.core.model.location import Location, location_of
from nova_vp.core.types.claim import ClaimGroup
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.reason import Reason, Rung
from nova_vp.core.types.sample import FactorClass, Incomplete

LOOK_S, HURRIED_S = 30.0, 5.0
"""After a look that found nothing to do, until the next one; the same while a VP is degraded at a
memory controller."""
REMOTE_SHARE = 0.25
"""Of a VP's memory, that is on nodes where it has no CPU, from which on it is far."""
STATE_8 = 8

_NEVER_KNOWN = frozenset({Incomplete.UNREADABLE, Incomplete.PARTIAL, Incomplete.IDLE})


def is_due(view: View, looked_at_s: float) -> bool:
    """A degradation at a controller is what State-8 VPs are separated for (2.1.3)."""
    detections = (vp.detection for vp in view.host.vps.values())
    is_hurried = any(one is not None and one.kind is Kind.CONTROLLER for one in detections)
    return view.now_s - looked_at_s >= (HURRIED_S if is_hurried else LOOK_S)


def is_ready(view: View) -> bool:
    """Everybody is known, and what was done lately has proved itself."""
    return not (view.core.pending or view.host.memory_moves) and all(
        not view.host.guests[uuid].is_running
        or vp.incomplete in _NEVER_KNOWN
        or vp.samples_seen >= view.policy.settle_samples
        for uuid, vp in view.host.vps.items()
    )


def isolate_memory(view: View) -> Iterator[ClaimGroup]:
    """At most one group: State-8 VPs of hot nodes apart, else one VP and its memory together."""
    host, separation = view.host, _separation(view)
    least = view.policy.least_gain_ratio
    if separation is not None:
        now = separation.rank({})
        # Who is sensitive, too, comes to its memory in the same plan: nothing is copied twice.
        near = [uuid for uuid in _far(host) if uuid not in separation.heats]
        plan = best_plan(_search(view, (*separation.heaviest, *near), SEPARATE, separation))
        # The rule comes first, whatever copying costs; what harms more than it helps is vetoed.
        if plan is not None and plan.rank < now and plan.gain.total >= least:
            yield _group(host, plan, SEPARATE)
            return
    # The memory factor tells who is more sensitive (2.3.2), where neighbours raise that of others.
    for uuid in sorted(_far(host), key=lambda uuid: (-_memory_factor(host, uuid), uuid)):
        plan = best_plan(_search(view, (uuid,), BRING_HOME))
        if plan is not None and plan.worth >= least:
            yield _group(host, plan, BRING_HOME, uuid)
            return


@dataclass(frozen=True)
class Separation:
    """How far the State-8 VPs of a host are from nodes of their own."""

    host: Host
    locations: Mapping[str, Location]
    """Of all, as they are."""
    heats: Mapping[str, float]
    """By State-8 VP: the misses per second that it makes alone."""
    cache_users: Sequence[str]
    """Who lives off the cache: mcf in state 1, not lbm in state 7."""

    @property
    def heaviest(self) -> tuple[str, ...]:
        return tuple(sorted(self.heats, key=lambda uuid: (-self.heats[uuid], uuid)))

    def rank(self, changed: Mapping[str, Location]) -> Rank:
        """(how unevenly their load is spread, how many VPs that live off the cache share one with
        them, how many are far from their memory)."""
        at = {**self.locations, **changed}
        loads = dict.fromkeys(self.host.topology.nodes, 0.0)
        in_cache: dict[int, float] = {}
        for uuid, heat in self.heats.items():
            for domain in self.host.topology.domains:
                share = at[uuid].domains.get(domain.id, 0.0)
                loads[domain.node] += share * heat
                in_cache[domain.id] = in_cache.get(domain.id, 0.0) + share
        total = sum(loads.values())
        unevenness = sum((load / total) ** 2 for load in loads.values())
        pairs = sum(
            share * in_cache[domain]
            for uuid in self.cache_users
            for domain, share in at[uuid].domains.items()
        )
        far = sum(is_far(self.host, uuid, at[uuid]) for uuid in self.heats)
        return (round(unevenness, 2), round(pairs, 1), far)


def _separation(view: View) -> Separation | None:
    """None where no node is hot, or nobody is in state 8."""
    host = view.host
    hot = [uuid for uuid, profile in host.undisturbed.items() if profile.state.number == STATE_8]
    if not hot or not _is_any_hot(view):  # First: most ticks predict nothing.
        return None
    heats = {uuid: view.what_if.residents[uuid].misses_per_s for uuid in hot}
    cache_users = [
        uuid
        for uuid, profile in host.undisturbed.items()
        if profile.sensitivity.cache and profile.state.factor is FactorClass.LOW
    ]
    is_any = any(heats.values())  # A kept profile need not be of one that ran.
    return Separation(host, view.what_if.locations, heats, cache_users) if is_any else None


def _is_any_hot(view: View) -> bool:
    """By what its memory serves, or by what those who run there would make of it with their memory
    at home: they load its link until then (2.1.3: MC and IC of a node)."""
    host, policy, residents = view.host, view.policy, view.what_if.residents
    for node in view.nodes:
        if node.is_hot:
            return True
        here = {u: host.cpus_by_node(u).get(node.node, 0.0) for u in residents}
        misses = sum(share * residents[uuid].misses_per_s for uuid, share in here.items())
        mpki = sum(share * residents[uuid].mpki for uuid, share in here.items())
        limit = node.limit_misses_per_s
        if mpki > policy.hot_node_mpki if limit is None else misses > limit:
            return True
    return False


def is_far(host: Host, uuid: str, location: Location) -> bool:
    """Whether much of its memory is where it has no CPU, and could be brought to it."""
    nodes = {d.node for d in host.topology.domains if d.id in location.domains}
    remote = sum(share for node, share in location.memory.items() if node not in nodes)
    return remote >= REMOTE_SHARE and may_move_memory(host, host.guests[uuid])


def _far(host: Host) -> Iterator[str]:
    """Of those that are sensitive to its latency."""
    for uuid, guest in host.guests.items():
        if guest.refuses_help or not is_far(host, uuid, location_of(host, uuid)):
            continue
        if needs_local_memory(host, unit_of(host, uuid)):
            yield uuid


def _memory_factor(host: Host, uuid: str) -> float:
    """Of a server that is sensitive only as its VP is, nothing may be known."""
    profile = host.undisturbed.get(uuid)
    return profile.memory_factor if profile else 0.0


def _search(
    view: View, helped: Sequence[str], reason: Reason, separation: Separation | None = None
) -> Search:
    core = view.core
    return Search(
        host=view.host,
        what_if=view.what_if,
        policy=view.policy,
        copy_kib_per_s=core.copy_kib_per_s,
        hot_nodes=frozenset(),
        may_change=lambda setting: view.may_change(setting, NAME, reason.rank),
        has_failed=lambda settings: failed_for_anybody(settings, core, view.now_s),
        rank_of=separation.rank if separation else unranked,
        helped=helped,
    )


def _group(host: Host, plan: Plan, reason: Reason, main: str = "") -> ClaimGroup:
    about = main or max(plan.locations, key=lambda uuid: (plan.gain.by_guest[uuid], uuid))
    domain_set = plan.domain_sets.get(about, host.domains_of[about])
    return ClaimGroup(
        controller=NAME,
        guest_uuid=about,
        settings=within_allotment(host, plan.settings.values()),
        domain_ids=tuple(d.id for d in domain_set),
        reason=reason,
        predicted_loss=predicted_loss_of(plan.locations, plan.gain),
        rung=Rung.MOVE if len(plan.locations) == 1 else Rung.SWAP,
        evidence={"predicted_gain_ratio": plan.gain.total, "guests": float(len(plan.locations))},
    )
