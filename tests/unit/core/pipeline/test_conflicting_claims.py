# SPDX-License-Identifier: Apache-2.0
"""Claims that come in the way of each other, and values that no server can have."""

import math
from dataclasses import replace

import pytest

from nova_vp.core.controllers.base import Answer, Controller
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.claim import ClaimGroup, Release, Setting
from nova_vp.core.types.knob import NO_QUOTA, CpuWeight, Knob, LlcShare, Quota
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Rejection
from tests.unit.core.build import uuid_of
from tests.unit.core.hosts import NEIGHBOUR, a_hurt_pair
from tests.unit.core.wishful import (
    ELSEWHERE,
    KNOBS,
    NO_LOSS,
    OTHER,
    PLACED,
    VM,
    World,
    a_reason,
    cap,
    enabled,
    llc,
    place,
)


def test_a_floor_above_novas_value_does_not_raise_it():
    world = World()
    world.host.policy = replace(world.host.policy, llc_floor_ratio=0.4)
    world.host.change("vm", llc=LlcShare(0.2))
    world.first.wants(llc(0.1))
    world.host.tick()
    assert world.host.guest("vm").llc.ratio <= 0.2


def test_a_proposal_does_not_shadow_a_limit_that_may_be_applied():
    world = World()
    world.host.change("other", mode=Mode.ADVISE)
    world.first.wants(cap(0.3), cap(0.3, OTHER))
    world.second.wants(cap(0.5))
    world.host.ticks(3)
    assert world.quota.cores == 0.5


def test_the_lease_of_a_limit_is_renewed_though_a_tighter_one_is_proposed():
    world = World()
    world.second.wants(cap(0.5))
    world.host.tick()
    world.host.change("other", mode=Mode.ADVISE)
    world.first.wants(cap(0.3), cap(0.3, OTHER))
    world.host.ticks(65)
    assert world.quota.cores == 0.5


def test_a_limit_ends_in_its_tick_though_a_tighter_one_is_proposed():
    world = World()
    world.second.wants(cap(0.5))
    world.host.tick()
    world.host.mode = Mode.ADVISE
    world.first.wants(cap(0.3))
    world.second.wants()
    world.host.ticks(3)
    assert world.quota == NO_QUOTA


def test_a_group_that_the_host_always_refuses_does_not_keep_others_from_being_applied():
    world = World()
    refuse_llc_of_other(world)
    world.first.wants(cap(0.3), llc(0.3, OTHER))
    world.second.wants(cap(0.5))
    world.host.ticks(60)
    assert world.quota.cores == 0.5


def refuse_llc_of_other(world):
    host = world.host
    granted = host._apply

    def some(action):
        if any((c.guest_uuid, c.knob) == (OTHER, Knob.LLC) for c in action.changes):
            return Outcome(action, Result.FAILED, host.now_s, "the host refused")
        return granted(action)

    host._apply = some


def test_what_stood_before_a_group_stands_again_once_the_group_is_undone():
    world = World()
    world.first.wants(cap(0.5))
    world.host.tick()
    world.first.wants(cap(0.5), llc(0.5))
    (action,) = world.host.tick().actions
    world.host.revoked = frozenset({action.id})
    world.host.tick()
    world.host.revoked = frozenset()
    world.host.tick()
    assert (world.quota.cores, world.host.guest("vm").llc.ratio) == (0.5, 1.0)


def test_a_lost_place_is_applied_again_for_whoever_owns_it_now():
    world = World()
    world.second.wants(place())
    world.host.tick()
    world.second.wants()
    world.second.wish.releases = (Release(VM, Knob.PLACEMENT),)
    world.host.ticks(15)
    world.second.wish.releases = ()
    world.first.wants(place())
    world.host.ticks(15)
    world.host.change("vm", placement=frozenset({0, 1}), vcpu_placement=())
    world.host.ticks(15)
    assert world.host.placement("vm") == {2, 3}


def test_memory_that_is_nearly_there_stays_its_owners():
    world = World()
    kib = world.host.guest("vm").memory_kib
    world.host.change("vm", memory_by_node=((0, kib - 900), (1, 900)))
    world.first.wants(Setting(VM, Knob.MEMORY, ((0, 1.0),)))
    world.host.tick()
    world.first.wants()
    world.host.ticks(2)
    assert (VM, Knob.MEMORY) in world.host.state.claims


@pytest.mark.parametrize("cpus", [(frozenset({99}),), (frozenset(),), ()])
def test_a_place_outside_of_what_nova_allows_is_refused(cpus):
    world = World()
    world.first.wants(place(cpus))
    for decision in world.host.ticks(2):
        assert [one.rejection for one in decision.refused] == [Rejection.INVALID]
    assert world.host.placement("vm") == {0, 1}


