# SPDX-License-Identifier: Apache-2.0
"""What each LLC domain is told to be for newcomers."""

from dataclasses import replace

import pytest

from nova_vp.core.model.host import build_host
from nova_vp.core.model.location import Location
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Isolation
from nova_vp.core.types.sample import Incomplete
from nova_vp.core.types.topology import Limits, LlcDomain, Topology
from tests.unit.core.build import (
    CHASE,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    nodes_of,
    two_sockets,
    uuid_of,
)
from tests.unit.core.wishful import NOBODY, OTHER, PLACED, World, place


def test_a_strict_resident_that_would_be_hurt_is_told_apart():
    host = Host(policy=NOBODY)
    host.add("any", CHASE, cpus={0})
    host.add("strict", CHASE, cpus={1}, isolation=Isolation.STRICT)
    plain, strict = host.ticks(5)[-1].domains
    assert plain.table[9].worst_resident_ratio > 0.05
    assert plain.table[9].worst_strict_ratio == 0
    assert strict.table[9].worst_strict_ratio == strict.table[9].worst_resident_ratio > 0.05


def test_the_host_without_guests_has_empty_domains_in_its_decision():
    decision = Host(policy=NOBODY).tick()
    assert [d.free_cores for d in decision.domains] == [1, 1]
    assert all(h.worst_ratio == 0 for d in decision.domains for h in d.table)


def test_a_streaming_domain_forbids_itself_to_unknown_newcomers():
    host = Host(policy=NOBODY)
    host.add("stream", STREAM, cpus={0})
    decision = host.ticks(5)[-1]
    hostile, free = decision.domains
    assert hostile.table[9].newcomer_ratio > 0.05
    assert free.table[9].newcomer_ratio == 0


def test_who_has_never_done_anything_is_no_danger_and_who_was_never_seen_may_be():
    host = Host(policy=NOBODY)
    host.add("asleep", replace(CHASE, mips=0.1, cores=0.0), cpus={0})
    host.add("unread", CHASE, cpus={1})
    del host.counts[uuid_of("unread")], host.rates[uuid_of("unread")]
    decision = host.ticks(17)[-1]
    assert host.view("asleep", decision).incomplete is Incomplete.IDLE
    asleep, unread = decision.domains
    living_off_cache = 4
    assert asleep.table[living_off_cache].newcomer_ratio < 0.01
    assert unread.table[living_off_cache].newcomer_ratio > 0.05


def test_a_host_whose_cycles_are_not_counted_is_judged_all_the_same():
    host = Host(policy=NOBODY)
    host.add("asleep", replace(CHASE, mips=0.1), cpus={0})
    host.add("uncounted", replace(COMPUTE, cpi=0.0), cpus={1})
    assert len(host.ticks(7)[-1].domains) == 2


def test_domains_are_told_as_the_actions_leave_them():
    world = World()
    world.first.wants(place(PLACED), place(PLACED, OTHER))
    world.host.change("vm", placement=world.host.topology.cpus)
    taken, free = world.host.tick().domains
    assert (taken.allocated_vcpus, free.allocated_vcpus) == (2, 0)
    assert free.table[9].worst_ratio == 0


@pytest.mark.parametrize(("vcpus", "lost"), [(2, 0.0), (4, 1 / 3)])
def test_a_server_of_two_domains_takes_half_of_its_cpu_in_each(vcpus, lost):
    """Of the two CPUs of each domain it leaves one, which is all that a newcomer wants; or none."""
    host = Host(two_sockets(2), NOBODY)
    host.add("wide", replace(COMPUTE, cores=float(vcpus)), vcpus=vcpus, cpus={0, 1, 2, 3})
    for domain in host.ticks(5)[-1].domains:
        assert domain.table[0].newcomer_ratio == pytest.approx(lost, abs=0.01)


STATE_8 = Rates(mips=300, l2_mpki=35.0, mpki=30.0, cpi=7.0, cores=1.0)
BUSY = Rates(mips=2000, l2_mpki=0.01, cpi=1.0, cores=1.0)
NEWCOMER_8 = 8


