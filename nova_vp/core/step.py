# SPDX-License-Identifier: Apache-2.0
"""One tick's decision, stage by stage: start reading here.

measure -> detect -> verify -> controllers want -> arbitrate -> rate-limit -> plan -> permit. Each
stage is a function from values to values in a module of its own; what they hand on travels in the
decision, so that log, API and CLI agree. `pipeline.confirm` notes what the host answered.
"""

from collections.abc import Iterator
from dataclasses import replace

from nova_vp.core.controllers.initial_placement.controller import homing
from nova_vp.core.controllers.merlin.controller import (
    demands,
    note_allocations,
    note_unmet,
    watch_repercussions,
)
from nova_vp.core.controllers.rebalance.controller import is_due, rearrange
from nova_vp.core.controllers.vp.controller import mitigation
from nova_vp.core.escalation.escalate import escalate
from nova_vp.core.model.cpu_cap import keep_caps
from nova_vp.core.model.holds import put_off
from nova_vp.core.model.host import Host, after, see
from nova_vp.core.model.what_if import Outlook
from nova_vp.core.pipeline import verify
from nova_vp.core.pipeline.arbitrate import arbitrate
from nova_vp.core.pipeline.copy_rate import memory_paces
from nova_vp.core.pipeline.describe import describe, tabulate
from nova_vp.core.pipeline.foreign import respect
from nova_vp.core.pipeline.permit import permit
from nova_vp.core.pipeline.plan import lost_settings, plan
from nova_vp.core.pipeline.rate_limit import pace
from nova_vp.core.pipeline.revert import note_left_alone, revoke
from nova_vp.core.signals.detect import detect_all
from nova_vp.core.signals.detect_numa import node_views
from nova_vp.core.signals.measure import measure
from nova_vp.core.types.decision import Decision, NodeView
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Controller, Policy
from nova_vp.core.types.state import Memory
from nova_vp.core.types.want import Want


def step(memory: Memory, picture: Picture, policy: Policy) -> tuple[Memory, Decision]:
    """What this host looks like, and what should be done about it now."""
    picture, memory, foreign = respect(memory, picture)
    memory = measure(memory, picture, policy)
    host = see(picture, memory.vps, memory.undisturbed)
    nodes = node_views(host, picture.limits, policy)
    memory, verdicts = detect_all(memory, host, nodes, picture, policy)
    host = replace(host, vps=memory.vps, undisturbed=memory.undisturbed)
    memory, revoked = revoke(note_left_alone(memory, picture), picture, policy)
    memory, undo = verify.judge(memory, verdicts, picture, policy)
    memory = watch_repercussions(memory, picture.at_s, policy)
    is_look_due = is_due(host, memory, picture.at_s, policy)
    wanted = controllers(host, memory, nodes, picture, policy, is_look_due)
    wants = (*revoked, *undo, *wanted, *lost_settings(picture))
    owned, outranked = arbitrate(wants)
    paced, held = pace(owned, memory, picture.at_s, policy)
    actions, proposals = permit(plan(paced, memory, picture), picture, policy)
    memory = note_unmet(note_allocations(memory, host, actions), wants, picture.at_s)
    if is_look_due:
        memory = put_off(memory, picture.at_s)
    memory = tabulate(memory, after(host, picture, actions), picture.at_s, policy)
    refused = outranked + held
    memory, told = escalate(memory, host, picture.limits, refused, wants, picture.at_s, policy)
    decision = describe(memory, host, picture, actions, proposals)
    return memory, replace(
        decision,
        refused=refused,
        foreign=foreign,
        nodes=nodes,
        memory_moves=tuple(picture.memory_moves.values()),
        memory_pace_kib_per_s=memory_paces(host, nodes, policy),
        escalations=told,
    )


def controllers(
    host: Host,
    memory: Memory,
    nodes: tuple[NodeView, ...],
    picture: Picture,
    policy: Policy,
    is_look_due: bool,
) -> Iterator[Want]:
    """What each controller would like; they do not know of each other."""
    now_s, wanted = picture.at_s, policy.controllers
    is_hurt = any(vp.detection for vp in host.vps.values())
    looks = is_look_due and Controller.REARRANGE in wanted
    if is_hurt or looks or Controller.MERLIN in wanted:
        outlook = Outlook(host, picture.limits, policy)
        if Controller.VP in wanted:
            yield from mitigation(host, outlook, memory, now_s, policy)
        if looks:
            yield from rearrange(host, outlook, memory, nodes, now_s, policy)
        if Controller.MERLIN in wanted:
            yield from demands(host, outlook, memory, now_s, policy)
    yield from keep_caps(host, memory, picture, policy)
    yield from homing(host, picture.mode, policy)
