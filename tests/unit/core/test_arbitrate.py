# SPDX-License-Identifier: Apache-2.0
"""Who gets a knob, and who is asked to let go of it."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.base import View
from nova_vp.core.model.cpu_cap import quota_of
from nova_vp.core.model.host import build_host
from nova_vp.core.model.limits import SUSPENDED, compose, floor_of
from nova_vp.core.pipeline.arbitrate import arbitrate
from nova_vp.core.types.claim import Claim, Setting
from nova_vp.core.types.knob import CpuWeight, Knob, MembwShare, Quota
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.service_level import ServiceClass
from tests.unit.core.wishful import OTHER, PLACED, VM, World, cap, llc, place


def test_a_knob_that_does_not_compose_has_one_owner():
    world = World()
    weight = Setting(VM, Knob.CPU_WEIGHT, CpuWeight(200))
    groups = [world.second.group(weight), world.first.group(weight)]
    state, policy = world.host.state, world.host.policy
    picture = world.host.picture()
    host = build_host(picture, state.vps, state.undisturbed)
    view = View(host, (), picture, state, policy)
    granted, refused = arbitrate(groups, state, view)
    assert [one.controller for one in granted] == ["first"]
    assert [one.rejection for one in refused] == [Rejection.OUTRANKED]


def test_nothing_is_granted_for_the_sake_of_who_refuses_help():
    world = World()
    world.host.change("vm", refuses_help=True)
    world.first.wants(place())
    decision = world.host.tick()
    assert decision.actions == ()
    assert [one.rejection for one in decision.refused] == [Rejection.REFUSES_HELP]
    world.first.wants(place(uuid=OTHER))
    assert world.host.tick().actions, "the other one does not refuse"


@pytest.mark.parametrize("flag", ["is_for_host", "is_revert", "gives_back"])
def test_what_is_for_nobody_alone_is_granted_of_who_refuses_help(flag):
    world = World(flags={flag: True})
    world.host.change("vm", refuses_help=True)
    world.first.wants(place())
    assert [action.guest_uuid for action in world.host.tick().actions] == [VM]


def test_who_refuses_help_is_moved_for_who_asked():
    world = World()
    world.host.change("vm", refuses_help=True)
    group = world.first.group(place())
    world.first.wish.groups = (replace(group, on_behalf_of=OTHER),)
    assert [action.guest_uuid for action in world.host.tick().actions] == [VM]
    world.host.change("other", refuses_help=True)
    world.first.wish.groups = (replace(world.first.group(place(cpus=PLACED)), on_behalf_of=OTHER),)
    world.host.ticks(20)
    assert world.host.placement("vm") == {2, 3}


def test_what_its_one_owner_claims_is_what_holds():
    world = World()
    guest, policy = world.host.guest("vm"), world.host.policy
    ours, nova = CpuWeight(200), CpuWeight(100)
    claim = Claim("first", ours, world.first.reason, "first-1", 0.0)
    assert compose(guest, Knob.CPU_WEIGHT, [claim], nova, policy) == ours
    assert compose(guest, Knob.CPU_WEIGHT, [], nova, policy) == nova


def test_a_controller_that_is_enabled_no_longer_raises_no_limit_for_another():
    """Its claim ends in that tick by itself."""
    world = World()
    world.first.wants(cap(0.5))
    world.first.wish.grants = True
    world.host.tick()
    world.host.policy = replace(world.host.policy, controllers=world.host.policy.controllers[1:])
    world.second.wants(relaxes=[cap(0.6)])
    assert [one.rejection for one in world.host.tick().refused] == [Rejection.NOT_RELAXED]


def test_a_limit_that_its_controller_raises_itself_is_raised_once():
    world = World()
    world.first.wants(cap(0.5))
    world.first.wish.grants = True
    world.host.tick()
    world.first.wants(cap(0.6))
    world.second.wants(relaxes=[cap(0.6)])
    decision = world.host.tick()
    assert [one.controller for one in decision.actions] == ["first"]
    assert [one.rejection for one in decision.refused] == [Rejection.OUTRANKED]


def test_bandwidth_has_a_floor_too():
    world = World()
    world.first.wants(Setting(VM, Knob.MEMBW, MembwShare(0.01)))
    world.host.tick()
    guest, policy = world.host.guest("vm"), world.host.policy
    assert guest.membw == floor_of(guest, Knob.MEMBW, MembwShare(), policy)
    assert guest.membw.ratio == policy.membw_floor_ratio


@pytest.mark.parametrize("own", [Quota(), Quota(80_000)])
def test_all_that_nova_gave_is_no_cap(own):
    assert quota_of(own, 1.0) == quota_of(own, 1.2) == own


@pytest.mark.parametrize(
    ("service_class", "least"),
    [(ServiceClass.BEST_EFFORT, SUSPENDED), (ServiceClass.LATENCY_CRITICAL, None), (None, None)],
)
def test_only_a_best_effort_server_may_be_suspended(service_class, least):
    world = World()
    world.host.change("vm", may_suspend=True, service_class=service_class, cap_floor_ratio=0.4)
    floor = floor_of(world.host.guest("vm"), Knob.CPU_CAP, Quota(), world.host.policy)
    assert floor == (least or quota_of(Quota(), 0.4))


@pytest.mark.parametrize("limit", [cap(0.7), llc(0.5)], ids=["cpu", "cache"])
def test_a_latency_critical_server_is_limited_only_by_who_may(limit):
    for may in (False, True):
        world = World(flags={"limits_critical": may})
        world.host.change("vm", service_class=ServiceClass.LATENCY_CRITICAL)
        world.first.wants(limit)
        decision = world.host.tick()
        assert bool(decision.actions) is may
        assert [one.rejection for one in decision.refused] == [Rejection.LATENCY_CRITICAL] * (
            not may
        )
