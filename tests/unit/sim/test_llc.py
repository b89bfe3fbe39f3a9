# SPDX-License-Identifier: Apache-2.0
"""Distributed Intensity: what it leaves undone would win less than it asks of an exchange."""

from itertools import combinations, permutations, product
from math import sqrt
from random import Random

import pytest

from tests.decisions import a_guest
from vp_sim.machine import Shape
from vp_sim.policies.llc import LEAST_GAIN, exchanges, heat_of, spread
from vp_sim.sampling import Rates


def a_host(seed):
    """Its topology, its guests and where they are: with CPUs to spare, and without any."""
    random = Random(seed)
    topology = Shape(random.choice((1, 2)), random.choice((1, 2)), 8).topology()
    guests = [
        Rates(
            a_guest(uuid=f"{n}", vcpus=random.choice((1, 2, 4))), random.uniform(0, 100), 0.0, 0.0
        )
        for n in range(random.randint(2, 14))
    ]
    domains = [domain.id for domain in topology.domains]
    return topology, guests, {one.guest.uuid: random.choice(domains) for one in guests}


def unevenness(plan, guests, topology):
    heat = {domain.id: 0.0 for domain in topology.domains}
    for one in guests:
        heat[plan[one.guest.uuid]] += heat_of(one)
    mean = sum(heat.values()) / len(heat)
    return sqrt(sum((h - mean) ** 2 for h in heat.values()))


def all_exchanges(plan, guests, topology):
    """Every one that fits: one or two guests for none, one or two of another domain."""
    vcpus = {one.guest.uuid: one.guest.vcpus for one in guests}
    inside = {d.id: [uuid for uuid in plan if plan[uuid] == d.id] for d in topology.domains}
    room = {d.id: len(d.cpus) for d in topology.domains}
    free = {d: max(0, room[d] - sum(vcpus[u] for u in inside[d])) for d in room}
    for one, other in permutations(room, 2):
        for leaving, coming in product((1, 2), (0, 1, 2)):
            for some, others in product(
                combinations(inside[one], leaving), combinations(inside[other], coming)
            ):
                more = sum(vcpus[u] for u in some) - sum(vcpus[u] for u in others)
                if coming <= leaving and -free[one] <= more <= free[other]:
                    yield {**plan, **dict.fromkeys(some, other), **dict.fromkeys(others, one)}


def test_a_guest_counts_for_each_of_its_vcpus():
    """Of four vCPUs each misses 60 times, of two others each 120 times: these are apart already."""
    topology = Shape(2, 1, 8).topology()
    one, other = (domain.id for domain in topology.domains)
    rates = [Rates(a_guest(uuid="big", vcpus=4), 60.0, 0.0, 0.0)]
    rates += [Rates(a_guest(uuid=name, vcpus=1), 120.0, 0.0, 0.0) for name in ("a", "b")]
    now = {"big": one, "a": other, "b": other}
    assert spread(topology, rates, now) == now


@pytest.mark.parametrize("seed", range(60))
def test_no_exchange_that_is_left_would_be_worth_its_moves(seed):
    topology, guests, now = a_host(seed)
    plan = spread(topology, guests, now)
    left = unevenness(plan, guests, topology)
    assert left <= unevenness(now, guests, topology)
    least = LEAST_GAIN * sum(map(heat_of, guests)) / len(topology.domains)
    assert all(
        left - unevenness(other, guests, topology) < least + 1e-9
        for other in all_exchanges(plan, guests, topology)
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_best_exchange_is_the_best_of_all(seed):
    topology, guests, now = a_host(seed)
    room = {domain.id: len(domain.cpus) for domain in topology.domains}
    found = [one.gain for one in exchanges(now, {g.guest.uuid: g for g in guests}, room)]
    before = unevenness(now, guests, topology)
    every = [before - unevenness(p, guests, topology) for p in all_exchanges(now, guests, topology)]
    assert max(found, default=0.0) == pytest.approx(max(every, default=0.0))
