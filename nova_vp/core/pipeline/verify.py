# SPDX-License-Identifier: Apache-2.0
"""Did it help? Each action must prove itself by what is measured afterwards, or it is undone.

A victim that is well again ends the matter. Otherwise cycles per instruction of all whose work did
not change are compared with those before, and how long they wait for CPU: less on the whole is a
success, unless somebody was made to wait (`waiting`). Memory that a rule brought goes back only if
less was lost before. Only what holds is judged, not what another claim has overtaken. What fails
goes back, acquits the guest that was moved or those that were capped, and is not tried again for
this victim.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from nova_vp.core.model.budgets import judged
from nova_vp.core.model.holds import signature, unexpired
from nova_vp.core.model.same_work import is_same_work
from nova_vp.core.pipeline.confirm import note_outcome
from nova_vp.core.pipeline.ledger import is_overtaken, rolled_back
from nova_vp.core.pipeline.waiting import waiting_gain, with_waiting
from nova_vp.core.signals.detect_cache import Verdict
from nova_vp.core.types.action import Action, Change, Outcome, Result
from nova_vp.core.types.claim import ClaimGroup, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Cpus, Knob, Value, all_cpus
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import INEFFECTIVE, Reason
from nova_vp.core.types.state import CoreState, Pending, PerfWindow

_WELL = frozenset({Verdict.UNDISTURBED, Verdict.RECOVERED})


def verify(
    state: CoreState, verdicts: Mapping[str, Verdict], picture: Picture, policy: Policy
) -> tuple[CoreState, tuple[ClaimGroup, ...]]:
    """The state with the verdicts on what was applied, and the groups to undo what did not help."""
    if not state.pending:
        return state, ()
    still: list[Pending] = []
    undo: list[ClaimGroup] = []
    for one in state.pending:
        pending = _while_copying(one, picture)
        result = _result(state, pending, verdicts, picture, policy)
        result = with_waiting(result, state, pending, picture, policy)
        if result is Result.APPLIED:
            still.append(pending)
        elif result is Result.MENDED:
            state = _settled(state, pending, Result.MENDED, picture.at_s, policy)
        elif result is Result.INEFFECTIVE:
            state = _failed(state, pending, picture.at_s, policy)
            undo.extend(_undo(pending, picture))
        else:
            state = _settled(state, pending, Result.UNJUDGED, picture.at_s, policy)
    return replace(state, pending=tuple(still)), tuple(undo)


def _while_copying(pending: Pending, picture: Picture) -> Pending:
    """Copying disturbs what is to be judged: the trial begins when it has ended."""
    if any(change.guest_uuid in picture.memory_moves for change in pending.action.changes):
        return replace(pending, copied_at_s=picture.at_s)
    return pending


def _result(
    state: CoreState,
    pending: Pending,
    verdicts: Mapping[str, Verdict],
    picture: Picture,
    policy: Policy,
) -> Result | None:
    """APPLIED while it is still to be judged; None if it cannot be."""
    action = pending.action
    age_s = picture.at_s - pending.judged_from_s
    victim = action.victim_uuid
    if (victim is not None and victim not in verdicts) or is_overtaken(state, action):
        return None
    verdict = verdicts.get(victim) if victim else None
    if verdict in _WELL:
        return Result.MENDED
    if pending.copied_at_s == picture.at_s:
        return Result.APPLIED
    if verdict is Verdict.OWN_DOING:
        return Result.INEFFECTIVE
    if age_s <= policy.effect_window_s:
        return Result.APPLIED
    is_hurt = victim is not None and verdict is Verdict.DEGRADED
    measured = (_on_victim if is_hurt else _measured_gain)(state, pending, policy)
    if measured is None and age_s <= 2 * policy.effect_window_s:
        return Result.APPLIED
    return Result.INEFFECTIVE if measured is None and is_hurt else measured


def _on_victim(state: CoreState, pending: Pending, policy: Policy) -> Result | None:
    """A cap may need several steps: each must show on the victim. A move must mend it."""
    if not pending.action.reason.is_stepwise:
        return Result.INEFFECTIVE
    victim = cast(str, pending.action.victim_uuid)
    before = pending.before.get(victim)
    gain = _gain(before, state.vps[victim].window, policy) if before else None
    if gain is None:
        return None
    gain += waiting_gain(state, pending, victim)
    return Result.MENDED if gain > policy.noise_ratio else Result.INEFFECTIVE


def _measured_gain(state: CoreState, pending: Pending, policy: Policy) -> Result | None:
    """By all guests whose work stayed the same: on the whole a gain, as the plan was made by. What
    brought memory and CPUs of some together is judged by those: the noise of all hides what few
    gain."""
    action = pending.action
    victim = action.victim_uuid
    judged_by = {c.guest_uuid for c in action.changes} if action.reason.is_for_moved else None
    settled = policy.settle_samples
    gains = [
        gain + waiting_gain(state, pending, uuid)
        for uuid, before in pending.before.items()
        if uuid in state.vps
        and (judged_by is None or uuid in judged_by)
        # A victim is helped at once: there may be one sample of its hurt.
        and before.samples >= (1 if uuid == victim else settled)
        and (gain := _gain(before, state.vps[uuid].window, policy)) is not None
    ]
    if not gains:
        return None
    return Result.INEFFECTIVE if sum(gains) < _least_gain(action, policy) else Result.MENDED


def _least_gain(action: Action, policy: Policy) -> float:
    """Sending memory back costs as much as it cost to bring it. Where a rule asked for that, it
    must have done harm."""
    is_copied = any(change.knob is Knob.MEMORY for change in action.changes)
    return -policy.noise_ratio if action.reason.is_rule and is_copied else policy.noise_ratio


def _gain(before: PerfWindow, now: PerfWindow, policy: Policy) -> float | None:
    """Performance won, as the logarithm of its ratio; None where too little was seen since or the
    VP does other work."""
    if now.samples < policy.settle_samples:
        return None
    if not is_same_work(before.l2_mpki, now.l2_mpki, policy):
        return None
    return math.log(before.cpi / now.cpi)


def _settled(
    state: CoreState, pending: Pending, result: Result, now_s: float, policy: Policy
) -> CoreState:
    outcome = Outcome(pending.action, result, pending.since_s, settled_s=now_s)
    state = judged(state, pending.action, result, now_s, policy)
    return note_outcome(state, outcome, policy)


def _failed(state: CoreState, pending: Pending, now_s: float, policy: Policy) -> CoreState:
    state = _settled(state, pending, Result.INEFFECTIVE, now_s, policy)
    return not_again(rolled_back(state, pending.action), pending.action, now_s, policy)


def not_again(state: CoreState, action: Action, now_s: float, policy: Policy) -> CoreState:
    """The controllers look for something else to help that victim, for the hold time."""
    until_s = now_s + policy.reverse_hold_s
    done = (action.victim_uuid or "", signature(action.changes))
    failed_actions = {**unexpired(state.failed_actions, now_s), done: until_s}
    state = replace(state, failed_actions=failed_actions)
    if action.victim_uuid is None:
        return state
    capped = {change.guest_uuid for change in action.changes if change.knob is Knob.CPU_CAP}
    failed = {(action.victim_uuid, uuid) for uuid in capped | {action.guest_uuid}}
    cleared_suspects = {
        **unexpired(state.cleared_suspects, now_s),
        **dict.fromkeys(failed, until_s),
    }
    return replace(state, cleared_suspects=cleared_suspects)


def _undo(pending: Pending, picture: Picture) -> tuple[ClaimGroup, ...]:
    action = pending.action
    guests = {guest.uuid: guest for guest in picture.guests if not guest.unmanaged}
    settings = tuple(
        Setting(change.guest_uuid, change.knob, value_before(change, guests[change.guest_uuid]))
        for change in action.changes
        if change.guest_uuid in guests
    )
    if action.guest_uuid not in guests or not settings:
        return ()
    return (undoing(action, guests[action.guest_uuid], settings, INEFFECTIVE, picture),)


def undoing(
    action: Action,
    guest: Guest,
    settings: tuple[Setting, ...],
    reason: Reason,
    picture: Picture,
) -> ClaimGroup:
    """`guest`: whom it is mainly about."""
    main = next(
        (s for s in settings if s.guest_uuid == guest.uuid and s.knob is Knob.PLACEMENT),
        None,
    )
    cpus = all_cpus(cast(Cpus, main.value)) if main else guest.placement
    return ClaimGroup(
        controller=action.controller,
        guest_uuid=guest.uuid,
        settings=settings,
        domain_ids=tuple(d.id for d in picture.topology.domains if d.cpus & cpus),
        reason=reason,
        predicted_loss=action.predicted_loss,
    )


def value_before(change: Change, guest: Guest) -> Value:
    """What stood there before the action. The bound may have changed meanwhile: a CPU is gone."""
    if change.knob is not Knob.PLACEMENT:
        return change.now
    cpus: Cpus = tuple(one & guest.allowed_cpus for one in cast(Cpus, change.now))
    return cpus if all(cpus) else (guest.allowed_cpus,)
