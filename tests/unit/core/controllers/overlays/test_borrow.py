# SPDX-License-Identifier: Apache-2.0
"""`borrow`: whole CPUs from other islands, for a while, and back again."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.overlays.declaration import RETURN
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.island import Island, Scheduler
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import Nack, Verb
from nova_vp.core.types.policy import Enabled, Mode
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.core.types.topology import Limits
from tests.policies import a_policy
from tests.unit.core.build import Host, Rates, nodes_of, uuid_of
from tests.unit.core.controllers.overlays.hosts import (
    KNOBS,
    ROUND_ROBIN,
    a_call,
    answer,
    answers,
    borrow,
    overlay,
    release,
    server,
)
from tests.unit.core.wishful import Wishful

A, B, C = {0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}
BUSY = Rates(mips=100, cores=3.9)
HALF = Rates(mips=100, cores=2.0)
IDLE = Rates(mips=10, cores=0.1)


def three_islands(knobs: frozenset[Knob] = KNOBS, **settings: object) -> Host:
    """`web` is alone in A, `db` of the same overlay in B with `batch`, `mill` of another in C."""
    host = Host(
        nodes_of(0, 0, 1, cpus=4), a_policy(controllers=("overlays",), **settings), knobs=knobs
    )
    for name, cpus in (("web", A), ("db", B), ("batch", B), ("mill", C)):
        server(host, name, cpus, vcpus=4)
        host.run(name, IDLE)
    overlay(host, "shop", "web", "db")
    overlay(host, "mills", "mill")
    host.ticks(3)
    return host


def test_a_borrowed_cpu_is_the_overlays_alone_and_comes_back_exactly() -> None:
    host = three_islands()
    server(host, "beside", A)
    host.ticks(3)
    assert borrow(host) is None
    assert host.placement("web") == A | {4}
    assert host.placement("beside") == A, "it is not of the overlay"
    assert host.placement("db") == host.placement("batch") == B - {4}
    assert host.placement("mill") == C
    assert release(host, "web") is None
    assert [host.placement(name) for name in ("web", "db", "batch")] == [A, B, B]
    assert host.applied == {}
    host.ticks(2)
    assert host.state.claims == {}
    assert host.state.controllers["overlays"].places == {}


def test_all_moves_of_a_loan_are_one_action() -> None:
    host = three_islands()
    decision = host.answer(a_call(Verb.BORROW, server="web", cpus=1))
    [action] = decision.actions
    assert {change.guest_uuid for change in action.changes} == {
        uuid_of(name) for name in ("web", "db", "batch")
    }
    decision = host.tick()
    [view] = [one for one in decision.overlays if one.overlay_id == "shop"]
    assert (view.borrowed_cpus, view.granted, view.refused) == (1, 1, 0)
    by_name = {one.island.name: one for one in decision.islands}
    assert by_name["llc-0"].island.cpus == A | {4}
    assert by_name["llc-1"].island.cpus == B - {4}
    assert by_name["llc-1"].loans == ()
    [loan] = by_name["llc-0"].loans
    assert (loan.cpu, loan.lender, loan.overlay_id) == (4, "llc-1", "shop")
    assert [one.nodes for one in decision.islands] == [(0,), (0,), (1,)]
    assert by_name["llc-1"].servers == (uuid_of("db"), uuid_of("batch"))


def test_islands_of_the_same_overlay_lend_first_then_the_idlest() -> None:
    host = three_islands()
    host.run("batch", HALF)
    host.ticks(5)
    [found] = answers(host, a_call(Verb.BORROW, server="web", cpus=3))
    assert found.nack is None
    assert host.placement("web") == A | {4, 8, 9}, "llc-1 can spare one"
    host = three_islands()
    assert borrow(host, "mill", of="mills") is None
    assert host.placement("mill") == C | {0}, "llc-0 is as idle, and comes first"
    host = three_islands()
    host.run("web", HALF)
    host.ticks(5)
    assert borrow(host, "mill", of="mills") is None
    assert host.placement("mill") == C | {4}


def test_a_call_may_name_the_lender() -> None:
    host = three_islands()
    assert borrow(host, island="llc-2") is None
    assert host.placement("web") == A | {8}
    [unknown] = answers(host, a_call(Verb.BORROW, server="web", cpus=1, island="llc-9"))
    assert unknown.nack is Nack.UNKNOWN_ISLAND
    assert unknown.detail == "islands that could lend: llc-1, llc-2"
    assert borrow(host, island="llc-0") is Nack.UNKNOWN_ISLAND, "its own"


def test_a_lender_keeps_what_its_servers_use_and_their_floors() -> None:
    host = three_islands()
    assert borrow(host, cpus=7) is Nack.NO_ROOM
    assert borrow(host, cpus=6) is None
    assert host.placement("web") == A | {4, 5, 6, 8, 9, 10}
    host = three_islands()
    for name in ("db", "batch", "mill"):
        host.change(name, cap_floor_ratio=0.5)
    assert borrow(host, cpus=3) is Nack.NO_ROOM, "db and batch keep four CPUs, mill two"
    assert borrow(host, cpus=2) is None


def test_a_busy_lender_lends_nothing() -> None:
    host = three_islands()
    for name in ("db", "mill"):
        host.run(name, BUSY)
    host.ticks(5)
    assert borrow(host) is Nack.NO_ROOM


def test_a_loan_ends_with_its_lease_and_is_renewed_by_the_next() -> None:
    host = three_islands(borrow_lease_s=10.0)
    first = answers(host, a_call(Verb.BORROW, server="web", cpus=1, lease_s=5.0))
    second = answers(host, a_call(Verb.BORROW, server="web", cpus=1, lease_s=50.0))
    assert [one.lease_s for one in (*first, *second)] == [5.0, 10.0]
    host.ticks(8)
    assert host.placement("web") == A | {4, 5}
    host.ticks(3)
    assert host.placement("web") == A
    assert host.placement("db") == B


def test_an_island_that_borrows_lends_none() -> None:
    host = three_islands()
    assert borrow(host, island="llc-1") is None
    assert borrow(host, "mill", of="mills", island="llc-0") is Nack.NO_ROOM
    assert borrow(host, "mill", of="mills", island="llc-1") is None


def test_an_island_that_lends_borrows_none() -> None:
    host = three_islands()
    assert borrow(host, island="llc-1") is None
    assert borrow(host, "db", island="llc-2") is Nack.NO_ROOM, "it lends"
    assert host.placement("mill") == C
    host.run("batch", BUSY)
    host.ticks(5)
    assert host.placement("batch") == B, "it has its own back"
    assert borrow(host, "db", island="llc-2") is None


def test_a_second_loan_and_the_end_of_the_first_are_done_at_once() -> None:
    host = three_islands()
    borrow(host, lease_s=5.0, island="llc-1")
    host.pass_time(2.0)
    assert borrow(host, "mill", of="mills", lease_s=50.0, island="llc-1") is None
    assert host.placement("mill") == C | {5}
    assert host.placement("db") == host.placement("batch") == B - {4, 5}
    host.pass_time(4.0)
    host.answer()
    assert host.placement("web") == A
    assert host.placement("db") == host.placement("batch") == B - {5}
    assert release(host, "mill", of="mills") is None
    assert [host.placement(name) for name in ("db", "batch", "mill")] == [B, B, C]


def test_a_lender_that_needs_its_cpu_gets_it_back() -> None:
    host = three_islands()
    borrow(host, cpus=2, island="llc-1")
    host.run("batch", Rates(mips=100, cores=1.9))
    reasons = [action.reason for decision in host.ticks(4) for action in decision.actions]
    assert host.placement("batch") == B - {5}, "the one of the two that it needs"
    assert RETURN not in reasons, "one is still lent"


@pytest.mark.parametrize(("borrow_hold_s", "nack"), [(1.0, None), (10.0, Nack.NO_ROOM)])
def test_a_lender_that_took_a_cpu_back_lends_none_for_a_while(
    borrow_hold_s: float, nack: Nack | None
) -> None:
    """Its servers are idle again, in both cases."""
    host = three_islands(borrow_hold_s=borrow_hold_s)
    borrow(host, cpus=2, island="llc-1")
    host.run("batch", Rates(mips=100, cores=1.9))
    host.ticks(4)
    host.run("batch", IDLE)
    host.ticks(2)
    assert borrow(host, island="llc-1") is nack
    host.ticks(10)
    assert borrow(host, island="llc-1") is None


@pytest.mark.parametrize(
    "about",
    [
        {"unmanaged": Unmanaged.OPTED_OUT},
        {"service_class": ServiceClass.LATENCY_CRITICAL},
    ],
)
def test_cpus_of_who_may_not_be_moved_are_not_lent(about: dict[str, object]) -> None:
    host = three_islands()
    host.change("batch", **about)
    host.change("mill", **about)
    assert borrow(host) is Nack.NO_ROOM


def test_who_runs_on_one_cpu_alone_keeps_it() -> None:
    host = three_islands()
    host.change("batch", placement=frozenset({4}))
    host.change("db", placement=frozenset({5, 6, 7}))
    host.ticks(2)
    borrow(host, island="llc-1")
    assert host.placement("web") == A | {5}


def test_vcpus_that_are_pinned_each_get_the_cpu_too() -> None:
    host = three_islands()
    pins = (frozenset({0, 1}), frozenset({0, 1}), frozenset({2}), frozenset({3}))
    host.change("web", vcpu_placement=pins)
    borrow(host)
    assert host.guest("web").vcpu_placement == tuple(one | {4} for one in pins)
    release(host, "web")
    assert host.guest("web").vcpu_placement == pins


def test_novas_bound_holds_for_the_borrower() -> None:
    host = three_islands()
    host.change("web", allowed_cpus=frozenset(A | C))
    assert borrow(host, island="llc-1") is Nack.NO_ROOM
    assert borrow(host) is None
    assert host.placement("web") == A | {8}


def test_a_server_in_several_islands_borrows_nothing() -> None:
    host = three_islands()
    host.change("web", placement=frozenset(A | B))
    host.tick()
    assert borrow(host) is Nack.NO_ROOM


def test_a_server_that_another_controller_places_borrows_nothing() -> None:
    """It could not use the CPU."""
    first = Wishful("first", 200)
    host = three_islands()
    both = (Enabled(first, first.settings()), *host.policy.controllers)
    host.policy = replace(host.policy, controllers=both)
    first.wants(Setting(uuid_of("web"), Knob.PLACEMENT, (frozenset({0, 1, 2}),)))
    host.ticks(2)
    assert borrow(host) is Nack.OUTRANKED
    assert host.placement("db") == B
    assert host.state.loans == ()


def test_who_runs_in_several_islands_is_left_there() -> None:
    host = three_islands()
    server(host, "float", A | B | C)
    host.ticks(2)
    assert borrow(host) is None
    assert host.placement("float") == A | B | C


def test_an_island_with_a_server_that_nobody_measured_yet_lends_nothing() -> None:
    host = three_islands()
    for name, cpus in (("new", B), ("newer", C)):
        server(host, name, cpus, vcpus=4)
    host.tick()
    assert borrow(host) is Nack.NO_ROOM
    for name in ("new", "newer"):
        host.run(name, IDLE)
    host.ticks(3)
    assert borrow(host) is None


def test_a_host_that_places_nobody_lends_nothing() -> None:
    assert borrow(three_islands(knobs=KNOBS - {Knob.PLACEMENT})) is Nack.NO_ROOM


def test_no_cpu_is_lent_where_the_memory_bandwidth_is_not_there() -> None:
    host = three_islands()
    host.limits = Limits(node_misses_per_s=6e6)
    host.change("web", memory_by_node=((1, 98304),))
    host.run("web", Rates(mips=100, mpki=40.0, cores=1.0))
    host.ticks(3)
    assert borrow(host) is Nack.NO_ROOM, "4 M misses per s, and 4 M more"
    host.limits = Limits(node_misses_per_s=10e6)
    assert borrow(host) is None


def test_a_host_that_is_not_calibrated_counts_misses_per_instruction() -> None:
    """By the thesis's own limit: a sum of 100 LLC misses per 1000 instructions."""
    host = three_islands()
    host.change("web", memory_by_node=((1, 98304),))
    host.run("web", Rates(mips=100, mpki=50.0, cores=1.0))
    host.ticks(3)
    assert borrow(host) is Nack.NO_ROOM, "50, and 50 more, of 90"
    host.policy = a_policy(controllers=("overlays",), hot_node_mpki=120.0)
    assert borrow(host) is None


