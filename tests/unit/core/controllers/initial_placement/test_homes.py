# SPDX-License-Identifier: Apache-2.0
"""Where the vCPUs of a newcomer go: into one LLC domain, CPU first, then the cache."""

from dataclasses import replace

import pytest

from nova_vp.core.model.islands import island_of
from nova_vp.core.types.claim import Rejection
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.island import Island
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.policies import a_policy
from tests.unit.core.build import (
    CHASE,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    hyper_threads,
    nodes_of,
    two_sockets,
    uuid_of,
)

POLICY = a_policy(controllers=("initial_placement",))


def test_a_full_host_homes_victim_and_neighbour_into_one_domain():
    host = Host(policy=POLICY)
    host.add("filler", COMPUTE, vcpus=2)
    host.ticks(3)
    host.add("victim", CHASE)
    host.ticks(5)
    host.add("neighbour", COMPUTE)
    host.ticks(5)
    assert host.placement("filler") == {0}
    assert host.placement("victim") == host.placement("neighbour") == {1}


def test_homing_at_the_same_moment_spreads_by_cpu():
    host = Host(two_sockets(4), POLICY)
    for i in range(4):
        host.add(f"vm{i}", COMPUTE, vcpus=2)
    host.tick()
    placed = [frozenset(host.placement(f"vm{i}")) for i in range(4)]
    assert sorted(map(sorted, placed)) == [[0, 1, 2, 3]] * 2 + [[4, 5, 6, 7]] * 2


def test_a_free_core_elsewhere_comes_before_a_free_sibling_beside_its_own_vp():
    """Four cores, eight CPUs on each node: with four vCPUs one of them is full."""
    host = Host(hyper_threads(4), POLICY)
    host.add("first", COMPUTE, vcpus=4, group="shop")
    host.tick()
    host.add("second", COMPUTE, vcpus=1, group="shop")
    host.tick()
    assert host.domains("first").isdisjoint(host.domains("second"))


def test_where_siblings_must_be_used_a_newcomer_goes_to_its_own_vp():
    host = Host(hyper_threads(4), POLICY)
    for node, group in enumerate(("bank", "shop")):
        cpus = set(host.topology.domains[node].cpus)
        host.add(group, COMPUTE, cpus=cpus, vcpus=4, group=group)
    host.tick()
    host.add("newcomer", COMPUTE, vcpus=4, group="shop")
    host.tick()
    assert host.domains("newcomer") == {1}


STATE_8 = Rates(mips=300, l2_mpki=35.0, mpki=30.0, cpi=7.0, cores=1.0)


def test_a_newcomer_keeps_away_from_a_loaded_memory_controller():
    """The second cache of node 0 is as empty as that of node 1, but its memory is not."""
    host = Host(nodes_of(0, 0, 1, cpus=8), POLICY)
    for number in range(4):
        host.add(f"eight{number}", STATE_8, cpus=set(range(8)), node=0)
    host.ticks(8)
    host.add("newcomer", COMPUTE)
    host.ticks(2)
    assert host.domains("newcomer") == {2}


def test_a_newcomer_keeps_away_from_cpu_that_others_use_up():
    """vCPUs are spread evenly: the two of the busy domain never rest."""
    host = Host(nodes_of(0, 1, cpus=2), POLICY)
    host.add("busy", replace(COMPUTE, cores=2.0), cpus={0, 1}, vcpus=2)
    host.add("resting", replace(COMPUTE, cores=0.1), cpus={2, 3}, vcpus=2)
    host.ticks(8)
    host.add("newcomer", COMPUTE)
    host.ticks(2)
    assert host.domains("newcomer") == {1}


def test_a_newcomer_is_homed_away_from_a_stream_where_cpu_allows():
    host = Host(two_sockets(4), POLICY)
    host.add("stream", STREAM)
    host.ticks(5)
    host.add("newcomer", CHASE)
    host.ticks(2)
    assert not host.placement("stream") & host.placement("newcomer")


def test_opted_out_guests_are_neither_homed_nor_moved():
    host = Host(policy=POLICY)
    host.add("vm", COMPUTE, unmanaged=Unmanaged.OPTED_OUT)
    assert not any(d.actions or d.refused for d in host.ticks(3))
    assert host.placement("vm") == {0, 1}


