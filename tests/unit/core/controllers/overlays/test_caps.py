# SPDX-License-Identifier: Apache-2.0
"""Caps of islands and of the host: held as a sum, dealt out by demand, following lent CPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_vp.core.controllers.overlays.caps import Share, dealt
from nova_vp.core.model.islands import bound_to_islands
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.island import Island, Scheduler
from nova_vp.core.types.knob import NO_QUOTA, Knob, Quota
from nova_vp.core.types.overlay import Nack
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.topology import Limits
from tests.policies import a_policy
from tests.unit.core.build import Host, Rates, nodes_of
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    KNOBS,
    NS,
    borrow,
    overlay,
    server,
    tune,
    wait_for_cpu,
)

A, B = {0, 1, 2, 3}, {4, 5, 6, 7}
BUSY = Rates(mips=100, cores=4.0)
IDLE = Rates(mips=10, cores=0.1)


def capped(cap: float | None = 2.0, knobs: frozenset[Knob] = KNOBS, **about: object) -> Host:
    """Island `a` is capped, `b` is not."""
    islands = (
        Island("a", frozenset(A), Scheduler.CAPPED, cap),
        Island("b", frozenset(B)),
    )
    return a_host_of(islands, knobs, **about)


def a_host_of(islands: tuple[Island, ...], knobs: frozenset[Knob] = KNOBS, **about: object) -> Host:
    policy = a_policy(controllers=("overlays",), islands=islands, **about)
    return Host(nodes_of(0, 1, cpus=4), policy, knobs=knobs)


def total(host: Host, *names: str) -> float:
    return sum(host.guest(name).vcpus * host.guest(name).quota.cores for name in names)


def problems(host: Host) -> dict[str, str]:
    return {one.island.name: one.problem for one in host.tick().islands if one.problem}


def test_the_servers_of_an_island_keep_its_cap_together() -> None:
    host = capped()
    for name in ("one", "two"):
        server(host, name, A, vcpus=4)
        host.run(name, BUSY)
    server(host, "free", B, vcpus=4)
    host.ticks(3)
    assert total(host, "one", "two") == pytest.approx(2.0, abs=0.01)
    assert total(host, "one") == pytest.approx(1.0, abs=0.01)
    assert host.guest("free").quota == NO_QUOTA


def test_it_is_dealt_out_anew_by_what_servers_want() -> None:
    host = capped()
    for name in ("one", "two"):
        server(host, name, A, vcpus=4)
    host.run("one", BUSY)
    host.run("two", IDLE)
    host.ticks(10)
    assert total(host, "one") > 1.5
    assert total(host, "one", "two") == pytest.approx(2.0, abs=0.01)
    host.run("one", IDLE)
    host.run("two", BUSY)
    for _ in range(30):
        host.tick()
        assert total(host, "one", "two") <= 2.0 + 1e-3
    assert total(host, "two") > 1.5


def test_what_a_limit_of_ours_keeps_a_server_from_is_wanted_too() -> None:
    """Each ran for half a second; `one` was throttled for three more."""
    host = capped()
    for name in ("one", "two"):
        server(host, name, A, vcpus=4, cpu_times=CpuTimes(0, 0, 0, "1"))
    for second in range(1, 12):
        for name, throttled in (("one", 3), ("two", 0)):
            denied_ns = second * throttled * NS
            host.change(name, cpu_times=CpuTimes(second * NS // 2, denied_ns, denied_ns, "1"))
        host.tick()
    assert total(host, "one") > 1.2 > 0.8 > total(host, "two")


def test_a_tuned_server_gets_more_of_it() -> None:
    host = capped()
    for name in ("one", "two"):
        server(host, name, A, vcpus=4)
        host.run(name, BUSY)
    overlay(host, "shop", "one")
    host.ticks(3)
    for _ in range(4):
        assert tune(host, "one") is None
    host.ticks(2)
    assert total(host, "one") > 1.2
    assert total(host, "one", "two") == pytest.approx(2.0, abs=0.01)


def test_the_tightest_of_all_limits_of_a_server_holds() -> None:
    host = capped(cap=3.0)
    server(host, "one", A, vcpus=4)
    host.run("one", BUSY)
    overlay(host, "shop", "one")
    host.ticks(3)
    assert host.cap_ratio("one") == pytest.approx(0.75)
    for _ in range(4):
        tune(host, "one", DOWN)
    assert host.cap_ratio("one") == pytest.approx(0.6)


def test_a_server_whose_flavor_limits_it_keeps_the_cap_too_and_may_use_all_of_it() -> None:
    host = capped(cap=1.0)
    server(host, "one", A, vcpus=4, quota=Quota(50_000, 100_000))
    host.run("one", BUSY)
    host.ticks(3)
    assert total(host, "one") == pytest.approx(1.0, abs=0.01), "of two cores that Nova gave"


def test_what_nova_gave_comes_back_once_the_cap_is_gone() -> None:
    host = capped()
    server(host, "one", A, vcpus=4)
    host.ticks(3)
    assert host.cap_ratio("one") == pytest.approx(0.5)
    host.policy = a_policy(controllers=("overlays",))
    host.tick()
    assert host.guest("one").quota == NO_QUOTA
    assert host.applied == {}


def test_floors_and_servers_that_cannot_be_limited_may_need_more_than_the_cap() -> None:
    host = capped()
    server(host, "one", A, vcpus=2, cap_floor_ratio=0.2)
    server(host, "fixed", A, vcpus=2, cap_floor_ratio=None)
    host.ticks(2)
    assert problems(host) == {
        "a": "floors and servers that cannot be limited need 2.40 of 2.00 cores: "
        "give flavors vp:cpu_floor or quota:cpu_quota, or raise the cap"
    }
    assert host.guest("one").quota == NO_QUOTA
    host.change("fixed", vcpus=1)
    host.ticks(2)
    assert problems(host) == {}
    assert total(host, "one") == pytest.approx(1.0, abs=0.01)


def test_a_server_that_cannot_be_limited_counts_with_what_novas_quota_leaves_it() -> None:
    host = capped()
    server(host, "one", A, vcpus=2)
    server(host, "fixed", A, vcpus=2, cap_floor_ratio=None, quota=Quota(50_000, 100_000))
    host.ticks(2)
    assert problems(host) == {}
    assert total(host, "one") == pytest.approx(1.0, abs=0.01)
    assert host.guest("fixed").quota == Quota(50_000, 100_000)


def spanning(cap: float, **about: object) -> Host:
    """No islands are configured: one of each LLC domain, which servers may span."""
    policy = a_policy(controllers=("overlays",), host_cap_cores=cap)
    host = Host(nodes_of(0, 1, cpus=4), policy, knobs=KNOBS)
    for name in ("one", "two"):
        server(host, name, A | B, vcpus=4, **about)
        host.run(name, BUSY)
    return host


def test_servers_that_run_in_several_islands_keep_the_cap_of_the_host_together() -> None:
    host = spanning(6.0)
    host.ticks(3)
    assert problems(host) == {}
    assert total(host, "one", "two") == pytest.approx(6.0, abs=0.01)
    host.run("one", IDLE)
    host.ticks(12)
    assert total(host, "two") > 3.9, "nobody keeps a part of each island free"
    assert total(host, "one", "two") <= 6.0 + 1e-3


def test_islands_that_a_server_joins_use_their_caps_together_and_borrow_nothing() -> None:
    host = spanning(6.0)
    server(host, "here", A, vcpus=4)
    for name in ("one", "two"):
        host.run(name, IDLE)
    host.run("here", BUSY)
    host.ticks(12)
    assert total(host, "here") > 3.4, "the cap of its island alone is 3"
    assert total(host, "one", "two", "here") <= 6.0 + 1e-3
    assert host.state.loans == ()


def test_who_cannot_be_limited_counts_for_the_islands_that_it_runs_in() -> None:
    host = spanning(6.0, cap_floor_ratio=None)
    host.ticks(2)
    needs = "floors and servers that cannot be limited need 4.00 of 3.00 cores"
    assert {name: why[: len(needs)] for name, why in problems(host).items()} == {
        "llc-0": needs,
        "llc-1": needs,
    }
    host.leave("two")
    server(host, "here", A, vcpus=4)
    host.run("here", BUSY)
    host.ticks(3)
    assert problems(host) == {}
    assert total(host, "here") == pytest.approx(1.0, abs=0.01), "`one` may use two of three"


def test_a_capped_island_takes_a_server_of_several_islands_into_its_cap() -> None:
    """No island admits it: two CPUs for three vCPUs in each."""
    host = capped(cap=2.0, knobs=KNOBS - {Knob.PLACEMENT}, host_cap_cores=8.0)
    server(host, "both", {2, 3, 4, 5}, vcpus=3, allowed_cpus=frozenset({2, 3, 4, 5}))
    server(host, "one", A, vcpus=4)
    for name in ("both", "one"):
        host.run(name, BUSY)
    host.ticks(3)
    assert problems(host) == {}
    assert total(host, "both") < 3.0
    assert total(host, "both") / 2 + total(host, "one") <= 2.0 + 1e-3


def test_many_servers_that_want_nothing_do_not_break_a_cap() -> None:
    host = capped()
    names = ["busy", *(f"idle{number}" for number in range(10))]
    for name in names:
        server(host, name, A, vcpus=4, cap_floor_ratio=0.0)
        host.run(name, Rates(mips=1, cores=0.0))
    host.run("busy", BUSY)
    host.ticks(10)
    assert total(host, *names) <= 2.0 + 1e-3


def test_a_cap_that_shrinks_by_less_than_limits_waver_holds() -> None:
    host = capped(cap=2.0)
    for name in ("one", "two"):
        server(host, name, A, vcpus=4)
        host.run(name, BUSY)
    host.ticks(3)
    host.policy = capped(cap=1.96).policy
    host.tick()
    assert total(host, "one", "two") == pytest.approx(1.96, abs=1e-3)


def test_a_capped_island_takes_no_server_whose_floor_its_cap_has_no_room_for() -> None:
    host = capped(cap=4.0)
    server(host, "old", A, vcpus=4, cap_floor_ratio=0.7)
    for name in ("other", "another"):
        server(host, name, B, vcpus=4)
    for name in ("first", "second"):
        server(host, name, A | B, vcpus=2, cap_floor_ratio=0.5)
    bound = bound_to_islands(host.state, host.picture(), host.policy).guests
    found = [set(one.allowed_cpus) for one in bound if one.name in ("first", "second")]
    assert sorted(found, key=min) == [A, B]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_who_is_not_in_mode_enforce_is_not_limited(mode: Mode) -> None:
    host = capped()
    server(host, "one", A, vcpus=4, mode=mode)
    server(host, "two", A, vcpus=4)
    host.ticks(2)
    assert "need 4.40 of 2.00 cores" in problems(host)["a"]


def test_a_server_that_the_host_did_not_limit_counts_in_full_for_a_while() -> None:
    host = capped()
    server(host, "one", A, vcpus=2)
    host.refuse = True
    host.tick()
    host.refuse = False
    assert host.tick().actions == ()
    host.ticks(10)
    assert total(host, "one") == pytest.approx(2.0, abs=0.01)


def test_a_host_without_caps_says_nothing() -> None:
    host = capped(knobs=KNOBS - {Knob.CPU_CAP})
    server(host, "one", A, vcpus=4, cap_floor_ratio=None)
    host.ticks(2)
    assert problems(host) == {}
    host.knobs = KNOBS
    assert "need 4.00 of 2.00 cores" in problems(host)["a"]


def test_an_island_without_a_number_has_no_cap() -> None:
    host = capped(cap=None)
    server(host, "one", A, vcpus=4)
    host.ticks(2)
    assert host.guest("one").quota == NO_QUOTA


def two_islands(**about: object) -> Host:
    """The source's 2000 of 2400, on eight CPUs: 6.67 of 8 cores."""
    islands = (Island("a", frozenset(A)), Island("b", frozenset(B)))
    host = a_host_of(islands, host_cap_cores=20 / 3, **about)
    server(host, "wide", A, vcpus=4)
    server(host, "idle", B, vcpus=3)
    host.run("wide", BUSY)
    host.run("idle", IDLE)
    return host


