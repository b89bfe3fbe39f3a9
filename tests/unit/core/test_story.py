# SPDX-License-Identifier: Apache-2.0
"""The whole step in closed loop and virtual time, with a controller of the tests' own: what is
proposed, done, set again, taken back, or left alone.
"""

from dataclasses import replace

import pytest

from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Applied
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import REAPPLY, Rejection
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.unit.core import hosts
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    nodes_of,
    two_sockets,
    uuid_of,
)
from tests.unit.core.hosts import NEIGHBOUR, onset
from tests.unit.core.wishful import MOVES, Mover, Wishful, enabled, place

MOVER = enabled(Mover())


def a_quiet_pair(**about) -> Host:
    return hosts.a_quiet_pair(**{"policy": MOVER, **about})


def test_recovery_is_recorded_as_mended():
    host = a_quiet_pair()
    onset(host)
    host.ticks(2)
    host.run("victim", CHASE)
    decision = host.ticks(4)[-1]
    assert decision.detections == ()
    history = host.view("victim", decision).history
    assert [o.result for o in history] == [Result.MENDED]
    assert host.view("neighbour", decision).history == history
    assert host.placement("neighbour") == {1}


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_without_enforce_the_action_is_only_proposed(mode):
    host = a_quiet_pair(mode=mode)
    onset(host)
    decisions = host.ticks(5)
    assert all(d.actions == () for d in decisions)
    ids = {d.proposals[0].id for d in decisions[1:]}
    assert len(ids) == 1, "a proposal keeps its id while it stands"


def test_advise_applies_what_was_approved_and_observe_does_not():
    host = a_quiet_pair(mode=Mode.ADVISE)
    onset(host)
    proposal = host.ticks(3)[-1].proposals[0]
    host.approved = frozenset({proposal.id})
    host.mode = Mode.OBSERVE
    assert host.tick().actions == ()
    host.mode = Mode.ADVISE
    assert [a.id for a in host.tick().actions] == [proposal.id]


def test_what_is_applied_stays_frozen_in_observe():
    host = a_quiet_pair()
    onset(host)
    host.ticks(2)
    host.mode = Mode.OBSERVE
    host.change("neighbour", placement=frozenset({0, 1}))
    (held,) = host.applied[uuid_of("neighbour")].held
    found = replace(held, original=(frozenset({0, 1}),))
    host.applied[uuid_of("neighbour")] = Applied(uuid_of("neighbour"), 1, (found,))
    assert all(d.actions == () for d in host.ticks(15))


def test_a_placement_the_host_forgot_is_applied_again():
    host = a_quiet_pair()
    onset(host)
    host.ticks(2)
    host.run("victim", CHASE)
    host.ticks(15)
    host.change("neighbour", placement=frozenset({0}))
    assert [a.reason for a in host.tick().actions] == [REAPPLY]
    assert host.placement("neighbour") == {1}


def test_a_foreign_change_is_respected_until_the_next_boot():
    host = Host(topology=two_sockets(2), policy=MOVER)
    host.add("neighbour", COMPUTE, cpus={0, 1})
    host.add("victim", CHASE, cpus={0, 1})
    host.ticks(6)
    onset(host)
    host.ticks(2)
    assert host.placement("neighbour") == {2, 3}
    host.change("neighbour", placement=frozenset({1}))
    decision = host.tick()
    assert decision.foreign == (uuid_of("neighbour"),)
    del host.applied[uuid_of("neighbour")]
    decision = host.ticks(12)[-1]
    assert host.view("neighbour", decision).guest.unmanaged is Unmanaged.FOREIGN_CHANGE
    assert host.placement("neighbour") == {1}
    host.change("neighbour", placement=frozenset({0, 1, 2, 3}), generation="2")
    assert host.view("neighbour", host.tick()).guest.unmanaged is None


