# SPDX-License-Identifier: Apache-2.0
"""Interference beyond the cache: memory controllers, links, and memory that is far away.

The memory factor does not show it (thesis 2.1.3): cycles per instruction rise while memory factor
and L2 misses hold. CPI is only the complementary signal, so a VP counts as hurt here only if it is
sensitive at that point and the point itself is measured to be loaded, or its memory is remote.
"""

import math
from collections.abc import Callable, Mapping

from nova_vp.core.model.host import Host
from nova_vp.core.model.latency import LIMIT_LOAD, queueing_ratio
from nova_vp.core.model.same_work import l2_holds
from nova_vp.core.signals.detect_cache import Found, Verdict
from nova_vp.core.types.decision import NodeView
from nova_vp.core.types.detection import Detection, Kind, Suspect
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Profile
from nova_vp.core.types.state import VpState
from nova_vp.core.types.topology import Limits

STEADY_SAMPLES = 10
"""Of so many the mean of cycles per instruction is steady. That of fewer must show more: counters
of one second are off by several percent, and after each change of places means begin anew."""
REMOTE_SHARE = 0.25
"""Share of a VP's memory on other nodes from which on it is called remote."""


def node_views(host: Host, limits: Limits, policy: Policy) -> tuple[NodeView, ...]:
    """Every node's load by the VPs whose memory lies there, wherever they run."""
    misses = dict.fromkeys(host.topology.nodes, 0.0)
    mpki = misses.copy()
    for uuid, vp in host.vps.items():
        sample = vp.sample
        if sample is None or vp.incomplete is not None:
            continue
        for node, share in host.memory_of(uuid).items():
            misses[node] = misses.get(node, 0.0) + share * sample.misses_per_s
            mpki[node] = mpki.get(node, 0.0) + share * sample.mpki
    limit = hot_limit(limits)
    return tuple(
        NodeView(
            node=node,
            misses_per_s=misses[node],
            mpki=mpki[node],
            limit_misses_per_s=limit,
            is_hot=_is_over(misses[node], mpki[node], limit, policy),
        )
        for node in sorted(misses)
    )


def hot_limit(limits: Limits) -> float | None:
    """Misses per second from which a controller may be busy. Nobody counts the lines that guests
    write back, and writers fill a controller with fewer misses than readers: where both were
    measured, the lower limit warns."""
    readers = limits.node_misses_per_s
    if readers is None:
        return None
    writers = (
        LIMIT_LOAD * max(point.lines_per_s for point in curve.points) / (1 + curve.writeback_ratio)
        for curve in limits.curves
        if curve.cpu_node == curve.memory_node and curve.points
    )
    return min([readers, *writers])


def _is_over(
    misses_per_s: float,
    mpki: float,
    limit_misses_per_s: float | None,
    policy: Policy,
    share: float = 1.0,
) -> bool:
    """Whether a node carries more than this share of its limit: the thesis's own, by misses per
    1000 instructions, where nobody measured one."""
    if policy.hot_node_by_mpki or limit_misses_per_s is None:
        return mpki > share * policy.hot_node_mpki
    return misses_per_s > share * limit_misses_per_s


def links(host: Host) -> Mapping[tuple[int, int], float]:
    """LLC misses per second from one node's CPUs to another node's memory."""
    traffic: dict[tuple[int, int], float] = {}
    for uuid, vp in host.vps.items():
        if vp.sample is None or vp.incomplete is not None:
            continue
        for node, share in host.memory_of(uuid).items():
            for domain in host.domains_of[uuid]:
                if domain.node != node:
                    link = (domain.node, node)
                    part = share * host.share(uuid, domain)
                    traffic[link] = traffic.get(link, 0.0) + part * vp.sample.misses_per_s
    return traffic


def is_slowed(vp: VpState, before: Profile, policy: Policy) -> bool:
    """Cycles per instruction up, while memory factor and L2 misses hold."""
    window = vp.window
    if window.samples < policy.dwell_samples:
        return False
    rise = policy.cpi_rise_ratio
    if vp.detection is None:  # The mean of a few samples is off by more than that of many.
        rise *= math.sqrt(max(STEADY_SAMPLES / window.samples, 1.0))
    return _is_slower(vp, before, window.cpi, window.l2_mpki, rise, window.sibling_speed, policy)


