# SPDX-License-Identifier: Apache-2.0
"""Every VP learns what a miss costs it, while its memory is near, its controllers are idle and so
are siblings of its cores: what others cause would otherwise count as its own cost."""

from dataclasses import replace

from nova_vp.core.model.host import Host
from nova_vp.core.model.latency import MemoryLatency
from nova_vp.core.model.miss_cost import LEAST_MPKI, learned
from nova_vp.core.types.decision import NodeView
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState, VpState
from nova_vp.core.types.topology import Limits

IDLE_RATIO = 1.05
"""Latency, over that of an idle controller, up to which nobody waits for others."""
ALONE_SPEED = 0.95
"""Of what a core does for one thread alone, from which on its siblings count as idle."""


def learn_miss_costs(
    state: CoreState, host: Host, nodes: tuple[NodeView, ...], limits: Limits, policy: Policy
) -> CoreState:
    learners = [
        vp
        for vp in state.vps.values()
        if vp.incomplete is None and vp.sample is not None and vp.sample.mpki >= LEAST_MPKI
    ]
    if not learners:
        return state
    latency = MemoryLatency(limits, policy)
    idle = {
        view.node
        for view in nodes
        if latency.open_ratio(
            (view.node, view.node), view.misses_per_s if latency.is_calibrated else view.mpki
        )
        <= IDLE_RATIO
    }
    known = {
        vp.guest_uuid: _learned(vp, policy)
        for vp in learners
        if _is_near(host, vp, idle) and host.sibling_speed(vp.guest_uuid) >= ALONE_SPEED
    }
    return replace(state, vps={**state.vps, **known}) if known else state


def _is_near(host: Host, vp: VpState, idle: set[int]) -> bool:
    """All of its memory is served by idle controllers of nodes that it runs on."""
    here = host.cpus_by_node(vp.guest_uuid)
    return all(node in idle and node in here for node in host.memory_of(vp.guest_uuid))


def _learned(vp: VpState, policy: Policy) -> VpState:
    assert vp.sample is not None
    return vp._replace(miss_cost=learned(vp.miss_cost, vp.sample, policy))
