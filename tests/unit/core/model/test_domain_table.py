# SPDX-License-Identifier: Apache-2.0
"""What each LLC domain is told to be for newcomers."""

from dataclasses import replace

from nova_vp.core.types.guest import Isolation
from nova_vp.core.types.sample import Incomplete
from tests.unit.core.build import CHASE, COMPUTE, STREAM, Host, uuid_of
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
    host.add("asleep", replace(CHASE, mips=0.1), cpus={0})
    host.add("unread", CHASE, cpus={1})
    del host.counts[uuid_of("unread")], host.rates[uuid_of("unread")]
    decision = host.ticks(7)[-1]
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