def test_who_refuses_help_is_homed_like_any_other():
    """Floating, it would share the cache of everybody."""
    host = Host(two_sockets(4), POLICY)
    host.add("stream", STREAM)
    host.ticks(5)
    host.add("newcomer", CHASE, refuses_help=True)
    host.ticks(2)
    assert len(host.domains("newcomer")) == 1


def test_who_lives_in_one_domain_already_has_a_home():
    host = Host(two_sockets(4), POLICY)
    host.add("placed", COMPUTE, cpus={0, 1})
    for number in range(6):
        host.add(f"later{number}", COMPUTE)
        host.tick()
    assert host.placement("placed") == {0, 1}


def test_a_guest_bound_to_one_domain_needs_no_home():
    host = Host(policy=POLICY)
    host.add("bound", COMPUTE)
    host.change("bound", allowed_cpus=frozenset({1}), placement=frozenset({1}))
    assert host.tick().actions == ()


def test_a_reboot_makes_a_guest_an_arrival_again():
    host = Host(policy=POLICY)
    host.add("vm", COMPUTE)
    host.ticks(2)
    host.change("vm", placement=frozenset({0, 1}), generation="2")
    host.applied.clear()
    host.tick()
    assert len(host.placement("vm")) == 1


def test_who_was_given_its_place_back_is_no_arrival():
    """As after an undo by an operator: it would undo that in turn."""
    host = Host(two_sockets(4), POLICY)
    uuid = host.add("vm", COMPUTE)
    host.tick()
    assert len(host.domains("vm")) == 1
    del host.applied[uuid]
    host.change("vm", placement=host.topology.cpus)
    assert not any(decision.actions or decision.refused for decision in host.ticks(3))


