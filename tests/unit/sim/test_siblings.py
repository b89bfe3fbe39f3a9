# SPDX-License-Identifier: Apache-2.0
"""Siblings share a core: who uses the second thread of one slows the first, and gets the rest."""

import pytest

from vp_sim.cpu import Scheduler, Wish, alone_share
from vp_sim.machine import WESTMERE, Shape
from vp_sim.mixes import Memory, Mix, members
from vp_sim.policies import find
from vp_sim.run import simulate, start, world_of

RATIO = WESTMERE.sibling_ratio.value
SHAPE = Shape(nodes=2, domains_per_node=1, cores_per_domain=4, threads_per_core=2)


def shares(*wishes: Wish) -> tuple[float, ...]:
    return Scheduler(SHAPE.topology(), SHAPE.core_of(), RATIO).core_shares(wishes)


def test_siblings_are_numbered_as_linux_does():
    domains = SHAPE.topology().domains
    assert [sorted(d.cpus) for d in domains] == [
        [0, 1, 2, 3, 8, 9, 10, 11],
        [*range(4, 8), *range(12, 16)],
    ]
    assert SHAPE.core_of()[2] == SHAPE.core_of()[10]


def test_cores_are_filled_before_their_second_threads():
    whole = SHAPE.topology().domains[0].cpus
    assert shares(Wish(whole, 4.0)) == (1.0,)
    assert shares(Wish(whole, 8.0)) == (pytest.approx(RATIO),)
    [some] = shares(Wish(whole, 6.0))
    assert RATIO < some < 1.0


def test_who_is_pinned_to_the_sibling_of_another_slows_both():
    first, second, apart = (
        shares(Wish(frozenset({0}), 1.0), Wish(frozenset({cpu}), 1.0)) for cpu in (8, 9, 4)
    )
    assert first == pytest.approx((RATIO, RATIO))
    assert second == apart == (1.0, 1.0)


def test_an_idle_sibling_slows_nobody_and_a_half_busy_one_by_half():
    assert shares(Wish(frozenset({0}), 1.0), Wish(frozenset({8}), 0.0)) == (1.0, 1.0)
    one, _ = shares(Wish(frozenset({0}), 1.0), Wish(frozenset({8}), 0.5))
    assert one == pytest.approx(1 - 0.5 * (1 - RATIO), abs=1e-3)


def test_without_siblings_nobody_is_slowed():
    shape = Shape(nodes=1, domains_per_node=1, cores_per_domain=4)
    scheduler = Scheduler(shape.topology(), shape.core_of(), RATIO)
    assert scheduler.core_shares([Wish(frozenset({0, 1}), 2.0)] * 2) == (1.0, 1.0)


def test_alone_an_application_is_as_fast_as_its_siblings_let_it():
    assert alone_share(4.0, 4, RATIO) == 1.0
    assert alone_share(8.0, 4, RATIO) == pytest.approx(RATIO)


def test_a_full_machine_of_siblings_does_more_than_its_cores_and_less_than_twice():
    """Eight guests of one vCPU: on four cores with siblings, and on four and eight without."""

    def seconds(cores: int, threads: int) -> float:
        shape = Shape(1, 1, cores, threads_per_core=threads)
        mix = Mix("many", members({"lbm": 4}), shape=shape, memory=Memory.LOCAL)
        run = simulate(world_of(mix), find(("baseline",))["baseline"], 0)
        return max(run.seconds.values())

    assert seconds(8, 1) < seconds(4, 2) < seconds(4, 1)


def test_a_host_of_siblings_runs_a_guest_alone_at_the_speed_of_its_job():
    mix = Mix("one", members({"mcf": 1}), shape=SHAPE, memory=Memory.LOCAL)
    world = world_of(mix)
    host = start(world, 0)
    host.advance(1.0)
    [speed] = host.speeds.values()
    assert speed.instructions_per_s == pytest.approx(world.rates["mcf"][0], rel=0.02)
