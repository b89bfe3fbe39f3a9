# SPDX-License-Identifier: Apache-2.0
"""What people order: a mode for one server alone, and the undoing of one action."""

from dataclasses import replace

import pytest

from nova_vp.core.pipeline.rate_limit import rate_limit
from nova_vp.core.types.action import Result
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, Knob
from nova_vp.core.types.policy import Homing, Mode, Policy, tightest
from nova_vp.core.types.reason import Reason, Rejection
from tests.unit.core.build import (
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    nodes_of,
    uuid_of,
)
from tests.unit.core.test_caps import a_crowd
from tests.unit.core.test_nodes import SENSITIVE, far_away, memory_system

NO_HOMING = Policy(home_on_arrival=Homing.NEVER)
NEIGHBOUR, VICTIM = uuid_of("neighbour"), uuid_of("victim")


def a_hurt_pair(**about) -> Host:
    """A neighbour that hurts a victim from the next tick on, and an idle second domain."""
    host = Host(policy=NO_HOMING, mode=about.pop("host_mode", Mode.ENFORCE))
    host.add("neighbour", COMPUTE, cpus={0}, **about)
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)
    return host


def revoke(host: Host, *ids: str):
    host.revoked = frozenset(ids)
    decision = host.tick()
    host.revoked = frozenset()
    return decision


def results(host: Host, name: str) -> dict[str, Result]:
    return {o.action.id: o.result for o in host.state.vps[uuid_of(name)].history}


def test_the_tightest_of_modes():
    assert tightest(Mode.ENFORCE) is Mode.ENFORCE
    assert tightest(Mode.ENFORCE, Mode.ADVISE) is Mode.ADVISE
    assert tightest(Mode.ADVISE, Mode.ENFORCE, Mode.OBSERVE) is Mode.OBSERVE


@pytest.mark.parametrize(
    ("host_mode", "ordered", "is_done"),
    [
        (Mode.ENFORCE, Mode.ENFORCE, True),
        (Mode.ENFORCE, Mode.ADVISE, False),
        (Mode.ENFORCE, Mode.OBSERVE, False),
        (Mode.ADVISE, Mode.ENFORCE, False),
        (Mode.OBSERVE, Mode.ENFORCE, False),
    ],
)
def test_the_tighter_of_host_and_server_holds(host_mode, ordered, is_done):
    host = a_hurt_pair(mode=ordered, host_mode=host_mode)
    decision = host.ticks(2)[-1]
    assert [a.guest_uuid for a in decision.actions] == ([NEIGHBOUR] if is_done else [])
    assert [a.guest_uuid for a in decision.proposals] == ([] if is_done else [NEIGHBOUR])


def test_what_is_proposed_for_one_server_can_be_accepted():
    host = a_hurt_pair(mode=Mode.ADVISE)
    [proposal] = host.ticks(2)[-1].proposals
    host.approved = frozenset({proposal.id})
    assert [a.id for a in host.tick().actions] == [proposal.id]


@pytest.mark.parametrize(
    ("ordered", "homed"), [(None, True), (Mode.ENFORCE, True), (Mode.ADVISE, False)]
)
def test_homing_always_does_not_outrank_an_order(ordered, homed):
    host = Host(policy=Policy(home_on_arrival=Homing.ALWAYS), mode=Mode.OBSERVE)
    host.add("one", COMPUTE, mode=ordered)
    host.add("two", COMPUTE, mode=ordered)
    host.ticks(2)
    assert (len(host.domains("one")) == 1) is homed


def test_an_action_is_undone_and_held_off():
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    host.run("victim", CHASE)
    host.ticks(12)
    assert host.placement("neighbour") == {1}
    [undo] = revoke(host, action.id).actions
    assert (undo.reason, undo.guest_uuid) == (Reason.REVOKED, NEIGHBOUR)
    assert host.placement("neighbour") == {0}
    assert NEIGHBOUR not in host.applied
    for name in ("neighbour", "victim"):
        assert results(host, name)[action.id] is Result.UNDONE
    assert results(host, "neighbour")[undo.id] is Result.APPLIED
    assert revoke(host, action.id).actions == ()
    host.run("victim", CHASE_HURT)
    moved = [a.guest_uuid for d in host.ticks(100) for a in d.actions]
    assert NEIGHBOUR not in moved
    assert VICTIM in moved, "it is helped otherwise"


def test_it_is_done_again_after_the_hold():
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    revoke(host, action.id)
    host.run("victim", CHASE)
    host.run("neighbour", COMPUTE)
    host.ticks(round(host.policy.reverse_hold_s) + 15)
    host.run("victim", CHASE_HURT)
    host.run("neighbour", STREAM)
    assert host.until(Reason.MOVE_AGGRESSOR).guest_uuid == NEIGHBOUR
    other = host.outcomes[-1].action
    revoke(host, other.id)
    assert len(host.state.held_off) == 1, "those that are over are forgotten"


def test_an_action_that_still_must_prove_itself_needs_to_no_more():
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    assert [p.action.id for p in host.state.pending] == [action.id]
    revoke(host, action.id)
    assert host.state.pending == ()


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_undo_needs_no_mode(mode):
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    host.mode = mode
    host.change(
        "neighbour",
        mode=Mode.OBSERVE,
        unmanaged=Unmanaged.ORDERED_OBSERVE if mode is Mode.ADVISE else None,
    )
    assert [a.reason for a in revoke(host, action.id).actions] == [Reason.REVOKED]
    assert host.placement("neighbour") == {0}


