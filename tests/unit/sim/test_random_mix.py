# SPDX-License-Identifier: Apache-2.0
"""Random mixes: what they are, and what no policy may do to any of them.

A small sample with the hard properties; `tests.bench.anymix` measures a thousand.
"""

import itertools

import pytest

from nova_vp.core.types.action import Action, Change
from nova_vp.core.types.claim import PredictedLoss
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.reason import INEFFECTIVE, REAPPLY, Reason
from tests.bench.anymix import moved_twice, numbers_of, trial
from tests.bench.placements import Measure, best_static
from tests.decisions import MOVED
from tests.policies import a_policy
from vp_sim.app_profiles import ROWS
from vp_sim.cli import main
from vp_sim.machine import Private
from vp_sim.mixes import Memory
from vp_sim.queues import QueueForm
from vp_sim.random_mix import any_mix
from vp_sim.run import start, world_of

SAMPLE = range(12)
LEAST_PE_RATIO = 0.97
MANY = [any_mix(seed) for seed in range(200)]


def test_the_same_seed_gives_the_same_mix_and_another_one_another():
    assert any_mix(3) == any_mix(3) != any_mix(4)


def test_mixes_span_the_machines_and_loads_that_matter():
    shapes = [mix.shape for mix in MANY]
    assert {s.nodes for s in shapes} == {1, 2, 3, 4}
    assert any(s.private is Private.L1 and s.nodes == 1 < s.domains_per_node for s in shapes)
    assert any(s.nodes > 1 and s.domains_per_node > 1 for s in shapes)
    assert {s.threads_per_core for s in shapes} == {1, 2}
    assert {mix.hardware.queue_form for mix in MANY} == set(QueueForm)
    assert {m.row.guests for mix in MANY for m in mix.members} == {1, 2, 3}
    loads = []
    for mix in MANY:
        vcpus = sum((m.initial_cores or m.row.vcpus) * m.row.guests for m in mix.members)
        loads.append(vcpus / len(mix.shape.topology().cpus))
    assert 0.4 <= min(loads) < 0.6
    assert max(loads) == 1.0
    assert {mix.memory for mix in MANY} == set(Memory)


def test_applications_are_none_of_the_table():
    figures = [row.figures() for row in ROWS.values()]
    drawn = [m.row.figures() for mix in MANY for m in mix.members]
    for known, one in itertools.product(figures, drawn):
        assert {n: f.value for n, f in known.items()} != {n: f.value for n, f in one.items()}


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_every_guest_starts_with_its_memory_within_what_a_node_has(seed):
    host = start(world_of(any_mix(seed)), seed)
    assert all(host.free_kib(node) >= 0 for node in host.machine.topology.nodes)


@pytest.mark.needs_controllers("vp", "merlin", "rebalance", "initial_placement")
@pytest.mark.parametrize("seed", SAMPLE)
def test_no_policy_makes_a_random_mix_much_worse_or_moves_a_vp_twice_at_once(seed):
    for found in trial(seed, ("vp", "merlin"), search=False).found:
        assert found.pe_ratio >= LEAST_PE_RATIO, found
        assert found.moved_twice == 0, found


def action(reason: Reason, at_s: float, uuid: str = "a", knob: Knob = Knob.PLACEMENT) -> Action:
    change = Change(uuid, knob, (frozenset({0}),), (frozenset({1}),), (frozenset({1}),))
    return Action("1", "vp", uuid, (change,), (0,), reason, at_s, PredictedLoss(0.0, 0.0))


@pytest.mark.parametrize(
    ("first", "second", "twice"),
    [
        (REAPPLY, MOVED, 1),
        (MOVED, MOVED, 1),
        (MOVED, INEFFECTIVE, 0),
    ],
)
def test_a_second_move_within_the_hold_is_counted_unless_it_is_an_undo(first, second, twice):
    hold_s = a_policy().move_hold_s
    assert moved_twice([action(first, 1.0), action(second, hold_s)]) == twice
    assert moved_twice([action(first, 1.0), action(second, 1.0 + hold_s)]) == 0
    assert moved_twice([action(first, 1.0), action(second, hold_s, "b")]) == 0
    assert moved_twice([action(first, 1.0), action(second, hold_s, knob=Knob.CPU_CAP)]) == 0


def test_the_best_static_placement_is_no_worse_than_the_start_and_brings_memory_home():
    searched = 0
    for seed in range(30):
        world = world_of(any_mix(seed))
        host, measure = start(world, seed), Measure(world)
        at_start = measure.of_host(host)
        best = best_static(world, host, measure)
        if best is not None:
            searched += 1
            assert best >= at_start * (1 - 1e-3)
    assert searched > 5


def test_what_is_summed_up_is_what_was_found():
    done = [trial(seed, ("baseline",), search=False) for seed in (2, 3)]
    numbers = numbers_of(done, ("baseline",))
    assert numbers["baseline_pe_worst"] == numbers["baseline_pe_median"] == 1.0
    assert numbers["baseline_largest_loss_points"] == numbers["baseline_moved_twice"] == 0.0


def test_a_random_mix_is_reached_by_its_seed(capsys):
    assert main(["run", "--mix", "random:2", "--policy", "baseline"]) == 0
    assert main(["run", "--mix", "random:two"]) == 2
    assert "whole number, as in random:7" in capsys.readouterr().err