def test_misses_per_instruction_count_where_the_operator_says_so() -> None:
    host = three_islands(hot_node_by_mpki=True)
    host.limits = Limits(node_misses_per_s=1e9)
    host.change("web", memory_by_node=((1, 98304),))
    host.run("web", Rates(mips=100, mpki=50.0, cores=1.0))
    host.ticks(3)
    assert borrow(host) is Nack.NO_ROOM


def test_all_servers_that_may_use_the_cpu_are_weighed() -> None:
    host = three_islands()
    server(host, "still", A, vcpus=4)
    host.run("still", IDLE)
    overlay(host, "shop", "web", "db", "still")
    host.limits = Limits(node_misses_per_s=6e6)
    host.change("web", memory_by_node=((1, 98304),))
    host.run("web", Rates(mips=100, mpki=40.0, cores=1.0))
    host.ticks(3)
    assert borrow(host, "still") is Nack.NO_ROOM, "web would use it too"


def test_an_overlay_of_a_higher_priority_gets_the_cpu_of_a_lower_one() -> None:
    host = three_islands(borrow_hold_s=5.0)
    overlay(host, "mills", "mill", priority=2.0)
    host.change("db", cap_floor_ratio=0.8)
    assert borrow(host, cpus=1, island="llc-1") is Nack.NO_ROOM
    host.change("db", cap_floor_ratio=0.65)
    assert borrow(host, island="llc-1") is None
    assert borrow(host, "mill", of="mills", island="llc-1") is Nack.NO_ROOM, "just lent"
    host.ticks(6)
    assert borrow(host, "mill", of="mills", island="llc-1") is None
    assert host.placement("mill") == C | {4}
    assert host.placement("web") == A
    assert host.placement("db") == B - {4}
    host.ticks(6)
    assert borrow(host, "web", island="llc-1") is Nack.NO_ROOM, "it matters less"


