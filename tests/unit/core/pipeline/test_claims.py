# SPDX-License-Identifier: Apache-2.0
"""Claims of several controllers for one host: what they compose to, who owns what, what ends when.

The controllers here are the tests' own (`tests.unit.core.wishful`).
"""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_vp.core.model.limits import Claims, size
from nova_vp.core.types.claim import Release, Setting
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_LLC_LIMIT,
    NO_QUOTA,
    Applied,
    CpuWeight,
    Held,
    Knob,
    LlcShare,
    Quota,
)
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import REAPPLY, RELEASED, Rejection
from tests.unit.core.build import uuid_of
from tests.unit.core.wishful import ELSEWHERE, OTHER, PLACED, VM, World, cap, llc, place


def test_the_tightest_of_two_caps_holds_whoever_claims_it_first():
    for first, second in ((0.9, 0.5), (0.5, 0.9)):
        world = World()
        world.first.wants(cap(first))
        world.host.tick()
        world.second.wants(cap(second))
        world.host.tick()
        assert world.quota.cores == 0.5


def test_who_relaxes_its_own_cap_does_not_lift_anothers():
    world = World()
    world.first.wants(cap(0.6))
    world.second.wants(cap(0.5))
    world.host.tick()
    world.second.wants(cap(0.9))
    assert world.reasons() == [RELEASED]
    assert world.quota.cores == 0.6, "as far as the first one lets it"
    world.second.wants(cap(0.3))
    assert world.reasons() == [world.second.reason]
    assert world.quota.cores == 0.3


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_two_cappers_that_release_in_either_order_end_with_novas_value(order):
    world = World()
    world.first.wants(cap(0.5), llc(0.5))
    world.second.wants(cap(0.7), llc(0.3))
    world.host.tick()
    assert (world.quota.cores, world.host.guest("vm").llc.ratio) == (0.5, 0.3)
    for name in order:
        world.by_name[name].wants()
        world.host.tick()
    assert (world.quota, world.host.guest("vm").llc) == (NO_QUOTA, NO_LLC_LIMIT)
    assert world.host.applied == {}
    assert world.host.state.claims == {}


def test_a_claim_below_the_floor_comes_down_to_the_floor():
    world = World(floor=0.4)
    world.first.wants(cap(0.2), llc(0.01))
    world.host.tick()
    assert world.quota.cores == 0.4
    assert world.host.guest("vm").llc.ratio == world.host.policy.llc_floor_ratio
    assert world.reasons(3) == [], "it stands"


def test_a_guest_that_is_never_capped_is_never_capped_and_its_group_not_granted():
    world = World(floor=None)
    world.first.wants(cap(0.5), llc(0.5))
    decision = world.host.tick()
    assert decision.actions == ()
    assert [one.rejection for one in decision.refused] == [Rejection.NEVER_CAPPED]
    assert world.host.guest("vm").llc == NO_LLC_LIMIT


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"unmanaged": Unmanaged.OPTED_OUT}, Rejection.UNMANAGED),
        ({}, Rejection.NO_SUCH_KNOB),
    ],
)
def test_what_may_not_be_touched_or_cannot_is_refused(about, why):
    world = World()
    world.host.change("vm", **about)
    world.host.knobs = frozenset({Knob.PLACEMENT})
    world.first.wants(llc(0.5))
    assert [one.rejection for one in world.host.tick().refused] == [why]
    world.first.wants(llc(0.5, uuid_of("nobody")))
    assert [one.rejection for one in world.host.tick().refused] == [Rejection.UNMANAGED]


def test_who_ran_and_stayed_silent_loses_its_claim_in_that_tick():
    world = World()
    world.first.wants(cap(0.5))
    world.host.ticks(3)
    world.first.wants()
    assert world.reasons() == [RELEASED]
    assert world.quota == NO_QUOTA


def test_who_did_not_run_loses_nothing():
    """No server could be measured: silence says nothing then."""
    world = World()
    world.first.wants(cap(0.5))
    world.host.ticks(3)
    world.first.wants()
    runs = world.first.wish.runs
    counts, world.host.counts = world.host.counts, {}
    world.host.rates, rates = {}, world.host.rates
    assert world.reasons(3) == []
    assert (world.quota.cores, world.first.wish.runs) == (0.5, runs)
    world.host.counts, world.host.rates = counts, rates
    world.host.ticks(2)
    assert world.quota == NO_QUOTA


