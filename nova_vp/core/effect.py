# SPDX-License-Identifier: Apache-2.0
"""Did it help? Each mitigation must prove itself on its victim, or it is undone.

A victim that is well again ends the matter. One that still suffers after `effect_window_s`
acquits the guest that was moved: it goes back, and is not tried again for this victim.
"""

from collections.abc import Mapping
from dataclasses import replace

from nova_vp.core.detect import Verdict
from nova_vp.core.memory import Memory, Pending, note_outcome
from nova_vp.core.model import Outcome, Picture, Policy, Reason, Result, Want

_WELL = frozenset({Verdict.UNDISTURBED, Verdict.RECOVERED})


def judge(
    memory: Memory, verdicts: Mapping[str, Verdict], picture: Picture, policy: Policy
) -> tuple[Memory, tuple[Want, ...]]:
    """Memory with the verdicts on what was applied, and the wants to undo what did not help."""
    still: list[Pending] = []
    undo: list[Want] = []
    now_s = picture.at_s
    for pending in memory.pending:
        verdict = verdicts.get(pending.action.victim_uuid or "")
        if verdict in _WELL:
            memory = note_outcome(memory, Outcome(pending.action, Result.MENDED, now_s))
        elif verdict is Verdict.OWN_DOING or _is_overdue(pending, verdict, now_s, policy):
            memory = _acquit(memory, pending, now_s, policy)
            undo.extend(_undo(pending, picture))
        elif verdict is not None and now_s - pending.since_s <= 2 * policy.effect_window_s:
            still.append(pending)
    return replace(memory, pending=tuple(still)), tuple(undo)


def _is_overdue(pending: Pending, verdict: Verdict | None, now_s: float, policy: Policy) -> bool:
    return verdict is Verdict.HURT and now_s - pending.since_s > policy.effect_window_s


def _acquit(memory: Memory, pending: Pending, now_s: float, policy: Policy) -> Memory:
    action = pending.action
    memory = note_outcome(memory, Outcome(action, Result.INEFFECTIVE, now_s))
    pair = (action.victim_uuid or "", action.guest_uuid)
    alive = {p: until_s for p, until_s in memory.acquitted.items() if until_s > now_s}
    return replace(memory, acquitted={**alive, pair: now_s + policy.reverse_hold_s})


def _undo(pending: Pending, picture: Picture) -> tuple[Want, ...]:
    action = pending.action
    bounds = {guest.uuid: guest.allowed_cpus for guest in picture.guests if not guest.unmanaged}
    if action.guest_uuid not in bounds:
        return ()
    # The bound may have changed meanwhile: a CPU went offline.
    cpus = (action.from_cpus & bounds[action.guest_uuid]) or bounds[action.guest_uuid]
    domains = tuple(d.id for d in picture.topology.domains if d.cpus & cpus)
    return (
        Want(
            controller=action.controller,
            guest_uuid=action.guest_uuid,
            domain_ids=domains,
            cpus=cpus,
            reason=Reason.INEFFECTIVE,
            hurt=action.hurt,
        ),
    )
