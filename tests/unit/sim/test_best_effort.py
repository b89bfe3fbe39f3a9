# SPDX-License-Identifier: Apache-2.0
"""The model of memcached beside stress-ng: what must hold of it whatever its figures are."""

import dataclasses
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.bench import best_effort_validation
from vp_agent.cpi_threshold import TooFewSamples, threshold_of
from vp_sim.best_effort import fit
from vp_sim.best_effort.figures import Figures, perturbed, read_figures
from vp_sim.best_effort.loads import Load, published, random_load, read_load
from vp_sim.best_effort.run import Ratios, learned_alone, run_loop
from vp_sim.best_effort.socket import Socket, alone_cores, needed_cores

FIGURES = Figures()
PAGE = (Path(__file__).parents[3] / "doc/source/best-effort-model.md").read_text()


def a_run(load: float, quota: float = 0.0, figures: Figures = FIGURES, **fields) -> Socket:
    socket = Socket(figures, Random(7), quota_cores=quota, **fields)
    for _ in range(400):
        socket.advance(load)
    return socket


@pytest.mark.parametrize("figures", [FIGURES, *map(perturbed, range(1, 6))])
def test_alone_it_meets_its_target_up_to_its_maximum_load(figures) -> None:
    assert max(a_run(figures.max_rps, figures=figures).samples_ms) <= figures.target_ms


def test_above_saturation_it_does_not_and_the_backlog_is_bounded() -> None:
    beyond = a_run(1.1 * FIGURES.saturation_rps)
    assert max(beyond.samples_ms) > FIGURES.target_ms
    assert max(beyond.samples_ms) < 2 * FIGURES.worst_backlog_ms + 2000


def test_latency_rises_with_load_and_with_the_work_beside_it() -> None:
    loads = [a_run(one).latency_ms for one in (100e3, 200e3, 300e3, 400e3)]
    beside = [a_run(350e3, one).latency_ms for one in (0.0, 2.0, 4.0)]
    assert loads == sorted(set(loads))
    assert beside == sorted(set(beside))


def test_cpi_rises_with_the_work_beside_it() -> None:
    alone, beside = a_run(300e3), a_run(300e3, 6.0)
    assert beside.cycles / beside.instructions > 1.1 * alone.cycles / alone.instructions


def test_it_gets_the_cpu_that_memcached_does_not_need() -> None:
    beside = a_run(FIGURES.max_rps, 8.0)
    left = FIGURES.lc_cores - needed_cores(FIGURES, FIGURES.max_rps)
    assert beside.be_used_cores == pytest.approx(left, abs=0.3)


def test_with_an_equal_weight_it_takes_cpu_that_memcached_needs() -> None:
    assert a_run(FIGURES.max_rps, 8.0, weight_ratio=1.0).be_used_cores == 8.0


def test_half_of_the_cores_are_needed_and_65_percent_used_at_the_lowest_load() -> None:
    assert needed_cores(FIGURES, FIGURES.lowest_rps) == 0.5 * FIGURES.lc_cores
    assert alone_cores(FIGURES, FIGURES.lowest_rps) == pytest.approx(0.65 * FIGURES.lc_cores)


def test_the_published_load_goes_down_and_up_by_constant_steps() -> None:
    load = published(FIGURES)
    by_step = load.rps[::200]
    changes = {b - a for a, b in itertools.pairwise(by_step)}
    assert (load.rps[0], min(load.rps), load.rps[-1]) == (450e3, 240e3, 450e3)
    assert changes == {-10e3, 0.0, 10e3}


@pytest.mark.parametrize("seed", range(20))
def test_a_random_load_is_its_seeds_and_within_what_is_served(seed) -> None:
    load = random_load(seed, FIGURES)
    assert load == random_load(seed, FIGURES) != random_load(seed + 1, FIGURES)
    assert load.seconds == 3600
    assert min(load.rps) > 0
    assert max(load.rps) <= FIGURES.max_rps


def test_a_run_is_its_seeds() -> None:
    load = Load([400e3] * 300)
    runs = [run_loop("latency", FIGURES, load, 1.3, 17.0, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_the_fit_looks_at_two_rows_and_stands_in_the_figures() -> None:
    assert set(fit.FITTED).isdisjoint(best_effort_validation.PREDICTED)
    assert FIGURES.lowest_rps in fit.LOWEST_RPS
    assert FIGURES.lost_per_be_core in fit.LOST_PER_BE_CORE
    assert fit.error("latency", Ratios(0.562, 0.95)) == 0.0
    assert fit.error("latency", Ratios(0.562, 0.80)) > 0.0


def test_figures_that_were_fitted_are_a_minimum() -> None:
    best = fit.misfit(FIGURES)
    for lowest, lost in ((10_000, 0.0), (-10_000, 0.0), (0, 0.01), (0, -0.01)):
        other = replace(
            FIGURES,
            lowest_rps=FIGURES.lowest_rps + lowest,
            lost_per_be_core=FIGURES.lost_per_be_core + lost,
        )
        assert fit.misfit(other) > best


def test_every_figure_stands_on_the_page() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", PAGE, re.MULTILINE))
    told = {name: float(value) for name, value in rows.items()}
    assert told == dataclasses.asdict(FIGURES)


def test_figures_of_a_file_are_checked(tmp_path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"lost_per_be_core": 0.02, "be_cores": 4}))
    assert read_figures(path) == replace(FIGURES, lost_per_be_core=0.02, be_cores=4)
    for wrong in ({"nothing": 1}, {"target_ms": 0}, {"target_ms": "ten"}, [1]):
        path.write_text(json.dumps(wrong))
        with pytest.raises(ValueError):
            read_figures(path)


def test_a_load_of_a_file_is_checked(tmp_path) -> None:
    path = tmp_path / "load.json"
    path.write_text("[[2, 1000], [1, 2e3]]")
    assert read_load(path).rps == [1000.0, 1000.0, 2000.0]
    for wrong in ("{}", "[]", "[[1]]", "[[0, 5]]", "[[1, -5]]", '[["1", 5]]'):
        path.write_text(wrong)
        with pytest.raises(ValueError):
            read_load(path)


def test_the_learning_phase_sees_memcached_alone() -> None:
    cpis, most = learned_alone(FIGURES, Load([300e3] * 200), seed=1)
    assert len(cpis) == 10
    assert most == alone_cores(FIGURES, 300e3)
    assert all(abs(one / FIGURES.base_cpi - 1) <= 0.031 for one in cpis)


def test_a_threshold_is_two_deviations_above_the_highest_component() -> None:
    random = Random(1)
    cpis = [random.gauss(1.0, 0.01) for _ in range(200)]
    assert threshold_of(cpis) == pytest.approx(1.02, abs=0.004)
    assert threshold_of([*cpis, *(random.gauss(2.0, 0.05) for _ in range(100))]) == pytest.approx(
        2.1, abs=0.03
    )
    assert threshold_of([*cpis, 9.0, 9.1, 8.9]) == pytest.approx(1.02, abs=0.01)
    with pytest.raises(TooFewSamples, match="give at least 20"):
        threshold_of([1.0] * 19)
