# SPDX-License-Identifier: Apache-2.0
"""What people order: a mode for one server alone, and the undoing of one action."""

from dataclasses import replace

import pytest

from nova_vp.core.types.action import Action, Result
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode, tightest
from nova_vp.core.types.reason import REVOKED, Rejection
from tests.unit.core import hosts
from tests.unit.core.build import (
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    nodes_of,
    uuid_of,
)
from tests.unit.core.hosts import NEIGHBOUR, VICTIM
from tests.unit.core.wishful import MOVES, VM, Mover, Wishful, World, enabled, place

MOVER = enabled(Mover())
HOME = {2}


def a_hurt_pair(**about) -> Host:
    return hosts.a_hurt_pair(MOVER, **about)


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
        (Mode.ENFORCE, None, True),
        (Mode.ENFORCE, Mode.ADVISE, False),
        (Mode.ENFORCE, Mode.OBSERVE, False),
        (Mode.ADVISE, None, False),
        (Mode.OBSERVE, None, False),
        # No mode is set for the host.
        (Mode.OBSERVE, Mode.ADVISE, False),
        (Mode.OBSERVE, Mode.ENFORCE, True),
    ],
)
def test_what_holds_for_a_server_is_what_counts_for_it(host_mode, ordered, is_done):
    host = a_hurt_pair(mode=ordered, host_mode=host_mode)
    decision = host.ticks(2)[-1]
    assert [a.guest_uuid for a in decision.actions] == ([NEIGHBOUR] if is_done else [])
    assert [a.guest_uuid for a in decision.proposals] == ([] if is_done else [NEIGHBOUR])


def test_what_is_proposed_for_one_server_can_be_accepted():
    host = a_hurt_pair(mode=Mode.ADVISE)
    [proposal] = host.ticks(2)[-1].proposals
    host.approved = frozenset({proposal.id})
    assert [a.id for a in host.tick().actions] == [proposal.id]


def test_an_action_is_undone_and_held_off():
    host = a_hurt_pair()
    action = host.until(MOVES)
    host.run("victim", CHASE)
    host.ticks(12)
    assert host.placement("neighbour") == {1}
    [undo] = revoke(host, action.id).actions
    assert (undo.reason, undo.guest_uuid) == (REVOKED, NEIGHBOUR)
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
    action = host.until(MOVES)
    revoke(host, action.id)
    host.run("victim", CHASE)
    host.run("neighbour", COMPUTE)
    host.ticks(round(host.policy.reverse_hold_s) + 15)
    host.run("victim", CHASE_HURT)
    host.run("neighbour", STREAM)
    assert host.until(MOVES).guest_uuid == NEIGHBOUR
    other = host.outcomes[-1].action
    over = {(VICTIM, Knob.PLACEMENT): host.now_s - 1}
    host.state = replace(host.state, held_off={**host.state.held_off, **over})
    revoke(host, other.id)
    held_off = host.state.held_off.keys()
    assert held_off == {(NEIGHBOUR, Knob.PLACEMENT)}, "those that are over are forgotten"


def test_an_action_that_still_must_prove_itself_needs_to_no_more():
    host = a_hurt_pair()
    action = host.until(MOVES)
    assert [p.action.id for p in host.state.pending] == [action.id]
    revoke(host, action.id)
    assert host.state.pending == ()


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_undo_needs_no_mode(mode):
    host = a_hurt_pair()
    action = host.until(MOVES)
    host.mode = mode
    host.change(
        "neighbour",
        mode=Mode.OBSERVE,
        unmanaged=Unmanaged.OVERRIDE_OBSERVE if mode is Mode.ADVISE else None,
    )
    assert [a.reason for a in revoke(host, action.id).actions] == [REVOKED]
    assert host.placement("neighbour") == {0}


