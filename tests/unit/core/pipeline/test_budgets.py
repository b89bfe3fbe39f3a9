# SPDX-License-Identifier: Apache-2.0
"""What any controller may do to others for one victim's sake is bounded by the pipeline."""

from dataclasses import replace

import pytest

from nova_vp.core.model.budgets import HOUR_S, MOST_DOUBLINGS, judged
from nova_vp.core.pipeline.rate_limit import rate_limit
from nova_vp.core.types.action import Action, Change, Result
from nova_vp.core.types.claim import ClaimGroup
from nova_vp.core.types.knob import NO_QUOTA, Knob
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import INEFFECTIVE, Reason, Rejection
from nova_vp.core.types.state import ActionOnOthers, CoreState, VpState, WithoutGain
from tests.unit.core.hosts import NEIGHBOUR, VICTIM, a_quiet_pair, far_away, onset
from tests.unit.core.wishful import MOVES, NO_LOSS, Mover, a_reason, cap, enabled

NOW_S = 10_000.0
CAPS = a_reason("caps", 400, is_verified=True, is_counted=True)
FREE = a_reason("caps-uncounted", 400, is_verified=True)
POLICY = Policy(actions_per_victim_hour=2, actions_per_project_hour=3, actions_without_gain=3)
STATE = CoreState(
    vps={
        name: VpState(name, vp_id=vp_id, project_id=project_id)
        for name, vp_id, project_id in (
            ("victim", "group", "p1"),
            ("twin", "group", "p1"),
            ("sibling", "sibling", "p1"),
            ("storm", "storm", "p2"),
        )
    }
)


def a_cap(victim: str, *uuids: str, reason: Reason = CAPS) -> ClaimGroup:
    detection = replace(_detection(), victim_uuid=victim)
    settings = tuple(cap(0.9, uuid) for uuid in uuids)
    return ClaimGroup("test", uuids[0], settings, (), reason, NO_LOSS, detection)


def _detection():
    host = a_quiet_pair()
    onset(host)
    [found] = host.ticks(2)[-1].detections
    return found


def refused(*groups: ClaimGroup, state: CoreState = STATE, policy: Policy = POLICY):
    _, waiting = rate_limit(groups, state, NOW_S, policy)
    return [one.rejection for one in waiting]


def spent(victim: str, project_id: str, times: int, ago_s: float = 0.0) -> CoreState:
    done = (ActionOnOthers(victim, project_id, NOW_S - ago_s),) * times
    return replace(STATE, actions_on_others=done)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (spent("victim", "p1", 1), []),
        (spent("victim", "p1", 2), [Rejection.VICTIM_BUDGET]),
        (spent("victim", "p1", 2, HOUR_S - 1), [Rejection.VICTIM_BUDGET]),
        (spent("victim", "p1", 2, HOUR_S), []),
        (spent("sibling", "p1", 2), []),
        (spent("sibling", "p1", 3), [Rejection.PROJECT_BUDGET]),
        (spent("sibling", "p1", 3, HOUR_S), []),
        (spent("storm", "p2", 3), []),
    ],
)
def test_a_victim_and_its_project_have_so_many_actions_on_others_an_hour(state, why):
    assert refused(a_cap("victim", "storm"), state=state) == why


def test_what_one_tick_allows_counts_in_the_same_tick():
    groups = [a_cap("victim", "storm")] * 3
    assert refused(*groups) == [Rejection.VICTIM_BUDGET]
    groups = [a_cap("victim", "storm"), a_cap("sibling", "storm")] * 2
    assert refused(*groups) == [Rejection.PROJECT_BUDGET]


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (a_cap("victim", "twin"), []),
        (a_cap("victim", "victim"), []),
        (a_cap("victim", "victim", "storm"), [Rejection.VICTIM_BUDGET]),
        (a_cap("victim", "sibling"), [Rejection.VICTIM_BUDGET]),
        (a_cap("victim", "storm", reason=FREE), []),
        (a_cap("victim", "storm", reason=INEFFECTIVE), []),
        (replace(a_cap("victim", "storm"), detection=None), []),
    ],
)
def test_only_what_counts_and_changes_others_than_its_own_vp_is_bounded(group, why):
    assert refused(group, state=spent("victim", "p1", 2)) == why


def test_a_victim_that_is_not_here_has_a_budget_too():
    assert refused(a_cap("gone", "storm"), state=spent("gone", "", 2)) == [Rejection.VICTIM_BUDGET]


def test_the_budget_of_the_host_comes_first():
    policy = replace(POLICY, moves_per_minute=0)
    state = spent("victim", "p1", 2)
    assert refused(a_cap("victim", "storm"), state=state, policy=policy) == [Rejection.BUDGET]


