# SPDX-License-Identifier: Apache-2.0
"""Proposals that a person rejects: recorded, and not made again for a while.

The hold ends early if the degradation that the proposal was for ends: what begins anew may be
another case.
"""

from collections.abc import Iterable
from dataclasses import replace

from nova_vp.core.model.holds import is_rejected, subject
from nova_vp.core.pipeline.confirm import with_outcome
from nova_vp.core.types.action import Action, Outcome, Result
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState, RejectedProposal


def reject(
    state: CoreState, proposals: Iterable[Action], picture: Picture, policy: Policy
) -> tuple[CoreState, tuple[Action, ...]]:
    """The state that remembers what was rejected, and the proposals that are left. What gives back
    claims nothing, and is not held: `is_rejected` finds no settings of it."""
    left = []
    for action in proposals:
        if action.id in picture.rejected and action.claims:
            state = _rejected(state, action, picture, policy)
        elif not is_rejected(action.victim_uuid or "", action.claims, state, picture.at_s):
            left.append(action)
    return state, tuple(left)


def _rejected(state: CoreState, action: Action, picture: Picture, policy: Policy) -> CoreState:
    now_s, victim_uuid = picture.at_s, action.victim_uuid or ""
    detail = picture.rejected[action.id]
    state = with_outcome(state, Outcome(action, Result.REJECTED, now_s, detail))
    victim = state.vps.get(victim_uuid)
    since_s = victim.detection.since_s if victim and victim.detection else None
    held = RejectedProposal(now_s + policy.rejected_hold_s, since_s)
    known = {key: one for key, one in state.rejected.items() if one.until_s > now_s}
    key = (victim_uuid, subject(action.claims))
    return replace(state, rejected={**known, key: held})
