# SPDX-License-Identifier: Apache-2.0
"""Perturbed hosts: off by no more than is said, the same again from the same seed, and told."""

import json

import pytest

from vp_sim.cli import main
from vp_sim.jobs import JOB_S
from vp_sim.mixes import MIXES, Memory, Mix, members
from vp_sim.perturb import MOST_OFF, as_text, perturb
from vp_sim.policies import find
from vp_sim.queues import QueueForm
from vp_sim.run import simulate, world_of

MIX = MIXES["stream-spec"]
WORLD = world_of(MIX)
WEIGHT = WORLD.machine.costs.intensity_weight
SEEDS = range(100)


def perturbed(seed: int):
    return perturb(WORLD.machine, WORLD.apps, seed)


def test_the_same_seed_is_the_same_host_and_another_one_another():
    one, again, other = (perturbed(seed)[2] for seed in (1, 1, 2))
    assert one == again
    assert one.node_bandwidth != other.node_bandwidth
    assert one.miss_cost != other.miss_cost


def test_figures_are_off_by_up_to_30_percent_and_over_the_whole_range():
    for figure, now in (
        ("node_bandwidth", lambda m, a: m.costs.node_gbps / WORLD.machine.costs.node_gbps),
        ("link_bandwidth", lambda m, a: m.costs.link_gbps / WORLD.machine.costs.link_gbps),
        ("latency", lambda m, a: m.costs.remote_ns / WORLD.machine.costs.remote_ns),
        ("cache_sharing", lambda m, a: m.costs.intensity_weight / WEIGHT),
        ("miss_cost", lambda m, a: WORLD.apps["mcf"].parallel_misses / a["mcf"].parallel_misses),
        ("cache_need", lambda m, a: a["mcf"].half_mib / WORLD.apps["mcf"].half_mib),
    ):
        factors = []
        for seed in SEEDS:
            machine, apps, drawn = perturbed(seed)
            told = getattr(drawn, figure)
            factors.append(now(machine, apps))
            assert factors[-1] == pytest.approx(told["mcf"] if isinstance(told, dict) else told)
        assert 1 - MOST_OFF <= min(factors) < 0.75 < 1.25 < max(factors) <= 1 + MOST_OFF


def test_applications_and_figures_are_drawn_apart():
    _, _, drawn = perturbed(0)
    factors = [drawn.node_bandwidth, drawn.link_bandwidth, drawn.latency, drawn.cache_sharing]
    factors += [*drawn.miss_cost.values(), *drawn.cache_need.values()]
    assert len(set(factors)) == len(factors) == 4 + 2 * len(WORLD.apps)


def test_either_form_of_queue_is_drawn_and_used():
    drawn = [perturbed(seed) for seed in SEEDS]
    assert all(machine.queue_form is one.queue_form for machine, _, one in drawn)
    assert {one.queue_form for _, _, one in drawn} == set(QueueForm)


def test_an_application_has_the_same_factors_in_every_mix():
    alone = world_of(Mix("alone", members({"mcf": 1})), perturb_seed=3).perturbation
    assert alone.miss_cost["mcf"] == perturbed(3)[2].miss_cost["mcf"]


def test_alone_on_a_perturbed_host_a_job_takes_its_300_seconds():
    world = world_of(Mix("alone", members({"milc": 1}), memory=Memory.LOCAL), perturb_seed=3)
    run = simulate(world, find(("baseline",))["baseline"], seed=0)
    assert world.rates["milc"] != WORLD.rates["milc"]
    assert run.seconds["milc-1"] == pytest.approx(JOB_S, rel=0.01)


def test_compare_run_and_evaluate_say_what_was_perturbed(tmp_path, capsys):
    mix, saved = tmp_path / "mix.yaml", tmp_path / "end.json"
    mix.write_text("applications: [{app: mcf}, {app: milc}]")
    words = ["--mix", str(mix), "--perturb", "4"]
    told = as_text(world_of(Mix("two", members({"mcf": 1, "milc": 1})), None, 4).perturbation)

    def printed(*arguments):
        assert main([*arguments, *words]) == 0
        return capsys.readouterr().out

    run = printed("run", "--policy", "baseline", "--save-placement", str(saved))
    evaluate = ["evaluate", "--placement", str(saved), "--runs", "2"]
    compare = ["compare", "--policies", "baseline", "--runs", "2"]
    assert all(
        told in " ".join(one.split()) for one in (run, printed(*evaluate), printed(*compare))
    )
    shown = [json.loads(printed(*one, "--json")) for one in (evaluate, compare)]
    assert shown[0]["perturbation"] == shown[1]["perturbation"]
    assert shown[0]["perturbation"]["seed"] == 4
    nominal = [*compare, "--json", "--mix", str(mix)]
    assert main(nominal) == 0
    assert json.loads(capsys.readouterr().out)["policies"] != shown[1]["policies"]


@pytest.mark.parametrize("seed", ["-1", "many", "1.5"])
def test_a_seed_that_is_no_number_is_told(capsys, seed):
    with pytest.raises(SystemExit):
        main(["compare", "--mix", "merlin", f"--perturb={seed}"])
    assert "give a whole number, 0 or more" in capsys.readouterr().err