def host_of_state_8(count: int, isolation: Isolation = Isolation.STRICT, **about) -> Host:
    """Two LLCs on node 0 with their memory there, and an idle node 1."""
    host = Host(nodes_of(0, 0, 1, cpus=8), NOBODY, **about)
    for number in range(count):
        first = 8 * (number % 2)
        host.add(
            f"eight{number}",
            STATE_8,
            cpus=set(range(first, first + 8)),
            node=0,
            isolation=isolation,
        )
    return host


def test_state_8_servers_on_one_node_are_predicted_to_degrade_each_other_uncalibrated():
    """Their caches are of no use to them: it is the memory controller that they share."""
    here, there, idle = host_of_state_8(3).ticks(12)[-1].domains
    for domain in (here, there):
        lost = domain.table[NEWCOMER_8]
        assert min(lost.newcomer_ratio, lost.worst_strict_ratio) > 0.05
        assert lost.resource is Kind.CONTROLLER
    assert idle.table[NEWCOMER_8].worst_ratio < 0.01


def test_a_calibrated_controller_is_judged_by_what_it_serves():
    able = host_of_state_8(3, limits=Limits(node_misses_per_s=1e9)).ticks(12)[-1].domains[0]
    weak = host_of_state_8(3, limits=Limits(node_misses_per_s=3e7)).ticks(12)[-1].domains[0]
    assert able.table[NEWCOMER_8].worst_ratio < 0.01
    assert weak.table[NEWCOMER_8].worst_ratio > 0.05


def test_a_newcomer_that_would_fill_a_controller_alone_still_loses_beside_those_who_do():
    """What is lost to others is held against what it would get alone, not against what it asks."""
    weak = Limits(node_misses_per_s=2e6)
    alone, beside = (
        host_of_state_8(count, limits=weak).ticks(12)[-1].domains[0].table[NEWCOMER_8]
        for count in (0, 3)
    )
    assert alone.newcomer_ratio < 0.01
    assert beside.newcomer_ratio > 0.3


@pytest.mark.parametrize(("servers", "waits"), [(3, False), (4, True)])
def test_an_overcommitted_domain_predicts_cpu_waiting(servers, waits):
    host = Host(nodes_of(0, 1, cpus=4), NOBODY)
    for number in range(servers):
        host.add(f"busy{number}", BUSY, cpus={0, 1, 2, 3}, isolation=Isolation.STRICT)
    full, free = host.ticks(17)[-1].domains
    lost = full.table[0]
    assert (lost.newcomer_ratio > 0.15) is (lost.worst_strict_ratio > 0.15) is waits
    assert (lost.resource is Kind.CPU) is waits
    assert free.table[0].worst_ratio == 0


def test_cpu_that_servers_wait_for_is_wanted_besides_what_they_use():
    told = []
    for run_delay_s in (0.0, 1.0):
        host = Host(nodes_of(0, 1, cpus=4), NOBODY)
        host.add("half", replace(BUSY, cores=2.0), cpus={0, 1, 2, 3}, vcpus=4)
        for second in range(17):
            ran, waited = round(2e9 * second), round(3e9 * run_delay_s * second)
            host.change("half", cpu_times=CpuTimes(ran, waited, 0, "1"))
            told.append(host.tick().domains[0].table[0].newcomer_ratio)
    assert told[16] == 0
    assert told[-1] > 0.05


def test_siblings_of_a_core_count_as_sharing_it():
    """Two busy servers on four CPUs have a core each; with a third, two of them share one."""
    cpus = frozenset(range(4))
    lost = []
    for shared in ((), (frozenset({0, 2}), frozenset({1, 3}))):
        host = Host(Topology((LlcDomain(0, 0, cpus, shared),)), NOBODY)
        for number in range(2):
            host.add(f"busy{number}", BUSY, cpus=set(cpus))
        lost.append(host.ticks(17)[-1].domains[0].table[0])
    assert lost[0].worst_ratio == 0
    assert min(lost[1].newcomer_ratio, lost[1].worst_resident_ratio) > 0.1


