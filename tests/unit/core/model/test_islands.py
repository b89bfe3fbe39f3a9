# SPDX-License-Identifier: Apache-2.0
"""Islands: which a host has, what they have now, and that configured ones bind servers."""

import pytest

from nova_vp.core.model.islands import faults, island_of, islands_of, with_loans
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.island import Island, Loan, Scheduler
from nova_vp.core.types.reason import Rejection
from tests.unit.core.build import COMPUTE, Host, nodes_of
from tests.unit.core.wishful import KNOBS, Wishful, enabled, place

A, B = frozenset({0, 1, 2, 3}), frozenset({4, 5, 6, 7})
ISLANDS = (Island("a", A), Island("b", B))


def loan(cpu: int, lender: str = "b", borrower: str = "a") -> Loan:
    return Loan(cpu, lender, borrower, "shop", 0.0, 60.0)


def test_without_configuration_each_llc_domain_is_one() -> None:
    found = islands_of((), nodes_of(0, 1, cpus=4))
    assert found == (Island("llc-0", A), Island("llc-1", B))
    assert {one.scheduler for one in found} == {Scheduler.FAIR}


def test_a_lent_cpu_is_its_borrowers() -> None:
    [a, b] = with_loans(ISLANDS, [loan(4), loan(5)])
    assert (a.cpus, b.cpus) == (A | {4, 5}, B - {4, 5})
    assert with_loans(ISLANDS, []) == ISLANDS


@pytest.mark.parametrize(
    ("cpus", "name"),
    [
        ({0, 1}, "a"),
        ({5}, "b"),
        ({0, 5}, None),
        ({0, 4}, "a"),
        ({4}, "a"),
        ({4, 5}, "b"),
        ({8}, None),
    ],
)
def test_a_server_is_of_the_island_that_its_place_lies_in(cpus: set[int], name: str | None) -> None:
    """CPU 4 is lent to `a`; a server of `b` may still have it in its place."""
    found = island_of(frozenset(cpus), with_loans(ISLANDS, [loan(4)]))
    assert (found.name if found else None) == name


def test_cpus_that_the_host_does_not_have_are_left_out_and_told() -> None:
    topology = nodes_of(0, cpus=6)
    assert faults(ISLANDS, nodes_of(0, 1, cpus=4)) == {}
    assert faults(ISLANDS, topology) == {
        "b": "this host has no CPU 6, 7: name only CPUs that are online"
    }
    assert islands_of(ISLANDS, topology) == (Island("a", A), Island("b", frozenset({4, 5})))
    assert islands_of(ISLANDS, nodes_of(0, cpus=4)) == (Island("a", A),)


def a_host(*islands: Island) -> Host:
    mover = Wishful("mover", 400)
    host = Host(nodes_of(0, 1, cpus=4), enabled(mover, islands=islands), knobs=KNOBS)
    host.mover = mover  # type: ignore[attr-defined]
    return host


def move(host: Host, name: str, cpus: frozenset[int]) -> list[Rejection]:
    host.mover.wants(place((cpus,), uuid=host.guest(name).uuid))  # type: ignore[attr-defined]
    return [one.rejection for one in host.tick().refused]


def test_no_controller_moves_a_server_out_of_its_island_or_across_two() -> None:
    host = a_host(*ISLANDS)
    host.add("vm", COMPUTE, cpus=set(A))
    host.ticks(2)
    for cpus in (B, A | B, frozenset({3, 4})):
        assert move(host, "vm", cpus) == [Rejection.INVALID]
    assert move(host, "vm", frozenset({0, 1})) == []
    assert host.placement("vm") == {0, 1}


def test_without_configuration_servers_move_between_islands_and_span_them() -> None:
    host = a_host()
    host.add("vm", COMPUTE, cpus=set(A))
    host.ticks(2)
    assert move(host, "vm", A | B) == []
    assert host.placement("vm") == A | B


def bound(host: Host, name: str) -> frozenset[int]:
    return next(one.guest for one in host.tick().vps if one.guest.name == name).allowed_cpus


def test_a_newcomer_comes_to_the_island_with_the_most_room() -> None:
    host = a_host(*ISLANDS)
    host.add("old", COMPUTE, cpus=set(A), vcpus=2)
    host.add("new", COMPUTE, vcpus=3)
    assert bound(host, "new") == B
    host.add("next", COMPUTE, vcpus=1)
    host.add("last", COMPUTE, vcpus=1)
    assert (bound(host, "next"), bound(host, "last")) == (A, B) or (
        bound(host, "next"),
        bound(host, "last"),
    ) == (B, A)


def test_a_newcomer_comes_to_the_island_where_most_of_its_memory_lies() -> None:
    """Of those with room for it."""
    host = a_host(*ISLANDS)
    host.add("old", COMPUTE, cpus=set(A), vcpus=2)
    host.add("new", COMPUTE, vcpus=2, memory_by_node=((0, 3072), (1, 1024)))
    assert bound(host, "new") == A
    host.add("large", COMPUTE, vcpus=3, memory_by_node=((0, 4096),))
    assert bound(host, "large") == B, "that one is full"


def test_an_island_whose_vcpus_have_cpus_of_their_own_takes_no_more_than_it_has() -> None:
    host = a_host(Island("a", A, Scheduler.EXCLUSIVE), Island("b", frozenset({4})))
    host.add("old", COMPUTE, cpus=set(A), vcpus=3)
    host.add("new", COMPUTE, vcpus=2)
    assert bound(host, "new") == frozenset({4})
    host.change("old", vcpus=2)
    assert bound(host, "new") == A


def test_a_capped_island_takes_no_server_that_cannot_be_limited_beyond_its_cap() -> None:
    host = a_host(Island("a", A, Scheduler.CAPPED, 2.0))
    host.add("new", COMPUTE, vcpus=3)
    assert bound(host, "new") == A | B, "no island admits it"
    host.change("new", cap_floor_ratio=0.1)
    assert bound(host, "new") == A
    host.add("next", COMPUTE, vcpus=2)
    assert bound(host, "next") == A | B, "its cap is not free any more"


def test_the_room_of_a_capped_island_is_its_cap() -> None:
    host = a_host(Island("a", A, Scheduler.CAPPED, 2.0), Island("b", frozenset({4, 5, 6})))
    host.add("new", COMPUTE, vcpus=1, cap_floor_ratio=0.1)
    assert bound(host, "new") == {4, 5, 6}


def test_a_server_that_nova_does_not_let_into_an_island_stays_where_it_is() -> None:
    host = a_host(*ISLANDS)
    host.add("new", COMPUTE, vcpus=1, allowed_cpus=frozenset({8}), cpus={8})
    assert bound(host, "new") == frozenset({8})


def test_who_is_unmanaged_is_bound_to_none() -> None:
    host = a_host(*ISLANDS)
    host.add("new", COMPUTE, vcpus=1, unmanaged=Unmanaged.OPTED_OUT)
    assert bound(host, "new") == A | B
