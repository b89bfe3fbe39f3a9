# SPDX-License-Identifier: Apache-2.0
"""A suspect is left less of the cache, or of the bandwidth, where the hardware can part them."""

from dataclasses import replace

from nova_vp.core.controllers.vp.declaration import CAP, PARTITION
from nova_vp.core.types.knob import Knob, LlcShare, MembwShare
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import REAPPLY, Rung
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.core.types.topology import Limits
from tests.policies import settings_of, with_numbers
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, Rates, nodes_of, uuid_of
from tests.unit.core.controllers.vp.hosts import POLICY, crowd
from tests.unit.core.hosts import trapped

LIVES_OFF_CACHE = Rates(mips=30, l2_mpki=100.0, mpki=20.0, cpi=4.0, cores=1.0)
"""State 2: cache-sensitive."""
STORE = Rates(mips=40, l2_mpki=40.0, mpki=14.0, cpi=2.0, cores=0.5)
STORM = Rates(mips=40, l2_mpki=70.0, mpki=60.0, cpi=2.0, cores=0.5)


def test_the_host_that_has_partitions_uses_them_before_caps():
    host = trapped(POLICY, cap_floor_ratio=0.5)
    host.knobs = frozenset(Knob)
    action = host.until(PARTITION)
    assert action.rung is Rung.PARTITION
    assert host.guest("storm").llc.ratio == settings_of(POLICY, "vp").partition_llc_ratio


def test_a_host_that_limits_bandwidth_alone_limits_no_cache():
    host = crowd(cap_floor_ratio=0.2)
    host.knobs = frozenset(Knob) - {Knob.LLC}
    assert host.until(CAP).guest_uuid == uuid_of("storm")


def test_on_a_hot_controller_it_is_bandwidth_that_is_held_back():
    limits = Limits(node_misses_per_s=1e6)
    knobs = frozenset(Knob) - {Knob.LLC}
    host = Host(nodes_of(0, 0), POLICY, knobs=knobs, limits=limits)
    host.add("victim", STORE, cpus={0, 1}, node=0)
    host.add("storm", COMPUTE, cpus={2, 3}, node=0)
    host.ticks(6)
    host.run("victim", replace(STORE, mips=20, cpi=4.0))
    host.run("storm", STORM)
    action = host.until(PARTITION)
    storm = host.guest("storm")
    assert storm.membw == MembwShare(settings_of(POLICY, "vp").partition_bandwidth_ratio)
    assert storm.llc == LlcShare()
    assert action.rung is Rung.PARTITION


def test_no_part_is_claimed_below_its_floor():
    """The part that stands would be asked for again, and nothing else done."""
    host = crowd()
    host.policy = with_numbers(POLICY, partition_llc_ratio=0.01, llc_floor_ratio=0.2)
    action = host.until(PARTITION)
    assert [one.value for one in action.claims] == [LlcShare(0.2)]
    assert host.guest("storm").llc == LlcShare(0.2)


def test_a_partition_that_the_host_forgot_is_made_again():
    host = crowd()
    host.until(PARTITION)
    made = host.guest("storm").llc
    host.run("victim", CHASE)
    host.ticks(3)
    host.change("storm", llc=LlcShare())
    host.until(REAPPLY, seconds=20)
    assert host.guest("storm").llc == made


def test_who_lives_off_the_cache_is_left_it():
    """It loses as much without it as its victim does."""
    host = crowd(cap_floor_ratio=0.2)
    host.run("victim", CHASE)
    host.run("storm", LIVES_OFF_CACHE)
    host.ticks(40)
    host.run("victim", CHASE_HURT)
    host.run("storm", replace(LIVES_OFF_CACHE, mips=90))
    assert host.until(CAP).guest_uuid == uuid_of("storm")


def test_a_share_of_the_cache_is_taken_before_any_cpu():
    """Although the victim was seen for long enough to cap the storm."""
    host = trapped(POLICY, cap_floor_ratio=0.5)
    host.change("victim", priority=50.0)
    host.run("storm", replace(STREAM, cores=1.0))
    host.knobs, host.mode = frozenset(Knob), Mode.OBSERVE
    host.ticks(9)
    host.mode = Mode.ENFORCE
    [action] = host.tick().actions
    assert action.reason is PARTITION


def test_a_latency_critical_server_is_neither_parted_nor_capped():
    host = crowd(cap_floor_ratio=0.2, service_class=ServiceClass.LATENCY_CRITICAL)
    host.ticks(60)
    assert {one.action.reason for one in host.outcomes}.isdisjoint({CAP, PARTITION})
    assert host.outcomes == []