def test_who_takes_turns_leaves_the_last_cpu_to_who_has_none() -> None:
    host = three_islands()
    overlay(host, "shop", "web", "db", arbitration=ROUND_ROBIN)
    overlay(host, "mills", "mill", arbitration=ROUND_ROBIN)
    host.change("db", cap_floor_ratio=0.2)
    host.change("batch", cap_floor_ratio=0.2)
    assert borrow(host, cpus=2, island="llc-1") is None
    assert borrow(host, "mill", of="mills", island="llc-1") is Nack.NO_ROOM
    assert borrow(host, island="llc-2") is Nack.OUTRANKED, "mills wait"
    release(host, "web")
    host.tick()
    assert borrow(host, "mill", of="mills", island="llc-1") is None
    assert borrow(host, island="llc-1") is None, "nobody waits any more"


def test_the_last_cpu_goes_to_the_more_important_of_two_that_call_together() -> None:
    for priority, winner in ((2.0, "mill"), (0.5, "web")):
        host = three_islands()
        overlay(host, "mills", "mill", priority=priority)
        for name in ("db", "batch"):
            host.change(name, cap_floor_ratio=0.375)
        calls = [
            a_call(Verb.BORROW, of, name, cpus=1, island="llc-1")
            for of, name in (("shop", "web"), ("mills", "mill"))
        ]
        found = dict(zip(("web", "mill"), answer(host, *calls), strict=True))
        assert found.pop(winner) is None
        assert list(found.values()) == [Nack.NO_ROOM]