def test_of_one_guest_that_could_not_be_measured_silence_says_nothing():
    world = World()
    world.first.wish.groups = (world.first.group(cap(0.5)), world.first.group(cap(0.5, OTHER)))
    world.host.ticks(3)
    world.first.wants()
    counts = world.host.counts.pop(VM)
    rates = world.host.rates.pop(VM)
    world.host.tick()
    assert (world.quota.cores, world.host.guest("other").quota) == (0.5, NO_QUOTA)
    world.host.counts[VM], world.host.rates[VM] = counts, rates
    world.host.ticks(2)
    assert world.quota == NO_QUOTA


def test_what_a_controller_claimed_ends_when_it_is_disabled():
    world = World()
    world.first.wants(cap(0.5))
    world.host.ticks(2)
    enabled = world.host.policy.controllers
    world.host.policy = replace(world.host.policy, controllers=enabled[1:])
    assert world.reasons() == [RELEASED]
    assert world.quota == NO_QUOTA


def test_a_place_stands_without_being_restated_until_it_is_released():
    world = World()
    world.first.wants(place())
    world.host.tick()
    world.first.wants()
    world.host.ticks(20)
    world.second.wants(place(PLACED))
    decision = world.host.tick()
    assert [one.rejection for one in decision.refused] == [Rejection.OUTRANKED]
    assert world.host.placement("vm") == {2, 3}
    world.first.wish.releases = (Release(VM, Knob.PLACEMENT),)
    world.host.ticks(2)
    assert world.host.placement("vm") == {0, 1}


def test_a_place_yields_to_a_lower_rank_after_its_minimum_hold():
    world = World()
    world.second.wants(place())
    world.host.tick()
    world.second.wants()
    world.first.wants(place(PLACED))
    decision = world.host.tick()
    assert [one.rejection for one in decision.refused] == [Rejection.HOLD]
    world.host.ticks(int(world.host.policy.move_hold_s))
    assert world.host.placement("vm") == {0, 1}


def test_memory_belongs_to_who_claims_the_place():
    world = World()
    world.first.wants(place())
    world.host.tick()
    world.host.ticks(20)
    world.second.wants(Setting(VM, Knob.MEMORY, ((1, 1.0),)))
    assert [one.rejection for one in world.host.tick().refused] == [Rejection.OUTRANKED]


def test_a_group_that_a_place_is_taken_from_yields_as_a_whole():
    world = World()
    world.second.wants(place(), place(uuid=OTHER))
    world.host.tick()
    world.second.wants()
    world.host.ticks(20)
    world.first.wants(place(PLACED))
    world.host.tick()
    owners = {key: claims[0].controller for key, claims in world.host.state.claims.items()}
    assert owners == {(VM, Knob.PLACEMENT): "first"}


def test_a_group_is_granted_whole_or_not_at_all():
    world = World()
    world.first.wants(place())
    world.second.wants(place(PLACED), cap(0.5), llc(0.5, OTHER))
    decision = world.host.tick()
    assert [a.controller for a in decision.actions] == ["first"]
    assert [one.rejection for one in decision.refused] == [Rejection.OUTRANKED]
    assert (world.quota, world.host.guest("other").llc) == (NO_QUOTA, NO_LLC_LIMIT)
    assert {c.controller for claims in world.host.state.claims.values() for c in claims} == {
        "first"
    }


@pytest.mark.parametrize("grants", [True, False])
def test_a_limit_is_raised_for_another_controller_only_by_leave_of_its_own(grants):
    world = World()
    world.first.wants(cap(0.5))
    world.first.wish.grants = grants
    world.host.tick()
    world.second.wants(relaxes=[cap(0.6)])
    decision = world.host.tick()
    assert world.quota.cores == (0.6 if grants else 0.5)
    refused = [one.rejection for one in decision.refused]
    assert refused == ([] if grants else [Rejection.NOT_RELAXED])