def _is_slow_now(vp: VpState, before: Profile, host: Host, policy: Policy) -> bool:
    sample, rise = vp.sample, policy.cpi_rise_ratio
    speed = host.sibling_speed(vp.guest_uuid)
    return sample is not None and _is_slower(
        vp, before, sample.cpi, sample.l2_mpki, rise, speed, policy
    )


def _is_slower(
    vp: VpState,
    before: Profile,
    cpi: float,
    l2_mpki: float,
    rise: float,
    sibling_speed: float,
    policy: Policy,
) -> bool:
    """By more than siblings that are busier than before explain."""
    if vp.state is None or vp.state.factor > before.state.factor:
        return False
    siblings = max(before.sibling_speed / sibling_speed, 1.0)
    is_slower = cpi > before.cpi * siblings * (1 + rise)
    return is_slower and l2_holds(before.l2_mpki, l2_mpki, policy)


def _loaded_point(
    vp: VpState, host: Host, nodes: tuple[NodeView, ...], picture: Picture, policy: Policy
) -> tuple[Kind, tuple[Suspect, ...]] | None:
    """A hot controller, else a hot link, else distance, that this VP's misses go through. Who was
    found to be hurt there is hurt until the load is well below the limit."""
    memory = host.memory_of(vp.guest_uuid)
    known = vp.detection.kind if vp.detection else None
    share = 1 - policy.hysteresis_ratio if known is Kind.CONTROLLER else 1.0
    hot = [
        view.node
        for view in nodes
        if memory.get(view.node, 0.0) > 0
        and _is_over(view.misses_per_s, view.mpki, view.limit_misses_per_s, policy, share)
    ]
    if hot:
        return Kind.CONTROLLER, _users(host, vp, max(hot, key=lambda one: memory[one]))
    share = 1 - policy.hysteresis_ratio if known is Kind.LINK else 1.0
    crossed = _hot_links(host, vp.guest_uuid, picture.limits, share)
    if crossed:
        return Kind.LINK, _crossers(host, vp, crossed)
    if _remote_share(host, vp.guest_uuid) >= REMOTE_SHARE:
        return Kind.REMOTE, ()
    return None


def _detection(
    vp: VpState,
    before: Profile,
    host: Host,
    picture: Picture,
    kind: Kind,
    suspects: tuple[Suspect, ...],
) -> Detection:
    assert vp.sample is not None
    assert vp.state is not None
    known = vp.detection if vp.detection and vp.detection.kind is kind else None
    domains = host.domains_of[vp.guest_uuid]
    return Detection(
        victim_uuid=vp.guest_uuid,
        kind=kind,
        domain_id=domains[0].id if domains else 0,
        since_s=known.since_s if known else picture.at_s,
        before=before,
        now=vp.sample._replace(cpi=vp.window.cpi),
        state_now=vp.state,
        suspects=suspects,
    )


def _users(host: Host, victim: VpState, node: int) -> tuple[Suspect, ...]:
    """Who else loads this node's controller, the heaviest first."""
    return _ranked(host, victim, lambda uuid: host.memory_of(uuid).get(node, 0.0))


def _crossers(host: Host, victim: VpState, crossed: set[tuple[int, int]]) -> tuple[Suspect, ...]:
    return _ranked(host, victim, lambda uuid: _share_of_links(host, uuid, crossed))


def _ranked(host: Host, victim: VpState, share_of: Callable[[str], float]) -> tuple[Suspect, ...]:
    own_vp = host.guests[victim.guest_uuid].vp_id
    loads = {
        uuid: share_of(uuid) * vp.sample.misses_per_s
        for uuid, vp in host.vps.items()
        if vp.sample is not None and host.guests[uuid].vp_id != own_vp
    }
    least = 0.1 * sum(loads.values())
    found = [
        Suspect(uuid, pressure_per_s=load, rise_per_s=load)
        for uuid, load in loads.items()
        if load > 0 and load >= least
    ]
    return tuple(sorted(found, key=lambda one: (-one.pressure_per_s, one.guest_uuid)))


def _share_of_links(host: Host, uuid: str, crossed: set[tuple[int, int]]) -> float:
    return sum(
        share * host.share(uuid, domain)
        for node, share in host.memory_of(uuid).items()
        for domain in host.domains_of[uuid]
        if (domain.node, node) in crossed
    )