def a_neighbour_moved_from_its_home() -> tuple[Host, Action, Action]:
    """With what placed it there, and what moved it away."""
    placer = Wishful("placer", 800)
    host = Host(nodes_of(0, 0, 0, cpus=1), enabled(placer, Mover()))
    host.add("neighbour", COMPUTE)
    placer.wants(place((frozenset(HOME),), NEIGHBOUR))
    host.ticks(3)
    [homed] = [o.action for o in host.outcomes]
    placer.wants()
    assert host.placement("neighbour") == HOME
    host.add("victim", CHASE, cpus=HOME)
    host.ticks(8)
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)
    return host, homed, host.until(MOVES)


def test_the_later_action_goes_back_to_the_earlier_one():
    host, homed, moved = a_neighbour_moved_from_its_home()
    assert revoke(host, homed.id).actions == (), "another one stands in its place"
    revoke(host, moved.id)
    assert host.placement("neighbour") == HOME
    [held] = host.applied[NEIGHBOUR].held
    assert held.original == (host.topology.cpus,)
    revoke(host, homed.id)
    assert NEIGHBOUR not in host.applied


def test_what_nobody_did_and_what_failed_is_not_undone():
    host = a_hurt_pair()
    host.refuse = True
    action = host.until(MOVES)
    assert revoke(host, action.id, "vp-00000000").actions == ()
    assert results(host, "neighbour")[action.id] is Result.FAILED


def test_an_undoing_is_not_undone():
    host = a_hurt_pair()
    action = host.until(MOVES)
    [undo] = revoke(host, action.id).actions
    assert REVOKED not in {a.reason for a in revoke(host, undo.id).actions}
    assert host.placement("neighbour") == {0}


def test_an_undoing_that_went_back_to_an_earlier_action_is_not_undone_either():
    host, _, moved = a_neighbour_moved_from_its_home()
    [undo] = revoke(host, moved.id).actions
    assert REVOKED not in {a.reason for a in revoke(host, undo.id).actions}
    assert host.placement("neighbour") == HOME


def test_an_undoing_that_failed_may_be_ordered_again():
    host = a_hurt_pair()
    action = host.until(MOVES)
    host.refuse = True
    revoke(host, action.id)
    assert host.placement("neighbour") == {1}
    host.refuse = False
    revoke(host, action.id)
    assert host.placement("neighbour") == {0}


@pytest.mark.parametrize("unmanaged", [Unmanaged.MIGRATING, Unmanaged.FOREIGN_CHANGE])
def test_a_guest_out_of_reach_stays_as_it_is(unmanaged):
    host = a_hurt_pair()
    action = host.until(MOVES)
    host.change("neighbour", unmanaged=unmanaged)
    assert revoke(host, action.id).actions == ()


def test_of_an_action_on_several_guests_what_stands_goes_back():
    host = a_hurt_pair()
    action = host.until(MOVES)
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


def test_memory_that_is_under_way_goes_back():
    world = World()
    host = world.host
    host.copy_kib_per_s = 1000.0
    world.first.wants(Setting(VM, Knob.MEMORY, ((1, 1.0),)))
    host.tick()
    action = host.outcomes[-1].action
    change = action.change_of(Knob.MEMORY)
    assert host.memory_moves[VM].to == change.to
    [undo] = revoke(host, action.id).actions
    assert undo.change_of(Knob.MEMORY).to == change.now
    assert host.memory_moves[VM].to == change.now


def test_what_was_undone_by_order_is_refused_with_that_reason():
    host = a_hurt_pair()
    action = host.until(MOVES)
    revoke(host, action.id)
    until = {(NEIGHBOUR, Knob.PLACEMENT): host.now_s + 10}
    state = replace(host.state, held_off=until, cleared_suspects={}, failed_actions={})
    vp = state.vps[NEIGHBOUR]._replace(moved_at_s=None, left=())
    state = replace(state, vps={**state.vps, NEIGHBOUR: vp})
    host.state = state
    host.ticks(2)
    refused = host.tick().refused
    assert Rejection.REVOKED in {one.rejection for one in refused if one.guest_uuid == NEIGHBOUR}