def test_the_cap_of_the_host_is_the_sum_of_those_of_its_islands_by_their_cpus() -> None:
    host = two_islands(knobs=KNOBS - {Knob.PLACEMENT})
    host.ticks(3)
    assert total(host, "wide") == pytest.approx(10 / 3, abs=0.02)
    caps = {one.island.name: one.cap_cores for one in host.tick().islands}
    assert caps == {"a": pytest.approx(10 / 3), "b": pytest.approx(10 / 3)}


def test_an_island_at_its_cap_borrows_and_the_cap_follows_the_cpu() -> None:
    host = two_islands()
    host.ticks(12)
    borrowed = host.placement("wide") - A
    assert borrowed
    assert host.placement("idle") == B - borrowed
    assert total(host, "wide") == 4.0, "all that it can use, of 5 * 10 / 12"
    for _ in range(20):
        host.tick()
        assert total(host, "wide", "idle") <= 20 / 3 + 1e-2


def test_an_island_borrows_no_cpu_where_the_memory_bandwidth_is_not_there() -> None:
    host = two_islands()
    host.change("wide", memory_by_node=((0, 98304),))
    host.run("wide", Rates(mips=100, mpki=40.0, cores=4.0))
    host.limits = Limits(node_misses_per_s=4.4e6)
    host.ticks(12)
    assert host.placement("wide") == A, "4 M misses per s, and more of them"
    host.limits = Limits(node_misses_per_s=40e6)
    host.ticks(3)
    assert host.placement("wide") > A


