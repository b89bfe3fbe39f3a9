# SPDX-License-Identifier: Apache-2.0
"""Every VP's detection of this tick: the cache first, then memory, then waiting for CPU."""

from collections.abc import Mapping
from dataclasses import replace

from nova_vp.core.model.host import Host
from nova_vp.core.signals.cpu_users import CpuUsers
from nova_vp.core.signals.detect_cache import Conditions, Verdict, detect_cache
from nova_vp.core.signals.detect_cpu import detect_cpu
from nova_vp.core.signals.detect_numa import LoadedMemory, detect_numa
from nova_vp.core.signals.sample import window_from_onset
from nova_vp.core.types.decision import NodeView
from nova_vp.core.types.detection import WAITING
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState, VpState


def detect_all(
    state: CoreState,
    host: Host,
    nodes: tuple[NodeView, ...],
    picture: Picture,
    policy: Policy,
) -> tuple[CoreState, Mapping[str, Verdict]]:
    vps, undisturbed, verdicts = {}, {}, {}
    on_probe = frozenset(
        uuid
        for uuid, at_s in state.loosened_at_s.items()
        if picture.at_s - at_s <= policy.probation_s
    )
    on_trial = {pending.action.victim_uuid for pending in state.pending}
    loaded = LoadedMemory(host, nodes, picture.limits)
    users = CpuUsers(host, state.host_cpu)
    for uuid, vp in state.vps.items():
        domains = host.domains_of[uuid]
        domain_id = domains[0].id if domains else 0
        before = state.undisturbed.get(uuid) or state.profiles.get(uuid)
        neighbours = host.neighbours[uuid]
        sibling_speed = 1.0
        if host.has_siblings:
            sibling_speed = host.sibling_speed(uuid)
            vp = _beside_siblings(vp, sibling_speed)
        conditions = Conditions(
            host.evicted_ratio(uuid), loaded.ratio(uuid), on_probe, sibling_speed
        )
        # Of waiting neither of these two knows.
        is_cpu = vp.detection is not None and vp.detection.kind in WAITING
        seen = vp._replace(detection=None) if is_cpu else vp
        found = detect_cache(seen, before, neighbours, domain_id, picture.at_s, policy, conditions)
        found = detect_numa(found, seen, before, host, nodes, picture, policy, uuid in on_trial)
        found = detect_cpu(found, vp, before, users, picture.at_s, policy, uuid in on_trial)
        vps[uuid], verdicts[uuid] = window_from_onset(found.vp, vp, picture.at_s), found.verdict
        if found.undisturbed:
            undisturbed[uuid] = found.undisturbed
    return replace(state, vps=vps, undisturbed=undisturbed), verdicts


def _beside_siblings(vp: VpState, sibling_speed: float) -> VpState:
    """With the speed that its siblings left it in its means, since a mean of cycles per instruction
    is of many samples."""
    window = vp.window
    if sibling_speed == window.sibling_speed or not window.samples:
        return vp
    mean = window.sibling_speed + (sibling_speed - window.sibling_speed) / window.samples
    return vp._replace(window=window._replace(sibling_speed=mean))