def test_a_decision_names_the_degraded_whose_budget_is_spent():
    host = a_quiet_pair(policy=enabled(Mover(), actions_per_victim_hour=0))
    assert host.tick().over_budget == {}, "nobody is degraded"
    onset(host)
    assert host.ticks(5)[-1].over_budget == {VICTIM: Rejection.VICTIM_BUDGET}
    host = a_quiet_pair(policy=enabled(Mover(), actions_per_victim_hour=1))
    onset(host)
    decision = host.ticks(2)[-1]
    assert decision.detections
    assert decision.over_budget == {}, "it may have one"


def test_who_suspects_nobody_has_no_use_for_a_budget():
    host = far_away(enabled(actions_per_victim_hour=0))
    decision = host.ticks(10)[-1]
    assert decision.detections
    assert decision.over_budget == {}


def test_a_move_of_any_controller_for_a_victim_counts():
    host = a_quiet_pair(policy=enabled(Mover(), actions_per_victim_hour=0))
    onset(host)
    decisions = host.ticks(10)
    assert not any(d.actions for d in decisions)
    assert Rejection.VICTIM_BUDGET in {one.rejection for one in decisions[-1].refused}


def test_what_was_applied_counts_with_the_project_of_its_victim():
    host = a_quiet_pair(policy=enabled(Mover()))
    host.change("victim", project_id="p7", generation="2")
    host.ticks(6)
    onset(host)
    moved = host.until(MOVES)
    [counted] = host.state.actions_on_others
    assert counted == ActionOnOthers(VICTIM, "p7", moved.decided_s)


def test_what_the_host_refused_does_not_count():
    host = a_quiet_pair(policy=enabled(Mover()))
    onset(host)
    host.refuse = True
    host.until(MOVES)
    assert host.state.actions_on_others == ()


def test_a_move_of_the_victim_itself_does_not_count():
    host = a_quiet_pair(policy=enabled(Mover()))
    cleared = {(VICTIM, NEIGHBOUR): host.now_s + 1000}
    host.state = replace(host.state, cleared_suspects=cleared)
    onset(host)
    assert host.until(MOVES).guest_uuid == VICTIM
    assert host.state.actions_on_others == ()


def an_action(*uuids: str, victim: str | None = "victim") -> Action:
    changes = tuple(Change(one, Knob.CPU_CAP, NO_QUOTA, NO_QUOTA, NO_QUOTA) for one in uuids)
    return Action("id", "test", uuids[0], changes, (), CAPS, NOW_S, NO_LOSS, victim_uuid=victim)


def after(*results: Result, state: CoreState = STATE, action: Action | None = None) -> CoreState:
    for result in results:
        state = judged(state, action or an_action("storm"), result, NOW_S, POLICY)
    return state


NO, YES, UNKNOWN = Result.INEFFECTIVE, Result.MENDED, Result.UNJUDGED
HOLD_S = POLICY.reverse_hold_s


@pytest.mark.parametrize(
    ("results", "left"),
    [
        ((NO, NO), WithoutGain(actions=2)),
        ((NO, NO, YES), None),
        ((NO, NO, UNKNOWN), WithoutGain(actions=2)),
        ((NO, NO, NO), WithoutGain(holds=1, until_s=NOW_S + HOLD_S)),
        ((NO,) * 6, WithoutGain(holds=2, until_s=NOW_S + 2 * HOLD_S)),
        ((NO,) * 6 + (YES,), None),
        (
            (NO,) * 3 * (MOST_DOUBLINGS + 3),
            WithoutGain(holds=MOST_DOUBLINGS + 3, until_s=NOW_S + 2**MOST_DOUBLINGS * HOLD_S),
        ),
    ],
)
def test_actions_without_a_gain_are_counted_until_one_has_a_gain(results, left):
    assert after(*results).without_gain.get("victim") == left


@pytest.mark.parametrize(
    "action", [an_action("victim"), an_action("twin"), an_action("storm", victim=None)]
)
def test_what_costs_nobody_else_proves_nothing(action):
    assert after(NO, action=action).without_gain == {}


def test_a_suspect_that_left_was_somebody_else():
    assert after(NO, action=an_action("gone")).without_gain == {"victim": WithoutGain(actions=1)}


@pytest.mark.parametrize(
    ("until_s", "is_kept"), [(NOW_S + 1, True), (NOW_S, False)], ids=["held", "over"]
)
def test_a_victim_that_left_is_forgotten_after_its_hold(until_s, is_kept):
    state = replace(STATE, without_gain={"gone": WithoutGain(holds=1, until_s=until_s)})
    assert ("gone" in after(NO, state=state).without_gain) is is_kept
    assert refused(a_cap("gone", "storm"), state=state) == [Rejection.NO_GAIN] * is_kept