def test_it_gives_the_cpu_back_once_it_needs_it_no_more() -> None:
    host = two_islands()
    host.ticks(12)
    host.run("wide", IDLE)
    host.ticks(40)
    assert (host.placement("wide"), host.placement("idle")) == (A, B)
    assert host.state.loans == ()


def test_the_lender_gets_it_back_when_it_needs_it() -> None:
    host = two_islands()
    host.ticks(12)
    assert host.placement("wide") > A
    host.run("idle", BUSY)
    host.ticks(12)
    assert (host.placement("wide"), host.placement("idle")) == (A, B)


def test_an_island_that_lends_takes_its_own_back_before_it_borrows() -> None:
    host = two_islands()
    host.run("wide", IDLE)
    overlay(host, "shop", "idle")
    host.ticks(4)
    assert borrow(host, "idle", cpus=2) is None
    for _ in range(6):
        wait_for_cpu(host, "wide", 0.3, cores=4.0)
        host.tick()
        lenders = {loan.lender for loan in host.state.loans}
        borrowers = {loan.borrower for loan in host.state.loans}
        assert not lenders & borrowers
    assert host.placement("wide") >= A, "it has all of its own again"


def test_islands_that_all_want_more_lend_nothing() -> None:
    host = two_islands()
    host.run("idle", BUSY)
    host.ticks(12)
    assert host.state.loans == ()