def _hot_links(host: Host, uuid: str, limits: Limits, share: float) -> set[tuple[int, int]]:
    limit = limits.link_misses_per_s
    if limit is None:
        return set()
    hot = {link for link, load in links(host).items() if load > share * limit}
    return {link for link in hot if _share_of_links(host, uuid, {link}) > 0}


def _remote_share(host: Host, uuid: str) -> float:
    here = {domain.node for domain in host.domains_of[uuid]}
    return sum(share for node, share in host.memory_of(uuid).items() if node not in here)


def detect_numa(
    found: Found,
    vp: VpState,
    before: Profile | None,
    host: Host,
    nodes: tuple[NodeView, ...],
    picture: Picture,
    policy: Policy,
    is_on_trial: bool = False,
) -> Found:
    """What the cache test left: hurt at a controller, a link or by distance, or truly well.

    `before` stays as it was while the VP is slow at a loaded point: what it is when nobody hurts it
    must not become what it is now. With a mitigation on trial, a point that is not loaded any more
    proves nothing: until the VP is seen to be as fast as before, its detection stays open.
    """
    if found.verdict not in (Verdict.UNDISTURBED, Verdict.RECOVERED, Verdict.OWN_DOING):
        return found
    if before is None or not before.sensitivity.memory:
        return found
    slow = is_slowed(vp, before, policy)
    point = None
    if slow or _is_slow_now(vp, before, host, policy):
        point = _loaded_point(vp, host, nodes, picture, policy)
    if point is None or not slow:
        return _not_degraded(found, vp, before, policy, point is not None, is_on_trial)
    samples = vp.slowed_samples + 1
    slowed = found.vp._replace(slowed_samples=samples)
    if samples < policy.dwell_samples and vp.detection is None:
        return Found(slowed, before, Verdict.UNKNOWN)
    detection = _detection(vp, before, host, picture, *point)
    return Found(slowed._replace(detection=detection), before, Verdict.DEGRADED)


def _not_degraded(
    found: Found,
    vp: VpState,
    before: Profile,
    policy: Policy,
    is_slow_at_loaded_point: bool,
    is_on_trial: bool,
) -> Found:
    well = found.vp._replace(slowed_samples=0) if found.vp.slowed_samples else found.vp
    proven = vp.window.samples >= policy.settle_samples and not is_slowed(vp, before, policy)
    if is_on_trial and vp.detection and vp.detection.kind is not Kind.CACHE and not proven:
        return Found(well._replace(detection=vp.detection), before, Verdict.UNKNOWN)
    if is_slow_at_loaded_point:
        return Found(well, before, found.verdict)
    return found if well is found.vp else found._replace(vp=well)


class LoadedMemory:
    """How far away guests' memory is as it is loaded now. Asked for all of them in a tick."""

    def __init__(self, host: Host, nodes: tuple[NodeView, ...], limits: Limits) -> None:
        self._host = host
        self._limit = limits.node_misses_per_s
        self._distance = limits.remote_penalty_ratio - 1
        self._queues = {view.node: queueing_ratio(view.misses_per_s, self._limit) for view in nodes}
        self._by_place: dict[tuple[object, object], float] = {}
        """Most guests live as others do."""

    def ratio(self, uuid: str) -> float:
        """Latency of a guest's memory, over local memory that serves it alone."""
        guest, sample = self._host.guests[uuid], self._host.vps[uuid].sample
        if sample is None or not (self._limit or guest.memory_by_node):
            return 1.0
        place = (guest.placement, guest.memory_by_node)
        ratio = self._by_place.get(place)
        if ratio is None:
            ratio = self._by_place[place] = self._shared_by_all(uuid)
        return ratio / queueing_ratio(sample.misses_per_s, self._limit) if ratio else 1.0

    def _shared_by_all(self, uuid: str) -> float:
        """Over idle local memory; 0: nobody knows where it is."""
        ratio = 0.0
        local = self._host.cpus_by_node(uuid)
        for node, share in self._host.memory_of(uuid).items():
            far = (1 - local.get(node, 0.0)) * self._distance
            ratio += share * (self._queues.get(node, 1.0) + far)
        return ratio
