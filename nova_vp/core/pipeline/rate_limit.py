# SPDX-License-Identifier: Apache-2.0
"""When a want may be acted on: holds between moves, no way back, a budget per minute.

Undo is exempt from all of it: it must always be possible. What is not verified (initial
placement, re-applying, keeping caps, more CPU) is exempt from all but the hold.
"""

from collections.abc import Iterable

from nova_vp.core.model.holds import (
    MOVING,
    goes_back,
    is_held_off,
    moved_lately,
    was_refused_lately,
)
from nova_vp.core.pipeline.arbitrate import refusal
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import TRIED, Reason, Rejection
from nova_vp.core.types.state import BUDGET_S, CoreState
from nova_vp.core.types.want import Alternative, Want

_UNDOING = frozenset({Reason.INEFFECTIVE, Reason.REVOKED})


_SETTLING = frozenset({Reason.LIFT_CAP, Reason.RENEW_CAP, Reason.LESS_CPU, Reason.REAPPLY})
"""What keeps or gives back, so that it may concern what somebody had undone."""


def rate_limit(
    wants: Iterable[Want], state: CoreState, now_s: float, policy: Policy
) -> tuple[tuple[Want, ...], tuple[Alternative, ...]]:
    """The wants that may become actions now, and those that must wait."""
    may: list[Want] = []
    refused: list[Alternative] = []
    spent = sum(now_s - at_s < BUDGET_S for at_s in state.moves_at_s)
    for want in wants:
        why = _why_not(want, state, now_s, spent, policy)
        if why is None:
            may.append(want)
            spent += want.reason in TRIED
        else:
            refused.append(refusal(want, why))
    return tuple(may), tuple(refused)


def _why_not(
    want: Want, state: CoreState, now_s: float, spent: int, policy: Policy
) -> Rejection | None:
    if want.reason in _UNDOING:
        return None
    if want.reason not in _SETTLING and any(
        is_held_off(setting, state, now_s) for setting in want.settings
    ):
        return Rejection.REVOKED
    moving = {s.guest_uuid for s in want.settings if s.knob in MOVING}
    if any(moved_lately(state.vps[uuid], now_s, policy) for uuid in moving):
        return Rejection.HOLD
    if want.reason not in TRIED:
        return None
    if any(
        was_refused_lately(setting, state.vps[setting.guest_uuid], now_s, policy)
        for setting in want.settings
    ):
        return Rejection.HOLD
    if any(
        goes_back(setting, state.vps[setting.guest_uuid], now_s, policy)
        for setting in want.settings
    ):
        return Rejection.REVERSE_MOVE
    return Rejection.BUDGET if spent >= policy.moves_per_minute else None
