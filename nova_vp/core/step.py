# SPDX-License-Identifier: Apache-2.0
"""One tick's decision, stage by stage: start reading here.

respect foreign changes -> measure -> detect -> revert -> verify -> controllers claim -> arbitrate
-> rate-limit -> plan (as far as the modes permit) -> escalate -> describe. Each stage goes from
values to values in a module of its own; what they hand on travels in the decision, so that log, API
and CLI agree.
Controllers are `policy.controllers`: no stage knows which they are.
`pipeline.confirm` notes what the host answered.
"""

from dataclasses import replace

from nova_vp.core.escalation.escalate import escalate
from nova_vp.core.model.budgets import victims_over_budget
from nova_vp.core.model.host import after, build_host
from nova_vp.core.model.islands import bound_to_islands
from nova_vp.core.pipeline.answers import answers_of
from nova_vp.core.pipeline.arbitrate import arbitrate
from nova_vp.core.pipeline.controllers import SeenHost, end_unclaimed, note_answers, run_controllers
from nova_vp.core.pipeline.copy_rate import copy_rates
from nova_vp.core.pipeline.describe import describe, tabulate
from nova_vp.core.pipeline.foreign import respect_foreign_changes
from nova_vp.core.pipeline.ledger import end_lost, note_applied
from nova_vp.core.pipeline.plan import Plan, lost_places
from nova_vp.core.pipeline.rate_limit import rate_limit
from nova_vp.core.pipeline.reject import reject
from nova_vp.core.pipeline.revert import note_left_alone, revert
from nova_vp.core.pipeline.verify import verify
from nova_vp.core.pipeline.virtual_places import note_virtual_places, with_virtual_places
from nova_vp.core.signals.detect import detect_all
from nova_vp.core.signals.detect_numa import node_views
from nova_vp.core.signals.measure import measure
from nova_vp.core.signals.miss_costs import learn_miss_costs
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState


def step(state: CoreState, picture: Picture, policy: Policy) -> tuple[CoreState, Decision]:
    """What this host looks like, and what should be done about it now."""
    picture, state, foreign = respect_foreign_changes(state, picture)
    picture = bound_to_islands(state, picture, policy)
    state = measure(end_lost(state, picture), picture, policy)
    host = build_host(picture, state.vps, state.undisturbed)
    nodes = node_views(host, picture.limits, policy)
    state, verdicts = detect_all(state, host, nodes, picture, policy)
    state = learn_miss_costs(state, host, nodes, picture.limits, policy)
    host = replace(host, vps=state.vps, undisturbed=state.undisturbed)
    state, reverting = revert(note_left_alone(state, picture, policy), picture, policy)
    state, undoing = verify(state, verdicts, picture, policy)
    state, virtual = with_virtual_places(state, picture)
    real = would_be = SeenHost(host, picture)
    if virtual is not picture:
        would_be = SeenHost(build_host(virtual, state.vps, state.undisturbed), virtual)
    state, view, claimed = run_controllers(state, real, would_be, nodes, policy)
    state = end_unclaimed(state, claimed)
    groups = (*reverting, *undoing, *claimed.groups, *lost_places(picture))
    granted, outranked = arbitrate(groups, state, view)
    allowed, deferred = rate_limit(granted, state, picture.at_s, policy)
    plan = Plan(allowed, state, view.picture, policy)
    state, proposals = reject(state, plan.proposals, picture, policy)
    state = note_virtual_places(state, picture, plan.virtual)
    for action in plan.unchanging:
        state = note_applied(state, action, picture.at_s)
    left = after(host, picture, plan.actions)
    state = tabulate(state, left, view, policy)
    refused = outranked + deferred
    state, escalations = escalate(
        state, view.host, picture.limits, refused, claimed.groups, picture.at_s, policy
    )
    answers = answers_of(claimed, refused, plan.proposals, picture)
    state = note_answers(state, picture.calls, answers, policy)
    decision = describe(state, host, picture, plan.actions, proposals, claimed, view.host)
    return state, replace(
        decision,
        refused=refused,
        foreign=foreign,
        nodes=nodes,
        memory_moves=tuple(picture.memory_moves.values()),
        copy_rate_kib_per_s=copy_rates(host, nodes, policy),
        escalations=escalations,
        over_budget=victims_over_budget(state, picture.at_s, policy),
        renewals=plan.renewals,
        answers=answers,
        next_end_s=claimed.next_end_s,
        islands=claimed.islands,
        overlays=claimed.overlays,
    )
