# SPDX-License-Identifier: Apache-2.0
"""When a better arrangement is looked for: once all is settled and known, and not too often."""

from dataclasses import replace
from itertools import pairwise

import pytest

from nova_vp.core.controllers.rebalance.declaration import REARRANGE, SEPARATE
from nova_vp.core.types.action import Result
from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Enabled, Policy
from nova_vp.core.types.topology import Limits, Topology
from tests.policies import a_policy, settings_of
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    nodes_of,
    uuid_of,
)
from tests.unit.core.controllers.rebalance.test_plans import MIXED
from tests.unit.core.test_ordered import revoke
from tests.unit.core.wishful import Wishful, llc

POLICY = a_policy(controllers=("rebalance",))
SETTLED = POLICY.settle_samples


def at_odds(topology: Topology | None = None, policy: Policy = POLICY) -> Host:
    """Two on one LLC that were degraded from the first second; nobody is on the other one."""
    host = Host(topology or nodes_of(0, 1), policy, knobs=frozenset(Knob))
    for name, rates in (("stream", STREAM), ("mixed", MIXED)):
        host.add(name, rates, cpus={0, 1}, node=0)
    return host


def first(host: Host, seconds: int = 120) -> int:
    """After so many seconds it rearranges."""
    for second in range(1, seconds):
        if host.tick().actions:
            return second
    raise AssertionError("nobody was rearranged")


def is_looking(host: Host) -> bool:
    return bool(host.state.controllers["rebalance"].fruitless)


def test_it_looks_once_everybody_is_known():
    host = at_odds()
    assert first(host) == SETTLED + 1


def test_who_came_just_now_has_to_be_known_first():
    host = at_odds()
    host.ticks(3)
    host.add("newcomer", COMPUTE, cpus={2, 3}, node=1)
    assert first(host) == SETTLED + 1


@pytest.mark.parametrize("rates", [Rates(mips=0.1), None])
def test_who_will_never_be_known_is_not_waited_for(rates):
    """It idles, or its counters cannot be read."""
    host = at_odds(nodes_of(0, 1, 2))
    uuid = host.add("sleeper", rates or COMPUTE, cpus={4, 5}, node=2)
    if rates is None:
        del host.counts[uuid], host.rates[uuid]
    assert first(host) == SETTLED + 1


def test_it_waits_after_anybody_was_placed():
    host = at_odds()
    host.ticks(3)
    host.state = replace(host.state, placed_at_s=host.now_s)
    assert first(host) == settings_of(POLICY, "rebalance").rearrange_after_s


def test_it_waits_for_what_is_on_trial():
    other = Wishful("other", 500, is_verified=True)
    controllers = (Enabled(other, other.settings()), *POLICY.controllers)
    host = at_odds(policy=replace(POLICY, controllers=controllers))
    host.ticks(3)
    other.wants(llc(0.5, uuid_of("stream")))
    host.tick()
    for _ in range(int(POLICY.effect_window_s)):
        # As if nothing had been changed lately.
        host.state = replace(host.state, placed_at_s=0.0)
        host.tick()
        assert not is_looking(host)
    host.ticks(20)
    assert is_looking(host)


def test_it_waits_for_memory_that_is_on_its_way():
    host = at_odds()
    uuid = host.add("mover", COMPUTE, cpus={2, 3}, node=0)
    host.copy_kib_per_s = 1_000.0
    kib = host.guest("mover").memory_kib
    host.memory_moves = {uuid: MemoryMove(uuid, ((1, 1.0),), moved_kib=0, left_kib=kib)}
    assert not any(decision.actions for decision in host.ticks(90))
    assert first(host) <= 60


def test_who_is_degraded_in_a_cache_by_somebody_known_is_helped_first():
    host = at_odds()
    for name, rates in (("victim", CHASE), ("neighbour", COMPUTE)):
        host.add(name, rates, cpus={2, 3}, node=1)
    host.ticks(3)
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)
    decisions = host.ticks(20)
    assert decisions[-1].detections
    assert not any(decision.actions for decision in decisions)
    assert not is_looking(host)


MILC = Rates(mips=30, l2_mpki=33.0, mpki=31.0, cpi=3.73, cores=0.5)


def test_memory_moves_are_judged_by_samples_taken_after_copying():
    """Figure 8: four milc on one node are a little faster on nodes of their own; while their memory
    is copied all of them are much slower."""
    host = Host(nodes_of(0, 1, 2, 3), POLICY, knobs=ALL_KNOBS, limits=Limits(3.6e6))
    names = ("milc1", "milc2", "milc3", "milc4")
    for name in names:
        host.add(name, MILC, cpus={0, 1}, node=0)
    host.copy_kib_per_s = host.guest("milc1").memory_kib / 15

    def beside(host: Host) -> None:
        copying = any(not move.is_over for move in host.memory_moves.values())
        for name in names:
            alone = not any(
                host.nodes(name) & host.nodes(other) for other in names if other != name
            )
            apart = 3.47 if alone else MILC.cpi
            host.run(name, replace(MILC, cpi=6.0 if copying else apart))

    host.rule = beside
    host.until(SEPARATE)
    decisions = host.ticks(60)
    assert not any(decision.actions for decision in decisions)
    assert {frozenset(host.nodes(name)) for name in names} == {frozenset({n}) for n in range(4)}
    assert host.view("milc1", decisions[-1]).history[-1].result is Result.MENDED


def nobody_better_off() -> Host:
    """The same without any other place: each look is fruitless."""
    return at_odds(nodes_of(0))


def looks(host: Host, seconds: int) -> list[float]:
    """When it looked."""
    found, fruitless = [], 0
    for _ in range(seconds):
        host.tick()
        now = host.state.controllers["rebalance"].fruitless
        if now > fruitless:
            found.append(host.now_s)
        fruitless = now
    return found


def test_each_look_that_brings_nothing_doubles_the_wait_up_to_eight_minutes():
    at_s = looks(nobody_better_off(), 2100)
    assert [later - earlier for earlier, later in pairwise(at_s)] == [
        30,
        60,
        120,
        240,
        480,
        480,
        480,
    ]


def test_a_plan_that_helped_makes_up_for_the_looks_before_it():
    host = nobody_better_off()
    host.ticks(100)
    assert host.state.controllers["rebalance"].fruitless >= 2
    host.topology = nodes_of(0, 1)
    for name in ("stream", "mixed"):
        host.change(name, allowed_cpus=host.topology.cpus)

    def run(host: Host) -> None:
        together = host.share_a_cache("stream", "mixed")
        host.run("mixed", MIXED if together else replace(MIXED, cpi=MIXED.cpi / 2))

    host.rule = run
    host.until(REARRANGE, seconds=600)
    while host.state.pending:
        host.tick()
    assert host.state.controllers["rebalance"].fruitless == 0


def test_a_plan_that_was_undone_by_order_is_a_look_in_vain():
    host = at_odds()
    action = host.until(REARRANGE)
    before = host.state.controllers["rebalance"]
    revoke(host, action.id)
    after = host.state.controllers["rebalance"]
    assert after.fruitless == before.fruitless + 1
    assert after.next_s > before.next_s