def test_a_place_beyond_novas_cpuset_is_refused():
    world = World()
    world.host.change("vm", allowed_cpus=frozenset({0, 1}))
    world.first.wants(place(ELSEWHERE))
    for decision in world.host.ticks(2):
        assert [one.rejection for one in decision.refused] == [Rejection.INVALID]
    assert world.host.placement("vm") == {0, 1}


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param(((0, 0.5),), id="too little"),
        pytest.param(((0, 1.5), (1, -0.5)), id="less than nothing"),
        pytest.param(((7, 1.0),), id="no such node"),
        pytest.param(((0, math.nan),), id="no number"),
    ],
)
def test_shares_of_memory_that_nobody_can_have_are_refused(shares):
    world = World()
    world.first.wants(Setting(VM, Knob.MEMORY, shares))
    decision = world.host.tick()
    assert [one.rejection for one in decision.refused] == [Rejection.INVALID]
    assert world.host.nodes("vm") == {0}


@pytest.mark.parametrize("value", [math.nan, -1.0, 0.0, 2.0, math.inf])
def test_a_share_that_is_no_number_is_not_applied(value):
    world = World()
    world.first.wants(llc(value))
    world.host.ticks(2)
    assert world.host.policy.llc_floor_ratio <= world.host.guest("vm").llc.ratio <= 1.0


@pytest.mark.parametrize("quota", [Quota(0), Quota(-5), Quota(1, 0), Quota(500_000)])
def test_an_odd_quota_is_within_bounds(quota):
    world = World()
    world.first.wants(Setting(VM, Knob.CPU_CAP, quota))
    world.host.ticks(2)
    assert 0.1 <= world.quota.cores <= 1.0


@pytest.mark.parametrize("weight", [0, -1, 10**9])
def test_a_weight_beyond_the_kernels_range_is_not_applied(weight):
    world = World()
    world.host.change("vm", cpu_weight=CpuWeight(100))
    world.first.wants(Setting(VM, Knob.CPU_WEIGHT, CpuWeight(weight)))
    world.host.ticks(2)
    assert 1 <= world.host.guest("vm").cpu_weight.number <= 10_000


def test_a_group_about_a_guest_that_left_does_not_end_the_agent():
    world = World()
    world.first.wish.groups = (replace(world.first.group(cap(0.5)), guest_uuid=uuid_of("gone")),)
    world.host.tick()


@pytest.mark.parametrize(
    "asked",
    [place(), Setting(VM, Knob.CPU_WEIGHT, CpuWeight(7)), Setting(VM, Knob.MEMORY, ((0, 1.0),))],
)
def test_to_raise_what_is_no_limit_does_not_end_the_agent(asked):
    world = World()
    world.first.wants(asked)
    world.host.tick()
    world.second.wants(relaxes=[asked])
    assert [one.rejection for one in world.host.tick().refused] == [Rejection.INVALID]


def test_two_places_in_one_group_do_not_swap_for_ever():
    world = World()
    world.first.wants(place(PLACED), place(ELSEWHERE))
    actions = [a for d in world.host.ticks(100) for a in d.actions]
    assert len(actions) <= 1


def test_a_leave_to_raise_does_not_override_a_tighter_claim_of_the_same_tick():
    world = World()
    world.first.wants(cap(0.5))
    world.first.wish.grants = True
    world.host.tick()
    world.first.wants(cap(0.3))
    world.second.wants(relaxes=[cap(0.6)])
    world.host.tick()
    assert world.quota.cores <= 0.5


def test_one_set_for_each_vcpu_that_are_all_alike_is_refused():
    """It would be read back as one set, and taken for somebody else's change."""
    world = World()
    world.host.change("vm", vcpus=2)
    world.first.wants(place((frozenset({2, 3}), frozenset({2, 3}))))
    assert [one.rejection for one in world.host.tick().refused] == [Rejection.INVALID]


def test_two_equal_caps_written_differently_do_not_take_turns():
    world = World()
    world.first.wants(Setting(VM, Knob.CPU_CAP, Quota(25_000, 50_000)))
    world.second.wants(Setting(VM, Knob.CPU_CAP, Quota(50_000, 100_000)))
    assert sum(len(d.actions) for d in world.host.ticks(30)) == 1
    assert world.quota.cores == 0.5


class Capper(Controller):
    """Caps the neighbour for every detection, whether that ever helped or not."""

    name = "capper"
    reasons = (a_reason("capper-caps", 400, is_verified=True, is_counted=True),)

    def run(self, view, state, settings):
        found = [vp.detection for vp in view.host.vps.values() if vp.detection]
        claims = (cap(0.5, NEIGHBOUR),)
        groups = (
            ClaimGroup("capper", NEIGHBOUR, claims, (), self.reasons[0], NO_LOSS, one)
            for one in found
            if one.suspects
        )
        return Answer(state, tuple(groups))


def test_what_brought_nothing_is_not_done_again_within_the_hold():
    host = a_hurt_pair(enabled(Capper()), cap_floor_ratio=0.1)
    host.knobs = KNOBS
    decisions = host.ticks(300)
    assert [a.reason.code for d in decisions for a in d.actions].count("capper-caps") == 1
    assert Rejection.FAILED_BEFORE in {one.rejection for one in decisions[-1].refused}


def test_a_demand_of_a_guest_that_left_is_no_escalation():
    world = World()
    about = replace(world.first.group(cap(0.5)), guest_uuid=uuid_of("gone"), settings=())
    world.first.wish.groups = (replace(about, unmet_since_s=0.0),)
    assert world.host.tick().escalations == ()
