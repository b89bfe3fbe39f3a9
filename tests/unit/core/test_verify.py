# SPDX-License-Identifier: Apache-2.0
"""What brought nothing goes back: to what stood before it, and with what it was done together."""

from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.reason import INEFFECTIVE
from tests.unit.core.wishful import ELSEWHERE, OTHER, VM, World, a_reason, cap, llc, place


def a_world() -> World:
    """Everybody was seen for long enough to be measured by."""
    world = World(flags={"is_verified": True})
    world.host.ticks(world.host.policy.settle_samples)
    return world


def until_judged(world: World) -> None:
    """All but the tick in which it is."""
    world.host.ticks(int(world.host.policy.effect_window_s))


def test_a_step_that_brought_nothing_goes_back_to_the_step_before():
    world = a_world()
    world.first.wants(cap(0.8))
    world.host.ticks(8)
    world.first.wants(cap(0.5))
    world.host.tick()
    until_judged(world)
    world.first.wants(cap(0.8))
    assert world.reasons() == [INEFFECTIVE]
    assert world.quota.cores == 0.8


def test_what_others_claim_stands_when_something_goes_back():
    world = a_world()
    world.second.reason = a_reason("is-not-verified", 300)
    world.second.wants(cap(0.9), llc(0.9, OTHER))
    world.host.ticks(8)
    world.first.wants(cap(0.5))
    world.host.tick()
    until_judged(world)
    world.first.wants()
    assert world.reasons() == [INEFFECTIVE]
    assert world.quota.cores == 0.9
    [claim] = world.host.state.claims[VM, Knob.CPU_CAP]
    assert claim.controller == "second"
    assert world.host.guest("other").llc.ratio == 0.9


def test_what_is_mainly_about_a_guest_that_is_not_ours_any_more_stays():
    world = a_world()
    world.first.wants(place(), place(uuid=OTHER))
    world.host.tick()
    world.first.wants()
    world.host.change("vm", unmanaged=Unmanaged.OPTED_OUT)
    until_judged(world)
    assert world.reasons(2) == []
    assert world.host.placement("other") == {2, 3}
    assert world.host.state.pending == ()


def test_of_a_group_with_a_cap_only_the_place_is_one_to_which_nobody_goes_back():
    world = World(flags={"takes_away": True})
    world.first.wants(place(), cap(0.5))
    world.host.tick()
    [(left, _)] = world.host.state.vps[VM].left
    assert left == {0, 1}
    assert world.host.placement("vm") == set(ELSEWHERE[0])
