# SPDX-License-Identifier: Apache-2.0
"""When a want may be acted on: holds between moves, no way back, budgets of actions.

Which of these a claim must wait for is in the row of its reason. Reverts wait for nothing: they
must always be possible.
"""

from collections.abc import Iterable

from nova_vp.core.model.budgets import changes_others, counted, why_nothing_of_others
from nova_vp.core.model.holds import (
    failed_lately,
    goes_back,
    is_held_off,
    is_rejected,
    moved_lately,
    was_refused_lately,
)
from nova_vp.core.model.limits import PLACES
from nova_vp.core.pipeline.arbitrate import refusal
from nova_vp.core.types.claim import Alternative, ClaimGroup
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.state import BUDGET_S, CoreState


def rate_limit(
    groups: Iterable[ClaimGroup], state: CoreState, now_s: float, policy: Policy
) -> tuple[tuple[ClaimGroup, ...], tuple[Alternative, ...]]:
    """The groups that may become actions now, and those that must wait."""
    may: list[ClaimGroup] = []
    refused: list[Alternative] = []
    spent = sum(now_s - at_s < BUDGET_S for at_s in state.moves_at_s)
    for group in groups:
        why = _why_not(group, state, now_s, spent, policy)
        if why is None:
            may.append(group)
            if group.reason.is_counted:
                spent += 1
                state = counted(state, _victim_of(group), group.settings, now_s)
        else:
            refused.append(refusal(group, why))
    return tuple(may), tuple(refused)


def _why_not(
    group: ClaimGroup, state: CoreState, now_s: float, spent: int, policy: Policy
) -> Rejection | None:
    reason = group.reason
    if reason.is_revert:
        return None
    if not reason.gives_back and any(
        is_held_off(setting, state, now_s) for setting in (*group.settings, *group.relaxes)
    ):
        return Rejection.REVOKED
    if not reason.gives_back and is_rejected(_victim_of(group), group.settings, state, now_s):
        return Rejection.REJECTED
    if any(
        was_refused_lately(setting, state.vps[setting.guest_uuid], group.controller, now_s, policy)
        for setting in group.settings
    ):
        return Rejection.HOST_REFUSED
    moving = {s.guest_uuid for s in group.settings if s.knob in PLACES}
    if not reason.is_at_once and any(
        moved_lately(state.vps[uuid], now_s, policy) for uuid in moving
    ):
        return Rejection.HOLD
    if not reason.is_verified:
        return None
    if failed_lately(_victim_of(group), group.settings, state, now_s):
        return Rejection.FAILED_BEFORE
    if any(
        goes_back(setting, state.vps[setting.guest_uuid], now_s, policy)
        for setting in group.settings
    ):
        return Rejection.REVERSE_MOVE
    return _over_budget(group, state, now_s, spent, policy) if reason.is_counted else None


def _over_budget(
    group: ClaimGroup, state: CoreState, now_s: float, spent: int, policy: Policy
) -> Rejection | None:
    if spent >= policy.moves_per_minute:
        return Rejection.BUDGET
    victim_uuid = _victim_of(group)
    if not victim_uuid or not changes_others(victim_uuid, group.settings, state):
        return None
    return why_nothing_of_others(victim_uuid, state, now_s, policy)


def _victim_of(group: ClaimGroup) -> str:
    """Empty: it is for nobody's sake."""
    return group.detection.victim_uuid if group.detection else ""