def test_a_wide_guest_takes_the_fewest_domains_of_one_node():
    domains = tuple(LlcDomain(i, i // 2, frozenset({2 * i, 2 * i + 1})) for i in range(4))
    host = Host(Topology(domains), POLICY)
    host.add("wide", COMPUTE, vcpus=4)
    host.tick()
    assert host.placement("wide") in ({0, 1, 2, 3}, {4, 5, 6, 7})


def test_a_guest_that_fills_its_node_has_nowhere_else_to_go():
    one_node = Topology((LlcDomain(0, 0, frozenset({0})), LlcDomain(1, 0, frozenset({1}))))
    host = Host(one_node, POLICY)
    host.add("wide", COMPUTE, vcpus=2)
    host.add("narrow", COMPUTE)
    assert [a.guest_uuid for a in host.tick().actions] == [uuid_of("narrow")]


def test_the_servers_of_one_vp_are_homed_together_and_strangers_apart():
    host = Host(nodes_of(0, 1), POLICY)
    host.add("one", COMPUTE, group="store")
    host.add("other", COMPUTE, group="store")
    host.add("stranger", COMPUTE, group="store", project_id="p2")
    host.tick()
    assert host.placement("one") == host.placement("other")
    assert host.placement("stranger") != host.placement("one")


def test_a_server_that_joins_its_vp_later_finds_it():
    host = Host(nodes_of(0, 1), POLICY)
    host.add("one", COMPUTE, group="store")
    host.ticks(3)
    host.add("other", COMPUTE, group="store")
    host.ticks(3)
    assert host.placement("other") == host.placement("one")


def test_those_who_come_at_once_are_spread_whoever_is_listed_first():
    host = Host(nodes_of(0, 1), POLICY)
    for name, vcpus in (("one", 1), ("other", 1), ("wide", 2)):
        host.add(name, COMPUTE, vcpus=vcpus, project_id=name)
    host.tick()
    assert host.placement("one") == host.placement("other") != host.placement("wide")


def test_a_vp_whose_place_is_full_goes_on_elsewhere():
    host = Host(nodes_of(0, 1), POLICY)
    for name in ("one", "two", "three"):
        host.add(name, COMPUTE, vcpus=2, group="store")
    host.tick()
    assert len({frozenset(host.placement(n)) for n in ("one", "two", "three")}) == 2


@pytest.mark.parametrize("until", [Unmanaged.EXEMPT, Unmanaged.LEAVING])
def test_who_was_let_go_of_gets_a_home_again_once_it_is_opted_in_or_stays_after_all(until):
    host = Host(nodes_of(0, 1), POLICY)
    uuid = host.add("vm", COMPUTE)
    host.tick()
    assert host.placement("vm") == {0, 1}
    original, everywhere = host.applied.pop(uuid), host.topology.cpus
    assert original
    host.guests[uuid] = host.guests[uuid]._replace(placement=everywhere, unmanaged=until)
    host.ticks(2)
    assert host.placement("vm") == everywhere
    host.guests[uuid] = host.guests[uuid]._replace(unmanaged=None)
    host.ticks(2)
    assert host.placement("vm") == {0, 1}


def test_a_wide_guest_stays_within_one_node_although_another_one_is_listed_first():
    host = Host(nodes_of(0, 1, 1), POLICY)
    host.add("wide", COMPUTE, vcpus=4)
    host.tick()
    assert host.placement("wide") == {2, 3, 4, 5}


def test_a_wide_guest_that_was_placed_stays_whoever_comes_later():
    host = Host(nodes_of(0, 0, 1, 1), POLICY)
    host.add("wide", COMPUTE, vcpus=4)
    host.ticks(3)
    there = host.placement("wide")
    for number in range(4):
        host.add(f"later{number}", COMPUTE, cpus={min(there)})
        assert all(a.guest_uuid != uuid_of("wide") for d in host.ticks(3) for a in d.actions)
    assert host.placement("wide") == there


def test_vcpus_are_spread_before_anybodys_cache_counts():
    """The newcomer would have the other cache for itself, and no CPU."""
    host = Host(two_sockets(2), POLICY)
    host.add("stream", STREAM, cpus={0, 1})
    host.add("wide", COMPUTE, cpus={2, 3}, vcpus=2)
    host.ticks(6)
    newcomer = host.add("newcomer", CHASE)
    (action,) = host.tick().actions
    assert host.placement("newcomer") == {0, 1}
    (other,) = action.rejected
    assert (other.guest_uuid, other.domain_id, other.rejection) == (
        newcomer,
        1,
        Rejection.MORE_CROWDED,
    )


def test_a_loss_that_nobody_feels_does_not_outweigh_cpu():
    """A few misses in the one domain, more vCPUs in the other."""
    host = Host(two_sockets(4), POLICY)
    host.add("drizzle", Rates(mips=5, l2_mpki=5.0, mpki=5.0, cores=0.1), cpus={0, 1, 2, 3})
    for number in range(2):
        host.add(f"quiet{number}", COMPUTE, cpus={4, 5, 6, 7})
    host.ticks(6)
    host.add("newcomer", CHASE)
    host.ticks(2)
    assert host.placement("newcomer") == {0, 1, 2, 3}


def test_where_cpu_is_even_a_newcomer_goes_to_the_quieter_cache():
    host = Host(two_sockets(4), POLICY)
    host.add("stream", STREAM, cpus={0, 1, 2, 3})
    host.add("quiet", COMPUTE, cpus={4, 5, 6, 7})
    host.ticks(6)
    newcomer = host.add("newcomer", CHASE)
    (action,) = host.tick().actions
    assert host.placement("newcomer") == {4, 5, 6, 7}
    (other,) = action.rejected
    assert (other.guest_uuid, other.domain_id, other.rejection) == (
        newcomer,
        0,
        Rejection.NOT_BEST,
    )


def test_who_may_be_in_one_domain_alone_is_brought_there():
    """Near its device; Nova lets it run anywhere."""
    host = Host(two_sockets(4), POLICY)
    host.add("near", COMPUTE, vcpus=2, allowed_cpus=frozenset({4, 5, 6, 7}))
    host.ticks(3)
    assert host.placement("near") == {4, 5, 6, 7}
    assert not any(decision.actions or decision.refused for decision in host.ticks(3))


def test_a_newcomer_is_kept_in_one_island() -> None:
    second = frozenset({4, 5, 6, 7})
    islands = (
        Island("a", frozenset({0, 1})),
        Island("b", frozenset({2, 3})),
        Island("c", second),
    )
    policy = a_policy(controllers=("initial_placement",), islands=islands)
    host = Host(nodes_of(0, 1, cpus=4), policy)
    for number in range(4):
        host.add(f"vm{number}", COMPUTE, vcpus=2)
        host.ticks(3)
    homes = [island_of(frozenset(host.placement(f"vm{n}")), islands) for n in range(4)]
    assert all(home is not None for home in homes), homes
