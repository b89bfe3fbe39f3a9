# SPDX-License-Identifier: Apache-2.0
"""When a want may be acted on: holds between moves, no way back, a budget per minute.

Homing, re-applying and undo are exempt: the first two settle a guest where it was to be, and
undo must always be possible.
"""

from collections.abc import Iterable

from nova_vp.core.arbitrate import refusal
from nova_vp.core.memory import BUDGET_S, Memory
from nova_vp.core.model import Alternative, Policy, Reason, Rejection, Want

_PACED = frozenset({Reason.MOVE_AGGRESSOR, Reason.MOVE_VICTIM})


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
            spent += want.reason in _PACED
        else:
            refused.append(refusal(want, why))
    return tuple(may), tuple(refused)


def _why_not(
    want: Want, memory: Memory, now_s: float, spent: int, policy: Policy
) -> Rejection | None:
    vp = memory.vps[want.guest_uuid]
    if want.reason is Reason.INEFFECTIVE:
        return None
    if vp.moved_at_s is not None and now_s - vp.moved_at_s < policy.move_hold_s:
        return Rejection.HOLD
    if want.reason not in _PACED:
        return None
    if any(cpus & want.cpus and now_s - at_s < policy.reverse_hold_s for cpus, at_s in vp.left):
        return Rejection.REVERSE_MOVE
    return Rejection.BUDGET if spent >= policy.moves_per_minute else None
