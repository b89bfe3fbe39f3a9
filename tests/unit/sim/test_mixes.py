# SPDX-License-Identifier: Apache-2.0
"""How a host is filled: memory by availability comes from all nodes, within what they have."""

from dataclasses import replace
from random import Random
from statistics import fmean

import pytest

from vp_sim.machine import WESTMERE
from vp_sim.mixes import MIXES, Memory, Mix, StartPlace, members, seats
from vp_sim.parameters import printed

ORDERS = 200


def places(mix: Mix, seed: int) -> tuple[StartPlace, ...]:
    return seats(mix, mix.order(Random(seed)), Random(seed))


def local_share(mix: Mix, place: StartPlace) -> float:
    home = next(d.node for d in mix.shape.topology().domains if d.cpus & place.cpus)
    return place.memory.get(home, 0.0)


def test_memory_by_availability_is_local_as_often_as_any_node_is():
    mix = MIXES["stream-spec"]
    found = [local_share(mix, place) for seed in range(ORDERS) for place in places(mix, seed)]
    assert fmean(found) == pytest.approx(1 / 3, abs=0.03)
    assert {0.0, 0.25, 0.5, 0.75, 1.0} == set(found)  # Four extents of 1 GiB each.


def test_all_memory_of_a_guest_is_somewhere_and_the_same_seed_puts_it_there_again():
    mix = MIXES["voldemort-mapreduce"]
    for place in places(mix, 3):
        assert sum(place.memory.values()) == pytest.approx(1.0)
    assert places(mix, 3) == places(mix, 3) != places(mix, 4)


def test_a_node_never_gives_more_than_it_has():
    """Six guests of 4 GiB on three nodes of 8.5 GiB."""
    hardware = replace(WESTMERE, node_mib=printed(8704, "a small one"))
    mix = Mix("tight", members({"stream": 6}), hardware=hardware)
    for seed in range(ORDERS):
        lying = {node: 0.0 for node in mix.shape.topology().nodes}
        for place in places(mix, seed):
            assert sum(place.memory.values()) == pytest.approx(1.0)
            for node, share in place.memory.items():
                lying[node] += 4096 * share
        assert max(lying.values()) <= 8704 + 1e-6


def test_local_memory_is_that_of_the_guest_s_cpus():
    mix = replace(MIXES["stream-spec"], memory=Memory.LOCAL)
    assert all(local_share(mix, place) == 1.0 for place in places(mix, 0))