def test_every_tighter_limit_must_be_granted():
    world = World(("first", "second", "third"))
    world.first.wants(cap(0.5))
    world.second.wants(cap(0.55))
    world.first.wish.grants = True
    world.host.tick()
    world.third.wants(relaxes=[cap(0.6)])
    assert [one.rejection for one in world.host.tick().refused] == [Rejection.NOT_RELAXED]
    assert world.quota.cores == 0.5


def test_only_the_binding_claim_is_verified():
    world = World(flags={"is_verified": True})
    world.first.wants(cap(0.5))
    world.host.tick()
    world.second.wants(cap(0.8))
    world.host.tick()
    assert [one.action.controller for one in world.host.state.pending] == ["first"]
    world.first.wants()
    world.host.ticks(2)
    assert world.quota.cores == 0.8


def test_what_is_overtaken_by_a_tighter_claim_is_not_judged():
    world = World(flags={"is_verified": True})
    world.first.wants(cap(0.8))
    world.host.tick()
    world.second.wants(cap(0.5))
    world.host.ticks(2)
    pending = {one.action.controller for one in world.host.state.pending}
    assert pending == {"second"}


def test_a_limit_that_the_host_lost_is_set_again():
    world = World()
    world.first.wants(llc(0.5), cap(0.5))
    world.host.ticks(2)
    world.host.change("vm", llc=NO_LLC_LIMIT, quota=NO_QUOTA)
    assert world.reasons() == [REAPPLY, REAPPLY]
    assert (world.host.guest("vm").llc.ratio, world.quota.cores) == (0.5, 0.5)


def test_what_the_host_refuses_is_not_asked_of_it_again_at_once():
    world = World()
    world.first.wants(llc(0.5))
    world.host.refuse = True
    assert world.reasons() == [world.first.reason]
    decision = world.host.tick()
    assert (decision.actions, [one.rejection for one in decision.refused]) == (
        (),
        [Rejection.HOST_REFUSED],
    )
    world.host.refuse = False
    world.host.ticks(int(world.host.policy.move_hold_s))
    assert world.host.guest("vm").llc.ratio == 0.5
    world.host.change("vm", llc=NO_LLC_LIMIT)
    world.host.refuse = True
    assert world.reasons(5) == [REAPPLY]


def test_a_limit_that_somebody_else_changed_is_respected():
    world = World()
    world.first.wants(llc(0.5), cap(0.5))
    world.host.tick()
    world.host.change("vm", llc=LlcShare(0.7))
    decision = world.host.tick()
    assert (decision.foreign, decision.actions) == ((VM,), ())


def test_a_group_with_a_place_is_restated_as_a_whole():
    world = World()
    world.first.wants(place(), cap(0.5))
    assert world.reasons() == [world.first.reason]
    decisions = world.host.ticks(20)
    assert not any(d.actions or d.refused for d in decisions)


def test_a_limit_in_the_journal_that_nobody_claims_goes_back():
    world = World()
    world.host.change("vm", quota=Quota(50_000))
    held = Held(Knob.CPU_CAP, Quota(50_000), NO_QUOTA, "gone", "gone-1", world.host.now_s + 60)
    world.host.applied[VM] = Applied(VM, 1, (held,))
    assert world.reasons() == [RELEASED]
    assert world.quota == NO_QUOTA


def test_leases_of_all_limits_are_renewed_as_long_as_they_are_claimed():
    world = World()
    world.first.wants(cap(0.5), llc(0.5))
    world.host.tick()
    decisions = world.host.ticks(300)
    assert not any(d.actions for d in decisions)
    renewed = {(one.guest_uuid, one.knob) for d in decisions for one in d.renewals}
    assert renewed == {(VM, Knob.CPU_CAP), (VM, Knob.LLC)}
    assert (world.quota.cores, world.host.guest("vm").llc.ratio) == (0.5, 0.5)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_where_the_mode_does_not_let_us_a_lease_runs_out(mode):
    world = World()
    world.first.wants(cap(0.5))
    world.host.tick()
    world.host.mode = mode
    world.host.ticks(65)
    assert world.quota == NO_QUOTA
    assert world.host.state.claims == {}


def a_weighted_world(number: int) -> World:
    """Nova gave the server a weight of 100; the second controller claims this one."""
    world = World()
    world.host.change("vm", cpu_weight=CpuWeight(100))
    world.second.wants(weight(number))
    world.host.tick()
    return world


