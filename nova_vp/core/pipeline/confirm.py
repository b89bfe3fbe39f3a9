# SPDX-License-Identifier: Apache-2.0
"""What the host answered to a decision's actions, noted in the state."""

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from nova_vp.core.model.budgets import counted
from nova_vp.core.model.limits import PLACES
from nova_vp.core.pipeline.controllers import note
from nova_vp.core.pipeline.ledger import note_applied, owners
from nova_vp.core.pipeline.waiting import cpu_before
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.knob import Cpus, Knob, all_cpus, nodes_of
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import REAPPLY
from nova_vp.core.types.state import BUDGET_S, HISTORY, CoreState, Pending, VpState

A_PART = 0.1
"""Of a guest's memory: less is a rest that could not be moved."""


def confirm(state: CoreState, outcomes: Iterable[Outcome], policy: Policy) -> CoreState:
    """What the host answered to the decision's actions."""
    for outcome in outcomes:
        state = _confirm(state, outcome, policy)
    return state


def _confirm(state: CoreState, outcome: Outcome, policy: Policy) -> CoreState:
    action, at_s = outcome.action, outcome.at_s
    vps = dict(state.vps)
    _note(vps, outcome)
    if action.guest_uuid not in vps:
        return replace(state, vps=vps)
    moved = () if action.reason.is_at_once else action.changes
    for uuid in {c.guest_uuid for c in moved if c.knob in PLACES} & vps.keys():
        vps[uuid] = _moved(vps[uuid], outcome)
    state = note(replace(state, vps=vps), outcome, owners(state, action), policy)
    if outcome.result is not Result.APPLIED:
        return state
    state = note_applied(state, action, at_s)
    if action.reason is REAPPLY:  # It changes nobody's place: it restores what stood.
        return state
    vp = vps[action.guest_uuid]
    vps[action.guest_uuid] = vp._replace(actions_done=vp.actions_done + 1)
    state = replace(state, vps=vps, placed_at_s=at_s)
    if not action.is_tried:
        return state
    before = {uuid: vp.window for uuid, vp in vps.items() if vp.window.samples}
    pending = (*state.pending, Pending(action, at_s, before, cpu_before(vps, policy)))
    if not action.reason.is_counted:
        return replace(state, pending=pending)
    moves = (*(moved_s for moved_s in state.moves_at_s if at_s - moved_s < BUDGET_S), at_s)
    state = replace(state, pending=pending, moves_at_s=moves)
    return counted(state, action.victim_uuid or "", action.changes, at_s)


def _moved(vp: VpState, outcome: Outcome) -> VpState:
    action, at_s = outcome.action, outcome.at_s
    left, left_nodes = vp.left, vp.left_nodes
    takes_away = outcome.result is Result.APPLIED and action.reason.takes_away
    for change in action.changes if takes_away and not action.is_undo else ():
        if change.guest_uuid != vp.guest_uuid:
            continue
        if change.knob is Knob.PLACEMENT:
            gone = all_cpus(cast(Cpus, change.now)) - all_cpus(cast(Cpus, change.to))
            left = (*left, (gone, at_s))[-HISTORY:] if gone else left
        elif change.knob is Knob.MEMORY:
            gone = nodes_of(change.now, at_least=A_PART) - nodes_of(change.to)
            left_nodes = (*left_nodes, (gone, at_s))[-HISTORY:]
    return vp._replace(moved_at_s=at_s, left=left, left_nodes=left_nodes)


def _note(vps: dict[str, VpState], outcome: Outcome) -> None:
    """Write the outcome into the history of all whom it moved and of those it is for."""
    action = outcome.action
    moved = {change.guest_uuid for change in action.changes}
    for uuid in {*moved, action.guest_uuid, action.victim_uuid, action.on_behalf_of}:
        vp = vps.get(uuid) if uuid else None
        if vp is not None:
            kept = tuple(o for o in vp.history if o.action.id != action.id)
            vps[vp.guest_uuid] = vp._replace(history=(*kept, outcome)[-HISTORY:])


def note_outcome(state: CoreState, outcome: Outcome, policy: Policy) -> CoreState:
    """A later verdict on an action (mended, ineffective) replaces its earlier one."""
    state = with_outcome(state, outcome)
    return note(state, outcome, (outcome.action.controller,), policy)


def with_outcome(state: CoreState, outcome: Outcome) -> CoreState:
    """In the history of all whom the action is about."""
    vps = dict(state.vps)
    _note(vps, outcome)
    return replace(state, vps=vps)