def test_a_newcomer_uses_as_much_cpu_as_most_of_its_class_here():
    host = Host(nodes_of(0, cpus=4), NOBODY)
    for number in range(10):
        host.add(f"light{number}", replace(BUSY, mips=700, cores=0.35), cpus={0, 1, 2, 3})
    [domain] = host.ticks(17)[-1].domains
    assert domain.table[0].worst_ratio == 0
    assert domain.table[8].worst_ratio > 0.05


def test_losses_are_told_by_resource():
    """The caches, the memory and the CPUs of this domain cost a newcomer each, and all of them."""
    host = Host(nodes_of(0, 1, cpus=8), NOBODY)
    for name, rates in (("stream", STATE_8), ("more", STATE_8), ("hot", STATE_8)):
        host.add(name, rates, cpus=set(range(8)), node=0)
    for number in range(6):
        host.add(f"busy{number}", BUSY, cpus=set(range(8)))
    busy, idle = host.ticks(17)[-1].domains
    assert set(busy.by_resource) == {Kind.CACHE, Kind.CONTROLLER, Kind.CPU}
    for by_class in busy.by_resource.values():
        assert by_class[4] > 0.02
    combined = busy.table[4]
    worst = max(busy.by_resource, key=lambda kind: busy.by_resource[kind][4])
    assert combined.resource is worst
    assert busy.by_resource[worst][4] <= combined.worst_ratio
    assert {ratio for by_class in idle.by_resource.values() for ratio in by_class} == {0.0}


def test_who_meets_a_newcomer_at_its_memory_alone_loses_to_the_controller():
    """In a cache of the same node where nobody lives."""
    host = Host(nodes_of(0, 0, cpus=8), NOBODY)
    for number in range(3):
        host.add(f"eight{number}", STATE_8, cpus=set(range(8)), node=0)
    _, apart = host.ticks(12)[-1].domains
    lost = apart.table[0]
    assert lost.worst_resident_ratio > 0.02 > lost.newcomer_ratio
    assert apart.by_resource[Kind.CONTROLLER][0] == pytest.approx(lost.worst_resident_ratio)
    assert lost.resource is Kind.CONTROLLER


def test_remote_memory_is_predicted_to_cost_its_owner_and_nobody_else():
    """The other one lives where it would come to, and its memory is as far away already."""
    host = host_of_state_8(1)
    host.add("other", replace(STATE_8, mips=3, l2_mpki=30.0), cpus=set(range(16, 24)), node=0)
    host.ticks(6)
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    model = WhatIfModel(seen, host.limits, host.policy)
    uuid = uuid_of("eight0")
    near, far = (model.predict(uuid, Location({2: 1.0}, {node: 1.0})) for node in (1, 0))
    assert near.newcomer_ratio < 0.01
    assert far.newcomer_ratio > 0.1
    assert far.resource is Kind.REMOTE
    assert max(near.worst_resident_ratio, far.worst_resident_ratio) < 0.05


def test_memory_that_is_far_already_keeps_no_newcomer_away():
    host = Host(nodes_of(0, 1, cpus=8), NOBODY)
    host.add("far", STATE_8, cpus=set(range(8)), node=1, isolation=Isolation.STRICT)
    assert host.ticks(17)[-1].domains[0].table[0].worst_strict_ratio < 0.05


def test_what_neighbours_lose_in_another_cache_keeps_no_newcomer_away():
    host = Host(nodes_of(0, 0, cpus=8), NOBODY)
    evicted = replace(CHASE, mpki=25.0, cpi=6.0)
    host.add("strict", evicted, cpus=set(range(8)), node=0, isolation=Isolation.STRICT)
    host.add("stream", STREAM, cpus=set(range(8)), node=0)
    beside, apart = host.ticks(17)[-1].domains
    assert beside.table[0].worst_strict_ratio > 0.05
    assert apart.table[0].worst_strict_ratio < 0.05
