# SPDX-License-Identifier: Apache-2.0
"""What may be done to others for the sake of one degraded server.

A guest controls its own counters, so it can act degraded to have its neighbours restrained. What
is done to others for it is therefore bounded per victim and per project, and stops where no gain
appears. A move of the victim itself costs nobody and is not bounded here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nova_vp.core.types.action import Action, Change, Result
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.state import ActionOnOthers, CoreState, VpState, WithoutGain

HOUR_S = 3600.0
"""The span that these budgets are counted over."""
MOST_DOUBLINGS = 4
"""Of the hold of a victim for which no gain appears, hold after hold."""


def changes_others(
    victim_uuid: str, settings: Iterable[Setting | Change], state: CoreState
) -> bool:
    """Whether a server is changed that is not of the victim's own VP."""
    own = _vp_of(victim_uuid, state).vp_id
    return any(_vp_of(one.guest_uuid, state).vp_id != own for one in settings)


def _vp_of(guest_uuid: str, state: CoreState) -> VpState:
    """Of a guest that left, one that is nobody else's."""
    return state.vps.get(guest_uuid) or VpState(guest_uuid, vp_id=guest_uuid)


def why_nothing_of_others(
    victim_uuid: str, state: CoreState, now_s: float, policy: Policy
) -> Rejection | None:
    """Why no server of others may be changed for this victim now; None: one may."""
    lost = state.without_gain.get(victim_uuid)
    if lost is not None and lost.until_s > now_s:
        return Rejection.NO_GAIN
    recent = [one for one in state.actions_on_others if now_s - one.at_s < HOUR_S]
    if sum(one.victim_uuid == victim_uuid for one in recent) >= policy.actions_per_victim_hour:
        return Rejection.VICTIM_BUDGET
    project_id = _vp_of(victim_uuid, state).project_id
    if sum(one.project_id == project_id for one in recent) >= policy.actions_per_project_hour:
        return Rejection.PROJECT_BUDGET
    return None


def victims_over_budget(state: CoreState, now_s: float, policy: Policy) -> Mapping[str, Rejection]:
    """Of the degraded servers with suspects, those for which no other server may be changed."""
    found = (vp.detection for vp in state.vps.values() if vp.detection)
    asking = (detection.victim_uuid for detection in found if detection.suspects)
    return {
        uuid: why
        for uuid in asking
        if (why := why_nothing_of_others(uuid, state, now_s, policy)) is not None
    }


def counted(
    state: CoreState, victim_uuid: str, settings: Iterable[Setting | Change], at_s: float
) -> CoreState:
    """With one action for this victim counted, if it changes others."""
    if not victim_uuid or not changes_others(victim_uuid, settings, state):
        return state
    recent = (one for one in state.actions_on_others if at_s - one.at_s < HOUR_S)
    new = ActionOnOthers(victim_uuid, _vp_of(victim_uuid, state).project_id, at_s)
    return replace(state, actions_on_others=(*recent, new))


def judged(
    state: CoreState, action: Action, result: Result, now_s: float, policy: Policy
) -> CoreState:
    """With the gain of an action on others noted, or that there was none. So many without one, in
    a row, and nothing is done to others for this victim for the hold; each further hold in a row
    is twice as long."""
    victim_uuid = action.victim_uuid
    if victim_uuid is None or result is Result.UNJUDGED:
        return state
    if not changes_others(victim_uuid, action.changes, state):
        return state
    known = {
        uuid: one
        for uuid, one in state.without_gain.items()
        if uuid in state.vps or one.until_s > now_s
    }
    before = known.pop(victim_uuid, WithoutGain())
    if result is Result.INEFFECTIVE:
        known[victim_uuid] = _one_more(before, now_s, policy)
    return replace(state, without_gain=known)


def _one_more(before: WithoutGain, now_s: float, policy: Policy) -> WithoutGain:
    if before.actions + 1 < policy.actions_without_gain:
        return before._replace(actions=before.actions + 1)
    hold_s = policy.reverse_hold_s * 2 ** min(before.holds, MOST_DOUBLINGS)
    return WithoutGain(holds=before.holds + 1, until_s=now_s + hold_s)
