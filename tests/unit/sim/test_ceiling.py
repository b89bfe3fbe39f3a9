# SPDX-License-Identifier: Apache-2.0
"""The ceiling of a mix: what is enumerated, what the search finds, and when a policy beats it."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from tests.bench.arrangements import fits, local_arrangements, neighbours, placement_of, vms_of
from tests.bench.ceiling import (
    BEATEN,
    TOLERANCE,
    Wanted,
    beaten_by,
    benchmark_of,
    best_ends,
    main,
    save,
)
from tests.bench.ceiling_search import MARGIN, Ceiling, Scorer, search
from tests.bench.going import going
from tests.bench.static_run import ANY_SEED, run_static
from vp_sim.measure import OfOrder, OfPolicy, best_of, judge
from vp_sim.mixes import MIXES, Mix, members
from vp_sim.mixfile import read_mix
from vp_sim.placement import Placed, VmPlace
from vp_sim.placement import placement_of as placement_at_start
from vp_sim.policies import find
from vp_sim.run import simulate, start, world_of

BASELINE = find(("baseline",))["baseline"]
SMALL = """
machine: {nodes: 2, cores_per_domain: 4, node_gbps: 8, link_gbps: 20, remote_ns: 150}
memory: local
applications: [{app: stream, vcpus: 2}, {app: mcf}, {app: milc}]
"""
"""Two are on one node, and each of them is alone in some order: no placement with local memory is
as good for all, and memory on both nodes helps who shares a controller."""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    world = world_of(read_mix(path))
    return world, best_of([simulate(world, BASELINE, seed) for seed in range(8)])


def test_each_way_to_fill_the_nodes_is_met_once():
    """Two STREAMs of four vCPUs fill a node of eight: together or apart."""
    found = local_arrangements(vms_of(Mix("two", members({"stream": 2}))))
    assert sorted(len({place.cpus for place in one}) for one in found) == [1, 2]


def test_nobody_is_put_where_no_cpu_is_left():
    vms = vms_of(MIXES["stream-spec"])
    found = local_arrangements(vms)
    assert len(found) == 11
    for arrangement in found:
        for place in arrangement:
            here = [n for n, p in zip(vms.vcpus, arrangement, strict=True) if p.cpus == place.cpus]
            assert sum(here) <= len(place.cpus) == 8


def test_of_an_application_of_two_vms_it_matters_who_is_whose():
    """Two Voldemorts of two VMs on two nodes that hold two VMs each: both apart, or each whole."""
    mix = Mix("two", members({"voldemort": 2}))
    shape = replace(mix.shape, nodes=2, cores_per_domain=4)
    assert len(local_arrangements(vms_of(replace(mix, shape=shape)))) == 2


def test_neighbours_are_other_arrangements_that_have_room(small):
    world, _ = small
    vms = vms_of(world.mix)._replace(node_mib=9000)
    one = local_arrangements(vms)[0]
    found = list(neighbours(vms, one, Random(0)))
    assert one not in found
    assert all(fits(vms, other) for other in found)
    assert len(found) == len(set(found)) < len(list(neighbours(vms_of(world.mix), one, Random(0))))


def test_one_step_changes_places_memory_caps_or_cpus(small):
    """Of STREAM, which is alone on node 0 at first."""
    world, _ = small
    vms = vms_of(world.mix)
    node_0, node_1 = (domain.cpus for domain in vms.topology.domains)
    alone = VmPlace(node_0, ((0, 1.0),))
    beside = VmPlace(node_1, ((1, 1.0),))
    reached = {one[0] for one in neighbours(vms, (alone, beside, beside), Random(0))}
    assert {
        beside,
        alone._replace(cpus=node_1),
        alone._replace(cpus=node_0 | node_1),
        alone._replace(cpus=node_0 - {3}),
        alone._replace(cpus=node_0 | {4}),
        alone._replace(memory=((0, 31 / 32), (1, 1 / 32))),
        alone._replace(memory=((0, 0.5), (1, 0.5))),
        alone._replace(cap_ratio=0.99),
        alone._replace(cap_ratio=0.8),
    } <= reached
    capped = tuple(place._replace(cap_ratio=0.35) for place in (alone, beside, beside))
    caps = {one[0].cap_ratio for one in neighbours(vms, capped, Random(0))}
    assert caps == {0.30, 0.34, 0.35, 0.36, 0.40, 0.55}


@pytest.mark.parametrize("name", ["stream-spec", "merlin"])
def test_a_static_run_is_the_run_of_a_policy_that_rests(name):
    world = world_of(MIXES[name])
    ends = start(world, 1)
    placement = {}
    for number, guest in enumerate(ends.guests.values()):
        cap = 0.8 if number % 3 == 0 else 1.0
        place = VmPlace(guest.placement, ((1, 0.25), (2 + number % 2, 0.75)), cap)
        placement[guest.label] = (*placement.get(guest.label, ()), place)
    quick, slow = run_static(world, placement), simulate(world, Placed(placement), ANY_SEED)
    assert quick.seconds == pytest.approx(slow.seconds)
    assert quick.took_s == slow.took_s
    assert quick.cpu_used == pytest.approx(slow.cpu_used)
    assert quick.final == slow.final


def test_the_search_finds_no_less_than_trying_everything(small):
    """Each VM on either node, with its memory on one or halved, whole or capped to 75 %."""
    world, best_s = small
    vms = vms_of(world.mix)
    cpus = {domain.node: domain.cpus for domain in vms.topology.domains}
    places = [
        VmPlace(cpus[node], memory, cap)
        for node in cpus
        for memory in (((0, 1.0),), ((0, 0.5), (1, 0.5)), ((1, 1.0),))
        for cap in (1.0, 0.75)
    ]
    scorer = Scorer(world, best_s)
    on_node_0 = [place for place in places if place.cpus == cpus[0]]
    scores = [scorer.score(one) for one in product(on_node_0, places, places)]
    least = min(score.worst for score in scores)
    local = [scorer.score(one) for one in local_arrangements(vms)]
    assert least < min(score.worst for score in local) - 0.01
    found = search(world, best_s, (), budget=1000, seed=0)
    assert found.least_worst <= least + TOLERANCE
    within = found.least_worst + MARGIN
    most = max(score.pe for score in scores if score.worst <= within)
    assert found.most_pe >= most * (1 - TOLERANCE)
    assert found.worst_of_most_pe <= within
    again = Scorer(world, best_s)
    for placement, worst in (
        (found.fairest, found.least_worst),
        (found.fullest, found.worst_of_most_pe),
    ):
        arrangement = tuple(placement[label][0] for label in vms.labels)
        assert placement_of(vms, arrangement) == placement
        assert again.score(arrangement).worst == pytest.approx(worst, abs=TOLERANCE)


def test_the_same_seed_searches_the_same_way(small):
    world, best_s = small
    one, again, other = (search(world, best_s, (), 60, seed) for seed in (1, 1, 2))
    assert one == again
    assert other.searched == one.searched
    assert (other.fairest, other.fullest) != (one.fairest, one.fullest)


def test_the_search_goes_on_from_where_policies_ended():
    """With no budget of its own it knows what they reached."""
    world = world_of(MIXES["merlin"])
    best_s = best_of([simulate(world, BASELINE, seed) for seed in range(3)])
    run = simulate(world, find(("local",))["local"], 0)
    results = {"local": judge([run], best_s, world.machine.topology)}
    ends = best_ends(world.mix, results)
    without, knowing = (search(world, best_s, more, 0, 0) for more in ((), ends))
    assert knowing.searched == without.searched + 1
    assert Scorer(world, best_s).score(ends[0]).worst >= knowing.least_worst


def test_who_goes_to_an_arrangement_pays_for_the_moves(small):
    """Where it starts costs nothing; to somewhere else memory is copied, and large pages lost."""
    world, best_s = small
    start_places = placement_at_start(start(world, 0))
    stays = going(world, best_s, start_places, 1)
    assert (stays.memory_moves, stays.vcpu_moves) == (0, 0)
    assert stays.orders[0].pe == pytest.approx(judged(world, best_s, BASELINE).pe)
    other = {
        label: tuple(place._replace(memory=((1 - place.memory[0][0], 1.0),)) for place in places)
        for label, places in start_places.items()
    }
    goes, was_there = going(world, best_s, other, 1), judged(world, best_s, Placed(other))
    assert goes.memory_moves == 3
    assert goes.orders[0].pe < was_there.pe


def judged(world, best_s, create) -> OfPolicy:
    return judge([simulate(world, create, 0)], best_s, world.machine.topology)


CEILING = Ceiling(0.10, 8.0, 8.2, 0.14, 100, {}, {})


def orders(*reached: tuple[float, float]) -> dict[str, OfPolicy]:
    found = tuple(OfOrder(worst, pe, {}) for worst, pe in reached)
    return {"some": OfPolicy(found, 0.0, 0.0, 0.0, 100.0, 0.0, {})}


@pytest.mark.parametrize(
    ("reached", "said"),
    [
        ((0.20, 8.0), []),
        ((0.0995, 8.1), []),
        ((0.095, 8.1), ["some in start order 1 has a worst degradation of 0.0950, below"]),
        ((0.149, 8.3), ["some in start order 1 has PE 8.3000, above"]),
        ((0.151, 8.3), []),
        ((0.05, 8.3), ["worst degradation", "PE"]),
    ],
)
def test_a_policy_that_reaches_more_in_one_order_beats_the_ceiling(reached, said):
    told = list(beaten_by(CEILING, orders((0.3, 7.0), reached)))
    assert len(told) == len(said)
    assert all(part in line for part, line in zip(said, told, strict=True))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--save", "/no/such/folder"], "/no/such/folder is not a directory; create it first"),
        (["--mix", "nosuch"], "nosuch: No such file or directory; give a file"),
        (["--policies", "luck"], "'luck' is not a policy: use one of"),
    ],
)
def test_what_it_cannot_do_is_told_before_the_search(capsys, words, said):
    with pytest.raises(SystemExit):
        main(words)
    assert said in capsys.readouterr().err


def test_numbers_are_not_lost_with_a_placement_that_cannot_be_written(tmp_path, capsys):
    save(tmp_path / "gone", "merlin", CEILING)
    assert "No such file or directory: the placements are not saved" in capsys.readouterr().err
    save(tmp_path, "a/my:mix.yaml", CEILING)
    assert {path.name for path in tmp_path.iterdir()} == {
        "my-mix.least-worst.json",
        "my-mix.most-pe.json",
    }


def test_a_ceiling_that_is_beaten_is_over_its_budget():
    benchmark = benchmark_of(Wanted(mixes=("merlin",)))
    found = {"merlin": {BEATEN: 1, "most_pe": 8.0, "perturbation": {"seed": 1}}}
    numbers = benchmark.numbers_of(found)
    assert benchmark.missed(numbers, 40.0) == [f"merlin.{BEATEN}"]
    assert set(numbers) == {f"merlin.{BEATEN}", "merlin.most_pe"}
