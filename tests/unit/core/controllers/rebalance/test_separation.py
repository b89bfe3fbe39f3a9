# SPDX-License-Identifier: Apache-2.0
"""State-8 VPs of a hot node are separated, vCPUs and memory, from wherever they started."""

import math
from dataclasses import replace

from nova_vp.core.controllers.rebalance.declaration import REARRANGE, SEPARATE
from nova_vp.core.model.holds import signature
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.reason import INEFFECTIVE
from nova_vp.core.types.topology import Limits
from tests.policies import a_policy, with_numbers
from tests.unit.core.build import ALL_KNOBS, Host, Rates, memory_system, nodes_of, uuid_of
from tests.unit.core.hosts import LIMIT, LIMITS, STORM

POLICY = a_policy(controllers=("rebalance",))


def eights(*cpus: set[int], topology) -> Host:
    """State-8 VPs that start on one node, hurt from the first second."""
    host = Host(topology, POLICY, knobs=ALL_KNOBS, limits=LIMITS)
    work = replace(STORM, mips=30, cores=0.5)
    for number, where in enumerate(cpus):
        host.add(f"vp{number}", work, cpus=where, node=0)
    host.rule = memory_system({guest.name: work for guest in host.guests.values()}, LIMIT)
    return host


def test_state_8_vps_of_a_hot_node_are_separated_with_vcpus_and_memory():
    host = eights({0, 1}, {0, 1}, {0, 1}, {0, 1}, topology=nodes_of(0, 1, 2, 3))
    action = host.until(SEPARATE)
    assert {c.knob for c in action.changes} == {Knob.PLACEMENT, Knob.MEMORY}
    names = ("vp0", "vp1", "vp2", "vp3")
    assert {frozenset(host.placement(n)) for n in names} == {d.cpus for d in host.topology.domains}
    assert [host.nodes(n) for n in names] == [{min(host.placement(n)) // 2} for n in names]
    rest = host.ticks(60)
    assert [a for d in rest for a in d.actions] == []
    assert not any(node.is_hot for node in rest[-1].nodes)


def test_a_plan_that_failed_lately_does_not_stand_in_the_way_of_the_next_best():
    places, topology = [{0, 1}] * 4, nodes_of(0, 1, 2, 3)
    failed = signature(eights(*places, topology=topology).until(SEPARATE).changes)
    host = eights(*places, topology=topology)
    host.state = replace(host.state, failed_actions={("", failed): math.inf})
    assert signature(host.until(SEPARATE).changes) != failed


def test_what_may_not_go_back_yet_does_not_hold_up_the_others():
    host = eights({0, 1}, {0, 1}, {0, 1}, {0, 1}, topology=nodes_of(0, 1, 2, 3))
    host.tick()
    left = ((frozenset({1, 2, 3}), host.now_s),)
    stays = host.state.vps[uuid_of("vp1")]._replace(left_nodes=left)
    host.state = replace(host.state, vps={**host.state.vps, stays.guest_uuid: stays})
    changes = {(c.guest_uuid, c.knob) for c in host.until(SEPARATE).changes}
    assert (uuid_of("vp0"), Knob.MEMORY) in changes or (uuid_of("vp2"), Knob.MEMORY) in changes
    assert (uuid_of("vp1"), Knob.MEMORY) not in changes


def test_a_state_8_vp_that_leaves_no_hot_node_is_not_separated_but_rearranged():
    """Its memory was far from it from the first second."""
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    bound = frozenset({0, 1})
    host.add("vp", replace(STORM, cores=0.5), cpus={0, 1}, node=1, allowed_cpus=bound)
    host.until(REARRANGE)
    assert host.nodes("vp") == {0}


def test_with_one_node_nobody_can_be_separated():
    host = eights({0, 1}, {2, 3}, topology=nodes_of(0, 0))
    assert not any(d.actions for d in host.ticks(60))


ALIKE = Rates(mips=20, l2_mpki=70.0, mpki=60.0, cpi=4.0, cores=0.4)
"""Nothing makes it faster."""


def test_an_arrangement_that_brings_nothing_is_undone_and_not_made_again():
    policy = with_numbers(POLICY, move_hold_s=200.0)
    limits = Limits(node_misses_per_s=2.4e6)
    host = Host(nodes_of(0, 1, 2, 3), policy, knobs=ALL_KNOBS, limits=limits)
    for name in ("a", "b", "c", "d"):
        host.add(name, ALIKE, cpus={0, 1}, node=0)
    before = {name: host.guest(name).placement for name in ("a", "b", "c", "d")}
    first = host.until(SEPARATE)
    host.until(INEFFECTIVE)
    assert {name: host.guest(name).placement for name in before} == before
    assert all(host.nodes(name) == {0} for name in before)
    later = (action for decision in host.ticks(600) for action in decision.actions)
    changes = [{(c.guest_uuid, c.to) for c in action.changes} for action in later]
    assert {(c.guest_uuid, c.to) for c in first.changes} not in changes


def test_what_cannot_be_measured_afterwards_is_left_as_it_is():
    """Everybody fell idle after the arrangement: nothing says that it was bad."""
    limits = Limits(node_misses_per_s=2.4e6)
    host = Host(nodes_of(0, 1, 2, 3), POLICY, knobs=ALL_KNOBS, limits=limits)
    names = ("a", "b", "c", "d")
    for name in names:
        host.add(name, ALIKE, cpus={0, 1}, node=0)
    host.until(SEPARATE)
    for name in names:
        host.run(name, Rates(mips=0.1, cores=0.0))
    host.ticks(15)
    assert len(host.state.pending) == 1
    host.ticks(15)
    assert host.state.pending == ()
    assert len({frozenset(host.placement(name)) for name in names}) == 4


def test_who_fills_a_controller_with_another_one_leaves_it_with_its_memory():
    """Neither vCPUs alone nor memory alone would bring anything: they share no cache."""
    host = Host(nodes_of(0, 0, 1), POLICY, knobs=ALL_KNOBS, limits=LIMITS)
    for name, cpus in (("one", {0, 1}), ("other", {2, 3})):
        host.add(name, ALIKE, cpus=cpus, node=0)
    action = host.until(REARRANGE)
    assert {c.knob for c in action.changes} == {Knob.PLACEMENT, Knob.MEMORY}
    assert host.nodes("one") | host.nodes("other") == {0, 1}