def weight(number: int) -> Setting:
    return Setting(VM, Knob.CPU_WEIGHT, CpuWeight(number))


def test_a_weight_has_one_owner_and_yields_to_a_lower_rank():
    world = a_weighted_world(400)
    assert world.host.guest("vm").cpu_weight == CpuWeight(400)
    world.first.wants(weight(50))
    world.host.tick()
    assert world.host.guest("vm").cpu_weight == CpuWeight(50)
    assert [one.rejection for one in world.host.tick().refused] == [Rejection.OUTRANKED]


def test_a_weight_that_is_not_restated_goes_back():
    world = a_weighted_world(400)
    assert world.reasons(100) == [], "its lease is renewed"
    world.second.wants()
    assert world.reasons() == [RELEASED]
    assert world.host.guest("vm").cpu_weight == CpuWeight(100)
    assert world.host.state.claims == {}


def test_a_weight_that_the_host_wrote_back_is_set_again():
    """systemd does that at a daemon-reload."""
    world = a_weighted_world(400)
    world.host.change("vm", cpu_weight=CpuWeight(100))
    assert world.reasons() == [REAPPLY]
    assert world.host.guest("vm").cpu_weight == CpuWeight(400)


@pytest.mark.parametrize("theirs", [CpuWeight(50), NO_CPU_WEIGHT])
def test_a_weight_that_is_neither_ours_nor_the_original_is_somebody_elses(theirs):
    world = a_weighted_world(400)
    world.host.change("vm", cpu_weight=theirs)
    assert world.host.tick().foreign == (VM,)


ratios = st.sampled_from([0.05, 0.3, 0.5, 0.75, 0.95])
wishes = st.one_of(
    st.none(),
    st.builds(cap, ratios),
    st.builds(llc, ratios),
    st.builds(place, st.sampled_from([PLACED, ELSEWHERE])),
)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["first", "second", "third"]), st.lists(wishes, max_size=3)),
        min_size=1,
        max_size=12,
    ),
    floor=st.sampled_from([0.1, 0.4]),
)
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_whatever_is_claimed_the_host_keeps_floors_bounds_and_owners(steps, floor):
    world = World(("first", "second", "third"), floor=floor)
    for name, wanted in steps:
        claims = {one.knob: one for one in wanted if one is not None}
        world.by_name[name].wants(*claims.values())
        before = dict(world.host.state.claims)
        decision = world.host.tick()
        check(world, floor, before)
        for action in decision.actions:
            if action.claims:
                granted = {(one.guest_uuid, one.knob) for one in action.claims}
                stands = {
                    key
                    for key, some in world.host.state.claims.items()
                    if any(one.controller == action.controller for one in some)
                }
                assert granted <= stands, "half a group"
    for one in world.by_name.values():
        one.wants()
        one.wish.releases = (Release(VM, Knob.PLACEMENT), Release(VM, Knob.MEMORY))
    world.host.ticks(3)
    assert (world.quota, world.host.guest("vm").llc) == (NO_QUOTA, NO_LLC_LIMIT)
    assert world.host.state.claims == {}


def check(world: World, floor: float, before: Claims) -> None:
    """`before`: a limit whose group yielded in this tick is given back in the next one."""
    guest, claims = world.host.guest("vm"), world.host.state.claims
    least = world.host.policy.llc_floor_ratio
    holds = ((Knob.CPU_CAP, guest.quota, floor), (Knob.LLC, guest.llc, least))
    for knob, value, lowest in holds:
        now = [size(one.value) for one in claims.get((VM, knob), ())]
        then = [size(one.value) for one in before.get((VM, knob), ())]
        assert lowest <= size(value) <= 1.0, "below the floor, or more than Nova gave"
        assert size(value) <= max(lowest, min(now, default=1.0)), "looser than the tightest claim"
        assert size(value) >= min((*now, *then), default=1.0), "tighter than anybody claims"
    for (_, knob), some in claims.items():
        owners = [one.controller for one in some]
        assert len(set(owners)) == len(owners)
        assert knob in (Knob.CPU_CAP, Knob.LLC) or len(owners) == 1, "two owners"