def test_the_later_action_goes_back_to_the_earlier_one():
    host = Host(nodes_of(0, 0, 0, cpus=1), Policy())
    host.add("neighbour", COMPUTE)
    host.ticks(3)
    [homed] = [o.action for o in host.outcomes]
    home = host.placement("neighbour")
    assert len(home) == 1
    host.add("victim", CHASE, cpus=home)
    host.ticks(8)
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)
    moved = host.until(Reason.MOVE_AGGRESSOR)
    assert revoke(host, homed.id).actions == (), "another one stands in its place"
    revoke(host, moved.id)
    assert host.placement("neighbour") == home
    [held] = host.applied[NEIGHBOUR].held
    assert held.original == (host.topology.cpus,)
    revoke(host, homed.id)
    assert NEIGHBOUR not in host.applied


def test_what_nobody_did_and_what_failed_is_not_undone():
    host = a_hurt_pair()
    host.refuse = True
    action = host.until(Reason.MOVE_AGGRESSOR)
    assert revoke(host, action.id, "vp-00000000").actions == ()
    assert results(host, "neighbour")[action.id] is Result.FAILED


def test_an_undoing_is_not_undone():
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    [undo] = revoke(host, action.id).actions
    assert Reason.REVOKED not in {a.reason for a in revoke(host, undo.id).actions}
    assert host.placement("neighbour") == {0}


def test_an_undoing_that_failed_may_be_ordered_again():
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    host.refuse = True
    revoke(host, action.id)
    assert host.placement("neighbour") == {1}
    host.refuse = False
    revoke(host, action.id)
    assert host.placement("neighbour") == {0}


@pytest.mark.parametrize("unmanaged", [Unmanaged.MIGRATING, Unmanaged.FOREIGN_CHANGE])
def test_a_guest_out_of_reach_stays_as_it_is(unmanaged):
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    host.change("neighbour", unmanaged=unmanaged)
    assert revoke(host, action.id).actions == ()


def test_of_an_action_on_several_guests_what_stands_goes_back():
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    [change] = action.changes
    both_domains = (host.topology.cpus,)
    there = replace(change, guest_uuid=VICTIM, to=(frozenset({0}),), original=both_domains)
    there = replace(there, now=(frozenset({1}),))
    both = replace(action, id="both", changes=(*action.changes, there))
    vp = host.state.vps[VICTIM]
    known = replace(host.outcomes[-1], action=both)
    vps = {**host.state.vps, VICTIM: vp._replace(history=(known,))}
    host.state = replace(host.state, vps=vps)
    host.leave("neighbour")
    [undo] = revoke(host, "both").actions
    assert undo.guest_uuid == VICTIM
    assert host.placement("victim") == {1}


@pytest.mark.parametrize(("which", "left"), [(Reason.CAP, 0.7), (Reason.RENEW_CAP, 1.0)])
def test_the_last_step_of_a_cap_is_undone_and_a_renewal_means_all_of_it(which, left):
    host = a_crowd(policy=replace(NO_HOMING, cap_probe_s=600.0))
    host.ticks(60)
    host.until(Reason.RENEW_CAP)
    named = [o.action for o in host.outcomes if o.action.reason is which][-1]
    revoke(host, named.id)
    assert host.cap_ratio("stream") == pytest.approx(left)
    assert (host.guest("stream").quota == NO_QUOTA) is (uuid_of("stream") not in host.state.caps)
    assert Reason.CAP not in {a.reason for d in host.ticks(60) for a in d.actions}


def test_memory_that_is_under_way_goes_back():
    host = far_away()
    host.add("filler", replace(COMPUTE, cores=2.0), cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": replace(COMPUTE, cores=2.0)})
    host.copy_kib_per_s = 1000.0
    change = host.until(Reason.BRING_HOME).change_of(Knob.MEMORY)
    action = host.outcomes[-1].action
    assert host.memory_moves[VICTIM].to == change.to
    [undo] = revoke(host, action.id).actions
    assert undo.change_of(Knob.MEMORY).to == change.now
    assert host.memory_moves[VICTIM].to == change.now


def test_what_was_undone_by_order_is_refused_with_that_reason():
    host = a_hurt_pair()
    action = host.until(Reason.MOVE_AGGRESSOR)
    revoke(host, action.id)
    until = {(NEIGHBOUR, Knob.PLACEMENT): host.now_s + 10}
    state = replace(host.state, held_off=until, cleared_suspects={}, failed_actions={})
    vp = state.vps[NEIGHBOUR]._replace(moved_at_s=None, left=())
    state = replace(state, vps={**state.vps, NEIGHBOUR: vp})
    host.state = state
    host.ticks(2)
    refused = host.tick().refused
    assert Rejection.REVOKED in {one.rejection for one in refused if one.guest_uuid == NEIGHBOUR}
    assert rate_limit((), state, host.now_s, host.policy) == ((), ())


def test_what_leaves_nothing_of_ours_is_not_undone():
    host = a_crowd(well_at=0.85)
    host.until(Reason.CAP)
    host.rule = None
    host.run("victim", CHASE)
    host.run("stream", COMPUTE)
    while host.guest("stream").quota != NO_QUOTA:
        lifted = host.until(Reason.LIFT_CAP, seconds=600)
    assert Reason.REVOKED not in {a.reason for a in revoke(host, lifted.id).actions}
    assert host.guest("stream").quota == NO_QUOTA
