# SPDX-License-Identifier: Apache-2.0
"""The placements that bound what a policy could reach: all of them, each as it says."""

import pytest

from tests.bench.ceiling import Fixed, placements
from vp_sim.mixes import MIXES, Memory, Mix, members
from vp_sim.policies import find
from vp_sim.run import simulate, start, world_of


def test_each_way_to_fill_the_nodes_is_met_once():
    """Two STREAMs of four vCPUs fill a node of eight: together or apart."""
    world = world_of(Mix("two", members({"stream": 2})))
    assert sorted(len(set(one)) for one in placements(world)) == [1, 2]


def test_nobody_is_put_where_no_cpu_is_left():
    world = world_of(MIXES["stream-spec"])
    guests = list(start(world, 0).guests.values())
    found = list(placements(world))
    assert len(found) == 11
    for placement in found:
        for domain in set(placement):
            here = [g for g, d in zip(guests, placement, strict=True) if d == domain]
            assert sum(g.app.vcpus for g in here) <= 8


def test_a_fixed_placement_is_local_and_costs_nothing():
    mix = Mix("remote", members({"milc": 4}), memory=Memory.AVAILABLE)
    world = world_of(mix)
    run = simulate(world, Fixed((1, 1, 2, 2)), seed=0)
    local = simulate(
        world_of(Mix("local", members({"milc": 1}), memory=Memory.LOCAL)),
        find(("baseline",))["baseline"],
        seed=0,
    )
    assert run.tally.memory_moves == 0
    alone = local.seconds["milc-1"]
    assert all(took == pytest.approx(alone, rel=0.15) for took in run.seconds.values())
