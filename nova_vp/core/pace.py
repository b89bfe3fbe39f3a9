# SPDX-License-Identifier: Apache-2.0
"""When a want may be acted on: holds between moves, no way back, a budget per minute.

Undo is exempt from all of it: it must always be possible. What is not judged (homing, re-applying,
keeping caps, more CPU) is exempt from all but the hold.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from nova_vp.core.arbitrate import refusal
from nova_vp.core.decided import TRIED, Alternative, Reason, Rejection, Result, Setting, Want
from nova_vp.core.knobs import Cpus, Knob, all_cpus
from nova_vp.core.memory import BUDGET_S, Memory, Tracked, nodes_of
from nova_vp.core.model import Policy

_One = TypeVar("_One")
_MOVING = frozenset({Knob.PLACEMENT, Knob.MEMORY})
_UNDOING = frozenset({Reason.INEFFECTIVE, Reason.REVOKED})
_SETTLING = frozenset({Reason.LIFT_CAP, Reason.RENEW_CAP, Reason.LESS_CPU, Reason.REAPPLY})
"""What keeps or gives back, so that it may concern what somebody had undone."""


def pace(
    wants: Iterable[Want], memory: Memory, now_s: float, policy: Policy
) -> tuple[tuple[Want, ...], tuple[Alternative, ...]]:
    """The wants that may become actions now, and those that must wait."""
    may: list[Want] = []
    refused: list[Alternative] = []
    spent = sum(now_s - at_s < BUDGET_S for at_s in memory.moves_at_s)
    for want in wants:
        why = _why_not(want, memory, now_s, spent, policy)
        if why is None:
            may.append(want)
            spent += want.reason in TRIED
        else:
            refused.append(refusal(want, why))
    return tuple(may), tuple(refused)


def _why_not(
    want: Want, memory: Memory, now_s: float, spent: int, policy: Policy
) -> Rejection | None:
    if want.reason in _UNDOING:
        return None
    if want.reason not in _SETTLING and any(
        _is_held_off(setting, memory, now_s) for setting in want.settings
    ):
        return Rejection.REVOKED
    moving = {s.guest_uuid for s in want.settings if s.knob in _MOVING}
    if any(moved_lately(memory.vps[uuid], now_s, policy) for uuid in moving):
        return Rejection.HOLD
    if want.reason not in TRIED:
        return None
    if any(
        _was_refused_lately(setting, memory.vps[setting.guest_uuid], now_s, policy)
        for setting in want.settings
    ):
        return Rejection.HOLD
    if any(
        _goes_back(setting, memory.vps[setting.guest_uuid], now_s, policy)
        for setting in want.settings
    ):
        return Rejection.REVERSE_MOVE
    return Rejection.BUDGET if spent >= policy.moves_per_minute else None


def may_turn(setting: Setting, memory: Memory, now_s: float, policy: Policy) -> bool:
    """Whether what must prove itself may want this now, the budget apart: a plan of several steps
    waits as a whole if one of them may not."""
    vp = memory.vps[setting.guest_uuid]
    return not (
        _is_held_off(setting, memory, now_s)
        or (setting.knob in _MOVING and moved_lately(vp, now_s, policy))
        or _was_refused_lately(setting, vp, now_s, policy)
        or _goes_back(setting, vp, now_s, policy)
    )


def _is_held_off(setting: Setting, memory: Memory, now_s: float) -> bool:
    return memory.held_off.get((setting.guest_uuid, setting.knob), now_s) > now_s


def _was_refused_lately(setting: Setting, vp: Tracked, now_s: float, policy: Policy) -> bool:
    """By the host, that will do the same a second later."""
    return any(
        outcome.result is Result.FAILED
        and now_s - outcome.at_s < policy.move_hold_s
        and any(
            c.guest_uuid == vp.guest_uuid and c.knob is setting.knob for c in outcome.action.changes
        )
        for outcome in vp.history
    )


def _goes_back(setting: Setting, vp: Tracked, now_s: float, policy: Policy) -> bool:
    if setting.knob is Knob.PLACEMENT:
        return left_lately(vp, all_cpus(cast(Cpus, setting.value)), now_s, policy)
    if setting.knob is Knob.MEMORY:
        return _is_among(vp.left_nodes, nodes_of(setting.value), now_s, policy)
    return False


def in_turn(found: Sequence[_One], at_once: int, now_s: float, interval_s: float) -> Sequence[_One]:
    """Of many so many in each tick, whatever the seconds between two of them."""
    if len(found) <= at_once:
        return found
    first = int(now_s / max(1, round(interval_s))) * at_once % len(found)
    return (*found, *found)[first : first + at_once]


def moved_lately(vp: Tracked, now_s: float, policy: Policy) -> bool:
    return vp.moved_at_s is not None and now_s - vp.moved_at_s < policy.move_hold_s


def left_lately(vp: Tracked, cpus: frozenset[int], now_s: float, policy: Policy) -> bool:
    """It was taken away from some of these CPUs, and may not go back yet."""
    return _is_among(vp.left, cpus, now_s, policy)


def _is_among(
    left: Iterable[tuple[frozenset[int], float]], ids: frozenset[int], now_s: float, policy: Policy
) -> bool:
    return any(gone & ids and now_s - at_s < policy.reverse_hold_s for gone, at_s in left)