def test_cpus_do_not_go_back_and_forth_by_calls() -> None:
    host = three_islands()
    found = []
    for _ in range(5):
        found.append(borrow(host))
        release(host)
        host.pass_time(0.05)
    assert found == [None, None, None, Nack.TOO_SOON, Nack.TOO_SOON]
    host.ticks(11)
    for _ in range(5):
        assert borrow(host) is None, "it takes its time"
        release(host)
        host.ticks(11)


def test_nor_by_short_leases() -> None:
    host = three_islands()
    found = []
    for _ in range(5):
        found.append(borrow(host, lease_s=0.1))
        host.pass_time(0.11)
        host.answer()
        assert host.placement("web") == A
    assert found == [None, None, None, Nack.TOO_SOON, Nack.TOO_SOON]
    host.ticks(11)
    for _ in range(5):
        assert borrow(host, lease_s=11.0) is None, "not within the hold"
        host.ticks(12)


def test_a_short_loan_does_not_shorten_those_of_before() -> None:
    host = three_islands()
    borrow(host)
    borrow(host, lease_s=2.0)
    host.ticks(4)
    assert host.placement("web") == A | {4}


def test_who_takes_turns_is_served_one_call_of_each_at_a_time() -> None:
    host = three_islands()
    overlay(host, "shop", "web", "db", arbitration=ROUND_ROBIN)
    overlay(host, "mills", "mill", arbitration=ROUND_ROBIN)
    for name in ("db", "batch"):
        host.change(name, cap_floor_ratio=0.25)
    web = [a_call(Verb.BORROW, server="web", cpus=1, island="llc-1") for _ in range(3)]
    mill = a_call(Verb.BORROW, "mills", "mill", cpus=1, island="llc-1")
    assert answer(host, *web, mill)[0] is None
    assert host.placement("web") == A | {4}
    assert host.placement("mill") == C | {5}