cores = st.floats(0.1, 8.0)
a_share = st.tuples(cores, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.1, 10.0))


@given(shares=st.lists(a_share, min_size=1, max_size=8), room=st.floats(0.0, 20.0))
def test_no_deal_exceeds_the_cap_or_leaves_anybody_below_its_floor(
    shares: list[tuple[float, float, float, float]], room: float
) -> None:
    host = Host()
    found = []
    for number, (own, floor, wanted, weight) in enumerate(shares):
        guest = host.guests[server(host, f"s{number}", {0})]
        least = floor * own
        found.append(Share(guest, own, least, max(wanted * own, least), weight, 1.0))
    given_cores = sum(one.floor_cores for one in found) + room
    made = dealt(given_cores, found)
    assert sum(made.values()) <= given_cores + 1e-6
    for one in found:
        assert one.floor_cores - 1e-9 <= made[one.guest.uuid] <= one.own_cores + 1e-6
    is_hungry = any(made[one.guest.uuid] < one.own_cores - 1e-6 for one in found)
    assert not is_hungry or sum(made.values()) == pytest.approx(given_cores, abs=1e-6)


def test_a_call_leaves_caps_as_they_are() -> None:
    host = capped()
    for name in ("one", "two"):
        server(host, name, A, vcpus=4)
        host.run(name, BUSY)
    overlay(host, "shop", "one")
    host.ticks(3)
    before = total(host, "one"), total(host, "two")
    assert tune(host, "one", of="nobody") is Nack.UNKNOWN_OVERLAY
    for _ in range(2):
        assert tune(host, "one") is None
    assert (total(host, "one"), total(host, "two")) == before
    host.ticks(2)
    assert total(host, "one") > before[0], "a tick deals them out by the weight that was tuned"