def test_no_way_back_within_the_hold():
    policy = replace(MOVER, move_hold_s=2.0, effect_window_s=3.0)
    host = Host(policy=policy)
    host.add("neighbour", COMPUTE, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.add("second", Rates(mips=30, l2_mpki=11.0, mpki=0.1, cpi=3.0), cpus={1})
    host.ticks(6)
    onset(host)
    host.ticks(2)
    host.run("victim", CHASE)
    host.ticks(4)
    host.run("second", Rates(mips=20, l2_mpki=11.0, mpki=10.0, cpi=4.6))
    decisions = host.ticks(5)
    assert host.placement("neighbour") == {1}
    assert Rejection.REVERSE_MOVE in {r.rejection for d in decisions for r in d.refused}


def test_the_move_budget_holds():
    policy = replace(MOVER, moves_per_minute=1)
    topology = Topology(tuple(LlcDomain(i, i, frozenset({i})) for i in range(4)))
    host = Host(policy=policy, topology=topology)
    for i in range(2):
        host.add(f"neighbour{i}", COMPUTE, cpus={i})
        host.add(f"victim{i}", CHASE, cpus={i})
    host.ticks(6)
    for i in range(2):
        host.run(f"neighbour{i}", STREAM)
        host.run(f"victim{i}", CHASE_HURT)
    decisions = host.ticks(5)
    assert sum(len(d.actions) for d in decisions) == 1
    assert any(r.rejection is Rejection.BUDGET for d in decisions for r in d.refused)


def test_a_failed_action_is_an_outcome_and_is_tried_again_after_the_hold():
    host = a_quiet_pair()
    host.refuse = True
    onset(host)
    host.ticks(2)
    assert [o.result for o in host.outcomes] == [Result.FAILED]
    host.refuse = False
    host.ticks(8)
    assert host.placement("neighbour") == {0}
    host.ticks(4)
    assert host.placement("neighbour") == {1}


def test_a_guest_that_left_while_it_was_placed_is_forgotten():
    host = a_quiet_pair()
    onset(host)
    [action] = host.ticks(2)[-1].actions
    state = replace(host.state, vps={})
    assert confirm(state, [Outcome(action, Result.APPLIED, host.now_s)], host.policy).vps == {}


def test_what_moves_leave_behind_stays_bounded():
    host = a_quiet_pair()
    onset(host)
    [action] = host.ticks(2)[-1].actions
    state = host.state
    for second in range(1000):
        done = replace(action, id=f"{action.id}-{second}")
        state = confirm(state, [Outcome(done, Result.APPLIED, host.now_s + second)], host.policy)
    assert len(state.moves_at_s) <= 60
    assert len(state.vps[action.guest_uuid].left) <= 8
    assert len(state.vps[action.guest_uuid].history) <= 8


def test_a_foreign_guest_that_also_migrates_is_called_migrating():
    wishful = Wishful("placer", 500)
    host = Host(two_sockets(2), enabled(wishful))
    wishful.wants(place(uuid=host.add("vm", COMPUTE)))
    host.tick()
    host.change("vm", placement=frozenset({0}))
    host.tick()
    host.change("vm", unmanaged=Unmanaged.MIGRATING)
    view = host.view("vm", host.tick())
    assert view.guest.unmanaged is Unmanaged.MIGRATING


def test_two_controllers_never_turn_one_knob_in_one_tick():
    """One would give the neighbour another CPU just when it has to go."""
    generous = Wishful("generous", 600)
    host = a_quiet_pair(topology=two_sockets(2), policy=enabled(Mover(), generous))
    onset(host)
    host.tick()
    generous.wants(place((frozenset({0, 1}),), NEIGHBOUR))
    decision = host.tick()
    [action] = decision.actions
    assert action.reason is MOVES
    assert Rejection.OUTRANKED in {r.rejection for r in decision.refused}


def test_two_victims_of_one_aggressor_want_the_same_thing_once():
    host = Host(nodes_of(0, 1), MOVER, knobs=ALL_KNOBS)
    for name in ("one", "two"):
        host.add(name, CHASE, cpus={0, 1}, node=0)
    host.add("storm", COMPUTE, cpus={0, 1}, node=0)
    host.ticks(6)
    for name in ("one", "two"):
        host.run(name, CHASE_HURT)
    host.run("storm", STREAM)
    decision = host.ticks(2)[-1]
    assert len(decision.detections) == 2
    assert [a.guest_uuid for a in decision.actions] == [uuid_of("storm")]
    assert [r.rejection for r in decision.refused] == [Rejection.OUTRANKED]
