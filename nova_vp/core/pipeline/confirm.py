# SPDX-License-Identifier: Apache-2.0
"""What the host answered to a decision's actions, noted in the state."""

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.knob import Cpus, Knob, Quota, all_cpus, nodes_of
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.state import BUDGET_S, HISTORY, Cap, Memory, Pending, Tracked

STEADY = frozenset({Reason.RENEW_CAP, Reason.REAPPLY})
"""What changes nobody's place: it keeps or restores what stood."""

A_PART = 0.1
"""Of a guest's memory: less is a rest that could not be moved."""


def confirm(memory: Memory, outcomes: Iterable[Outcome]) -> Memory:
    """What the host answered to the decision's actions."""
    for outcome in outcomes:
        memory = _confirm(memory, outcome)
    return memory


def _confirm(memory: Memory, outcome: Outcome) -> Memory:
    action, at_s = outcome.action, outcome.at_s
    vps = dict(memory.vps)
    _note(vps, outcome)
    if action.guest_uuid not in vps:
        return replace(memory, vps=vps)
    for uuid in {c.guest_uuid for c in action.changes if c.knob is not Knob.CPU_CAP} & vps.keys():
        vps[uuid] = _moved(vps[uuid], outcome)
    memory = replace(memory, vps=vps)
    if outcome.result is not Result.APPLIED:
        return memory
    memory = _capped(memory, outcome)
    if action.reason in STEADY:
        return memory
    vp = vps[action.guest_uuid]
    vps[action.guest_uuid] = vp._replace(actions_done=vp.actions_done + 1)
    memory = replace(memory, vps=vps, placed_at_s=at_s)
    if not action.is_tried:
        return memory
    before = {uuid: vp.pace for uuid, vp in vps.items() if vp.pace.samples}
    moves = (*(moved_s for moved_s in memory.moves_at_s if at_s - moved_s < BUDGET_S), at_s)
    pending = (*memory.pending, Pending(action, at_s, before))
    return replace(memory, pending=pending, moves_at_s=moves)


def _moved(vp: Tracked, outcome: Outcome) -> Tracked:
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


def _capped(memory: Memory, outcome: Outcome) -> Memory:
    caps, lifted = dict(memory.caps), dict(memory.lifted_at_s)
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
                busiest_cores=old.busiest_cores if old else memory.vps[uuid].busiest_cores,
            )
        if to.cores > now.cores:
            lifted[uuid] = outcome.at_s
    return replace(memory, caps=caps, lifted_at_s=lifted)


def _note(vps: dict[str, Tracked], outcome: Outcome) -> None:
    """Write the outcome into the history of all whom it moved and of those it is for."""
    action = outcome.action
    moved = {change.guest_uuid for change in action.changes}
    for uuid in {*moved, action.guest_uuid, action.victim_uuid, action.on_behalf_of}:
        vp = vps.get(uuid) if uuid else None
        if vp is not None:
            kept = tuple(o for o in vp.history if o.action.id != action.id)
            vps[vp.guest_uuid] = vp._replace(history=(*kept, outcome)[-HISTORY:])


def note_outcome(memory: Memory, outcome: Outcome) -> Memory:
    """A later verdict on an action (mended, ineffective) replaces its earlier one."""
    vps = dict(memory.vps)
    _note(vps, outcome)
    return replace(memory, vps=vps)
