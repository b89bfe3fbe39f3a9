# SPDX-License-Identifier: Apache-2.0
"""What the host answered to a decision's actions, noted in the state."""

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.knob import Cpus, Knob, Quota, all_cpus, nodes_of
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.state import BUDGET_S, HISTORY, Cap, CoreState, Pending, VpState

STEADY = frozenset({Reason.RENEW_CAP, Reason.REAPPLY})
"""What changes nobody's place: it keeps or restores what stood."""

A_PART = 0.1
"""Of a guest's memory: less is a rest that could not be moved."""


def confirm(state: CoreState, outcomes: Iterable[Outcome]) -> CoreState:
    """What the host answered to the decision's actions."""
    for outcome in outcomes:
        state = _confirm(state, outcome)
    return state


def _confirm(state: CoreState, outcome: Outcome) -> CoreState:
    action, at_s = outcome.action, outcome.at_s
    vps = dict(state.vps)
    _note(vps, outcome)
    if action.guest_uuid not in vps:
        return replace(state, vps=vps)
    for uuid in {c.guest_uuid for c in action.changes if c.knob is not Knob.CPU_CAP} & vps.keys():
        vps[uuid] = _moved(vps[uuid], outcome)
    state = replace(state, vps=vps)
    if outcome.result is not Result.APPLIED:
        return state
    state = _capped(state, outcome)
    if action.reason in STEADY:
        return state
    vp = vps[action.guest_uuid]
    vps[action.guest_uuid] = vp._replace(actions_done=vp.actions_done + 1)
    state = replace(state, vps=vps, placed_at_s=at_s)
    if not action.is_tried:
        return state
    before = {uuid: vp.window for uuid, vp in vps.items() if vp.window.samples}
    moves = (*(moved_s for moved_s in state.moves_at_s if at_s - moved_s < BUDGET_S), at_s)
    pending = (*state.pending, Pending(action, at_s, before))
    return replace(state, pending=pending, moves_at_s=moves)


def _moved(vp: VpState, outcome: Outcome) -> VpState:
    action, at_s = outcome.action, outcome.at_s
    applied = outcome.result is Result.APPLIED
    left, left_nodes = vp.left, vp.left_nodes
    is_grown = action.reason is Reason.MORE_CPU
    for change in action.changes if applied and (action.is_tried or is_grown) else ():
        if change.guest_uuid != vp.guest_uuid:
            continue
        if change.knob is Knob.PLACEMENT:
            gone = all_cpus(cast(Cpus, change.now))
            gone -= all_cpus(cast(Cpus, change.to)) if is_grown else frozenset()
            left = (*left, (gone, at_s))[-HISTORY:] if gone else left
        elif change.knob is Knob.MEMORY:
            gone = nodes_of(change.now, at_least=A_PART) - nodes_of(change.to)
            left_nodes = (*left_nodes, (gone, at_s))[-HISTORY:]
    is_homed = vp.is_homed or (applied and action.reason is Reason.HOME)
    return vp._replace(moved_at_s=at_s, left=left, left_nodes=left_nodes, is_homed=is_homed)


def _capped(state: CoreState, outcome: Outcome) -> CoreState:
    caps, lifted = dict(state.caps), dict(state.lifted_at_s)
    for change in outcome.action.changes:
        if change.knob is not Knob.CPU_CAP or change.to == change.now:
            continue
        uuid = change.guest_uuid
        to, now = cast(Quota, change.to), cast(Quota, change.now)
        original = cast(Quota, change.original)
        old = caps.pop(uuid, None)
        if not change.is_restoring:
            caps[uuid] = Cap(
                ratio=to.cores / original.cores,
                original=original,
                controller=outcome.action.controller,
                victim_uuid=outcome.action.victim_uuid or (old.victim_uuid if old else ""),
                changed_at_s=outcome.at_s,
                lifted_at_s=lifted.get(uuid) if to.cores < now.cores else None,
                busiest_cores=old.busiest_cores if old else state.vps[uuid].busiest_cores,
            )
        if to.cores > now.cores:
            lifted[uuid] = outcome.at_s
    return replace(state, caps=caps, lifted_at_s=lifted)


def _note(vps: dict[str, VpState], outcome: Outcome) -> None:
    """Write the outcome into the history of all whom it moved and of those it is for."""
    action = outcome.action
    moved = {change.guest_uuid for change in action.changes}
    for uuid in {*moved, action.guest_uuid, action.victim_uuid, action.on_behalf_of}:
        vp = vps.get(uuid) if uuid else None
        if vp is not None:
            kept = tuple(o for o in vp.history if o.action.id != action.id)
            vps[vp.guest_uuid] = vp._replace(history=(*kept, outcome)[-HISTORY:])


def note_outcome(state: CoreState, outcome: Outcome) -> CoreState:
    """A later verdict on an action (mended, ineffective) replaces its earlier one."""
    vps = dict(state.vps)
    _note(vps, outcome)
    return replace(state, vps=vps)
