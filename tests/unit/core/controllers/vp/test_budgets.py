# SPDX-License-Identifier: Apache-2.0
"""A guest sets its own counters: what is done to others for its sake is bounded.

The storms do nothing wrong. The false victim runs as it likes, to have them restrained.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from nova_vp.core.controllers.vp.declaration import CAP, MOVE_VICTIM
from nova_vp.core.types.action import Action
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import INEFFECTIVE, Rejection
from tests.policies import with_numbers
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    nodes_of,
    slowed,
    uuid_of,
)
from tests.unit.core.controllers.vp.hosts import POLICY

HOUR_S = 3600.0
MINUTES = 300
"""In which every storm could be capped down to its floor."""
BUSY_STREAM = replace(STREAM, cores=1.0)
STORMS = ("storm-1", "storm-2", "storm-3", "storm-4")
OFTEN = with_numbers(
    POLICY, actions_per_victim_hour=1000, actions_per_project_hour=1000, actions_without_gain=1000
)
"""No budget that a test can spend."""


def budgets(**numbers: int) -> Policy:
    return with_numbers(OFTEN, **numbers)


def a_host(policy: Policy, *victims: str, projects: Iterable[str] = (), **storm: object) -> Host:
    """All on one LLC and one node: nobody can go anywhere."""
    host = Host(nodes_of(0, cpus=8), policy, knobs=ALL_KNOBS)
    for name, project in zip(victims, projects or ["false"] * len(victims), strict=True):
        host.add(name, CHASE, node=0, priority=200.0, project_id=project)
    for name in STORMS:
        host.add(name, COMPUTE, node=0, **{"cap_floor_ratio": 0.1, **storm})
    host.ticks(12)
    for name in STORMS:
        host.run(name, BUSY_STREAM)
    return host


def acts(*victims: str, gains: bool = True) -> Callable[[Host], None]:
    """Degraded all the time; with `gains`, a little better after every step of a cap."""

    def run(host: Host) -> None:
        left = sum(host.cap_ratio(name) for name in STORMS) if gains else 4.0
        for name in victims:
            host.run(name, slowed(CHASE_HURT, 0.1 + 0.2 * left))

    return run


def caps(decisions: Iterable[Decision]) -> list[Action]:
    return [a for d in decisions for a in d.actions if a.reason is CAP]


def victims_of(actions: Iterable[Action]) -> Counter[str | None]:
    return Counter(one.victim_uuid for one in actions)


def why_not_now(host: Host) -> set[Rejection]:
    """Why no storm is capped, as the host's next decision says."""
    storms = set(map(uuid_of, STORMS))
    return {one.rejection for one in host.tick().refused if one.guest_uuid in storms}


def test_a_false_victim_has_its_neighbours_capped_no_more_often_than_its_budget():
    host = a_host(budgets(actions_per_victim_hour=5), "victim")
    host.rule = acts("victim")
    assert len(caps(host.ticks(MINUTES))) == 5
    assert why_not_now(host) == {Rejection.VICTIM_BUDGET}


def test_without_a_budget_it_would_be_without_end():
    host = a_host(OFTEN, "victim")
    host.rule = acts("victim")
    assert len(caps(host.ticks(MINUTES))) > 20


def test_an_hour_after_an_action_there_is_room_for_another():
    host = a_host(budgets(actions_per_victim_hour=5), "victim")
    host.rule = acts("victim")
    first, second = caps(host.ticks(MINUTES))[:2]
    host.pass_time(first.decided_s + HOUR_S - host.now_s - 10)
    host.rule = None
    host.run("victim", CHASE)
    host.ticks(5)
    host.rule = acts("victim")
    later = [one.decided_s for one in caps(host.ticks(MINUTES))]
    assert len(later) == 5
    assert later[0] >= first.decided_s + HOUR_S
    assert later[1] >= second.decided_s + HOUR_S


def test_two_victims_of_one_project_share_its_budget():
    policy = budgets(actions_per_victim_hour=4, actions_per_project_hour=6)
    host = a_host(policy, "victim-1", "victim-2")
    host.rule = acts("victim-1", "victim-2")
    done = victims_of(caps(host.ticks(MINUTES)))
    assert done == {uuid_of("victim-1"): 4, uuid_of("victim-2"): 2}
    assert why_not_now(host) == {Rejection.VICTIM_BUDGET, Rejection.PROJECT_BUDGET}


def test_each_project_has_a_budget_of_its_own():
    projects = ("first", "second")
    host = a_host(budgets(actions_per_project_hour=3), "victim-1", "victim-2", projects=projects)
    host.rule = acts("victim-1", "victim-2")
    done = victims_of(caps(host.ticks(MINUTES)))
    assert done == {uuid_of("victim-1"): 3, uuid_of("victim-2"): 3}


def test_what_was_done_for_a_victim_that_left_counts_for_its_project():
    host = a_host(budgets(actions_per_project_hour=4), "victim-1", "victim-2")
    host.rule = acts("victim-1")
    host.until(CAP)
    host.rule = acts("victim-2")
    host.leave("victim-1")
    assert len(caps(host.ticks(MINUTES))) == 3


def test_a_victim_whose_gain_never_appears_has_nobody_restrained_for_the_hold():
    host = a_host(budgets(actions_without_gain=2), "victim")
    host.rule = acts("victim", gains=False)
    decisions = host.ticks(MINUTES)
    assert len(caps(decisions)) == 2, "of four suspects"
    assert Rejection.NO_GAIN in why_not_now(host)
    assert all(host.cap_ratio(name) == 1.0 for name in STORMS)


def test_each_time_no_gain_appears_the_hold_is_twice_as_long():
    hold_s = 100.0
    host = a_host(budgets(actions_without_gain=1, reverse_hold_s=hold_s), "victim")
    host.rule = acts("victim", gains=False)
    tried_s = [one.decided_s for one in caps(host.ticks(8 * int(hold_s)))]
    waits_s = [later - earlier for earlier, later in pairwise(tried_s)]
    assert waits_s == pytest.approx([hold_s, 2 * hold_s, 4 * hold_s], abs=20)


def test_one_gain_makes_up_for_what_was_done_in_vain_before_it():
    """Of four suspects the third degrades it, until it has two thirds of its CPU left."""
    host = a_host(budgets(actions_without_gain=3), "victim")
    guilty = STORMS[2]

    def run(host: Host) -> None:
        ratio = host.cap_ratio(guilty)
        host.run("victim", slowed(CHASE_HURT, 0.1 + 0.9 * ratio) if ratio > 0.65 else CHASE)

    host.rule = run
    undone = [a for d in host.ticks(MINUTES) for a in d.actions if a.reason is INEFFECTIVE]
    assert len(undone) == 3, "two before the first step of the right one, and one after it"
    assert host.cap_ratio(guilty) < 0.7
    assert host.state.without_gain == {}


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"actions_per_victim_hour": 0}, Rejection.VICTIM_BUDGET),
        ({"actions_per_project_hour": 0}, Rejection.PROJECT_BUDGET),
    ],
)
def test_whose_budget_is_spent_may_still_move_itself(numbers, why):
    host = Host(policy=budgets(**numbers))
    host.add("neighbour", COMPUTE, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)
    [action] = host.ticks(2)[-1].actions
    assert (action.reason, action.guest_uuid) == (MOVE_VICTIM, uuid_of("victim"))
    told = {(one.guest_uuid, one.domain_id, one.rejection) for one in action.rejected}
    assert (uuid_of("neighbour"), 0, why) in told