@pytest.mark.parametrize("gone", ["server", "overlay"])
def test_a_loan_ends_with_whom_it_is_for(gone: str) -> None:
    host = three_islands()
    borrow(host, cpus=2)
    if gone == "server":
        host.leave("web")
    else:
        host.overlays.pop("shop")
    host.ticks(3)
    assert [host.placement(name) for name in ("db", "batch")] == [B, B]
    assert host.applied == {}
    assert host.state.loans == ()


def test_a_server_that_comes_to_the_lender_leaves_the_cpu_too() -> None:
    host = three_islands()
    borrow(host)
    server(host, "late", B)
    host.ticks(2)
    assert host.placement("late") == B - {4}
    release(host)
    assert host.placement("late") == B


def test_a_loan_that_is_not_permitted_leaves_nothing_behind() -> None:
    host = three_islands()
    host.mode = Mode.ADVISE
    assert borrow(host) is Nack.MODE
    host.mode = Mode.ENFORCE
    host.ticks(2)
    assert [host.placement(name) for name in ("web", "db")] == [A, B]
    assert host.state.loans == ()


def test_a_server_that_another_controller_moved_is_left_there() -> None:
    host = three_islands()
    borrow(host)
    host.change("db", placement=frozenset(C))
    host.applied.pop(uuid_of("db"))
    host.ticks(2)
    assert host.placement("db") == C
    release(host)
    host.ticks(2)
    assert host.placement("db") == C


def test_an_exclusive_island_lends_only_cpus_that_no_vcpu_needs() -> None:
    host = three_islands()
    islands = (
        Island("a", frozenset(A)),
        Island("b", frozenset(B), Scheduler.EXCLUSIVE),
        Island("c", frozenset(C)),
    )
    host.policy = a_policy(controllers=("overlays",), islands=islands)
    host.leave("batch")
    host.change("db", vcpus=3)
    host.tick()
    assert borrow(host, cpus=2, island="b") is Nack.NO_ROOM
    assert borrow(host, cpus=1, island="b") is None
