# SPDX-License-Identifier: Apache-2.0
"""Islands of kind `exclusive`: a CPU for each vCPU, and none shared."""

import itertools

from nova_vp.core.controllers.overlays.declaration import EXCLUSIVE
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.island import Island, Scheduler
from nova_vp.core.types.overlay import Nack
from tests.policies import a_policy
from tests.unit.core.build import Host, Rates, nodes_of, uuid_of
from tests.unit.core.controllers.overlays.hosts import KNOBS, borrow, overlay, release, server

A, B = {0, 1, 2, 3}, {4, 5, 6, 7}


def a_host() -> Host:
    islands = (Island("voice", frozenset(A), Scheduler.EXCLUSIVE), Island("rest", frozenset(B)))
    policy = a_policy(controllers=("overlays",), islands=islands)
    return Host(nodes_of(0, 1, cpus=4), policy, knobs=KNOBS)


def pins(host: Host, name: str) -> list[int]:
    """One CPU for each vCPU."""
    guest = host.guest(name)
    assert len(guest.cpus) == guest.vcpus, guest.cpus
    return [cpu for [cpu] in guest.cpus]


def test_each_vcpu_has_a_cpu_of_its_own() -> None:
    host = a_host()
    server(host, "one", A, vcpus=2)
    server(host, "two", A, vcpus=1)
    server(host, "free", B, vcpus=2)
    actions = [action for decision in host.ticks(3) for action in decision.actions]
    assert {action.reason for action in actions} == {EXCLUSIVE}
    taken = [*pins(host, "one"), *pins(host, "two")]
    assert len(set(taken)) == 3
    assert set(taken) <= A
    assert host.placement("free") == B


def test_who_is_pinned_stays_so_whoever_comes_and_leaves() -> None:
    host = a_host()
    names = ("d", "c", "b", "a")
    for name in names:
        server(host, name, A, vcpus=1)
        host.ticks(2)
    before = {name: pins(host, name) for name in names}
    assert sorted(itertools.chain(*before.values())) == sorted(A)
    host.leave("c")
    host.ticks(2)
    assert all(pins(host, name) == before[name] for name in ("d", "b", "a"))


def test_a_server_for_which_cpus_are_lacking_shares_the_island() -> None:
    host = a_host()
    server(host, "one", A, vcpus=3)
    server(host, "two", A, vcpus=2)
    host.ticks(3)
    assert len(set(pins(host, "one"))) == 3
    assert host.placement("two") == A


def test_only_cpus_that_nova_allows_are_taken() -> None:
    host = a_host()
    server(host, "one", {2, 3}, vcpus=2, allowed_cpus=frozenset({2, 3}))
    host.ticks(2)
    assert set(pins(host, "one")) == {2, 3}


def test_who_may_not_be_moved_is_not_pinned() -> None:
    host = a_host()
    server(host, "one", A, vcpus=2, unmanaged=Unmanaged.OPTED_OUT)
    host.ticks(2)
    assert host.placement("one") == A


def test_it_goes_back_once_the_island_is_of_another_kind() -> None:
    host = a_host()
    server(host, "one", A, vcpus=2)
    host.ticks(2)
    host.policy = a_policy(controllers=("overlays",))
    host.ticks(3)
    assert host.placement("one") == A
    assert host.applied == {}
    assert host.state.claims == {}


def test_a_cpu_that_no_vcpu_has_is_lent_and_taken_back() -> None:
    host = a_host()
    server(host, "one", A, vcpus=2)
    server(host, "web", B, vcpus=4)
    overlay(host, "shop", "web")
    host.ticks(3)
    before = pins(host, "one")
    assert borrow(host) is None
    [lent] = host.placement("web") - B
    assert lent not in before
    host.ticks(2)
    assert pins(host, "one") == before
    server(host, "two", A, vcpus=2)
    host.ticks(2)
    assert uuid_of("two") not in host.applied
    release(host)
    host.ticks(2)
    assert host.placement("web") == B
    assert lent in pins(host, "two")


def test_it_borrows_no_cpu_since_no_vcpu_would_run_there() -> None:
    host = a_host()
    server(host, "voice", A, vcpus=4)
    server(host, "other", B, vcpus=4)
    overlay(host, "calls", "voice")
    overlay(host, "others", "other")
    host.run("voice", Rates(mips=50, cores=4.0))
    host.run("other", Rates(mips=50, cores=0.1))
    host.ticks(3)
    assert borrow(host, "voice", of="calls") is Nack.NO_ROOM
    assert host.placement("other") == B
    host.run("other", Rates(mips=50, cores=3.0))
    host.ticks(3)
    for _ in range(5):
        assert borrow(host, "voice", of="calls") is Nack.NO_ROOM
    assert host.cap_ratio("other") == 1.0, "it would help nobody"
