# SPDX-License-Identifier: Apache-2.0
"""One tick's decision, stage by stage: start reading here.

respect foreign changes -> measure -> detect -> revert -> verify -> controllers want -> arbitrate ->
rate-limit -> plan -> permit -> escalate -> describe. Each stage is a function from values to values
in a module of its own; what they hand on travels in the decision, so that log, API and CLI agree.
`pipeline.confirm` notes what the host answered.
"""

from collections.abc import Iterator
from dataclasses import replace

from nova_vp.core.controllers.initial_placement.controller import initial_placement
from nova_vp.core.controllers.merlin import controller as merlin
from nova_vp.core.controllers.rebalance import controller as rebalance
from nova_vp.core.controllers.vp.controller import mitigate
from nova_vp.core.escalation.escalate import escalate
from nova_vp.core.model.cpu_cap import keep_caps
from nova_vp.core.model.holds import back_off
from nova_vp.core.model.host import Host, after, build_host
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.pipeline.arbitrate import arbitrate
from nova_vp.core.pipeline.copy_rate import copy_rates
from nova_vp.core.pipeline.describe import describe, tabulate
from nova_vp.core.pipeline.foreign import respect_foreign_changes
from nova_vp.core.pipeline.permit import permit
from nova_vp.core.pipeline.plan import lost_settings, plan
from nova_vp.core.pipeline.rate_limit import rate_limit
from nova_vp.core.pipeline.revert import note_left_alone, revert
from nova_vp.core.pipeline.verify import verify
from nova_vp.core.signals.detect import detect_all
from nova_vp.core.signals.detect_numa import node_views
from nova_vp.core.signals.measure import measure
from nova_vp.core.types.decision import Decision, NodeView
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Controller, Policy
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.want import Want


def step(state: CoreState, picture: Picture, policy: Policy) -> tuple[CoreState, Decision]:
    """What this host looks like, and what should be done about it now."""
    picture, state, foreign = respect_foreign_changes(state, picture)
    state = measure(state, picture, policy)
    host = build_host(picture, state.vps, state.undisturbed)
    nodes = node_views(host, picture.limits, policy)
    state, verdicts = detect_all(state, host, nodes, picture, policy)
    host = replace(host, vps=state.vps, undisturbed=state.undisturbed)
    state, reverting = revert(note_left_alone(state, picture), picture, policy)
    state, undoing = verify(state, verdicts, picture, policy)
    state = merlin.watch_repercussions(state, picture.at_s, policy)
    is_rebalance_due = rebalance.is_due(host, state, picture.at_s, policy)
    wanted = wants_of_controllers(host, state, nodes, picture, policy, is_rebalance_due)
    wants = (*reverting, *undoing, *wanted, *lost_settings(picture))
    owned, outranked = arbitrate(wants)
    allowed, deferred = rate_limit(owned, state, picture.at_s, policy)
    actions, proposals = permit(plan(allowed, state, picture), picture, policy)
    state = merlin.note_allocations(state, host, actions)
    state = merlin.note_unmet(state, wants, picture.at_s)
    if is_rebalance_due:
        state = back_off(state, picture.at_s)
    state = tabulate(state, after(host, picture, actions), picture.at_s, policy)
    refused = outranked + deferred
    state, escalations = escalate(state, host, picture.limits, refused, wants, picture.at_s, policy)
    decision = describe(state, host, picture, actions, proposals)
    return state, replace(
        decision,
        refused=refused,
        foreign=foreign,
        nodes=nodes,
        memory_moves=tuple(picture.memory_moves.values()),
        copy_rate_kib_per_s=copy_rates(host, nodes, policy),
        escalations=escalations,
    )


def wants_of_controllers(
    host: Host,
    state: CoreState,
    nodes: tuple[NodeView, ...],
    picture: Picture,
    policy: Policy,
    is_rebalance_due: bool,
) -> Iterator[Want]:
    """What each controller would like; they do not know of each other."""
    now_s, wanted = picture.at_s, policy.controllers
    is_degraded = any(vp.detection for vp in host.vps.values())
    rebalances = is_rebalance_due and Controller.REARRANGE in wanted
    if is_degraded or rebalances or Controller.MERLIN in wanted:
        what_if = WhatIfModel(host, picture.limits, policy)
        if Controller.VP in wanted:
            yield from mitigate(host, what_if, state, now_s, policy)
        if rebalances:
            yield from rebalance.rebalance(host, what_if, state, nodes, now_s, policy)
        if Controller.MERLIN in wanted:
            yield from merlin.demands(host, what_if, state, now_s, policy)
    yield from keep_caps(host, state, picture, policy)
    yield from initial_placement(host, picture.mode, policy)
