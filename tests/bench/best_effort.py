# SPDX-License-Identifier: Apache-2.0
"""Best-effort work beside a latency-critical server, under each loop of the controller `latency`.

`python -m tests.bench.best_effort --json [--load FILE] [--model FILE]`. The agent's core runs on
the model of `vp_sim.best_effort`. `be_ratio`: the work of the best-effort server over what it would
do alone in the same time. `targets_met_ratio`: the share of the latency samples, of those that the
latency-critical server alone meets, in which the target was met. Beside them an oracle that knows
the model, the load and the noise of every half second, and needs no time for a change.

Without files: the load of the source, 20 random loads, and the source's load on 5 models whose
figures are off by up to 30 %. With a file: that load or model alone.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.harness import Benchmark, Numbers, fixed, progress, run
from tests.policies import a_policy
from vp_agent.cpi_threshold import threshold_of
from vp_sim.best_effort.agent_host import LC, AgentHost, agent_host
from vp_sim.best_effort.figures import Figures, perturbed, read_figures
from vp_sim.best_effort.loads import Load, published, random_load, read_load
from vp_sim.best_effort.oracle import best_with_foresight
from vp_sim.best_effort.run import Ratios, learned_alone
from vp_sim.best_effort.socket import Socket
from vp_sim.policies.core import CorePolicy

SEED = 1
RANDOM_LOADS, MODELS = range(1, 21), range(1, 6)
OURS, BEST_PUBLISHED = "adaptive", "hybrid-tuned"
LOOPS = (OURS, "cpi", "latency", "hybrid", BEST_PUBLISHED)
ORACLE = "oracle"
MOST_ASKED, OF_ORACLE, OF_ORACLE_ELSEWHERE, MET_ELSEWHERE = 0.6, 0.95, 0.85, 0.99
Results = Mapping[str, Ratios]


def an_agent(host: AgentHost, loop: str, cpi_model: str = "") -> CorePolicy:
    """After its first look, on which only `latency` acts."""
    models = f"{LC}={cpi_model}" if cpi_model else ""
    policy = a_policy(controllers=("latency",), control_loop=loop, cpi_models=models)
    agent = CorePolicy(host, policy)
    agent.tick(0.0)
    return agent


def under(loop: str, figures: Figures, load: Load, cpi_model: str) -> Socket:
    """The socket after a run of the agent's core."""
    host = agent_host(figures, SEED)
    agent = an_agent(host, loop, cpi_model)
    for second, rps in enumerate(load.rps, 1):
        host.advance(rps)
        agent.tick(float(second))
    return host.socket


def alone(figures: Figures, load: Load) -> Socket:
    socket = Socket(figures, Random(f"run-{SEED}"))
    for rps in load.rps:
        socket.advance(rps)
        socket.advance(rps)
    return socket


def ratios_of(socket: Socket, without: Socket, seconds: int) -> Ratios:
    """Only of the samples that the latency-critical server meets alone."""
    target_ms = socket.figures.target_ms
    counted = [
        one
        for one, solo in zip(socket.samples_ms, without.samples_ms, strict=True)
        if solo <= target_ms
    ]
    met = sum(one <= target_ms for one in counted) / len(counted) if counted else 1.0
    return Ratios(socket.be_core_s / (socket.figures.be_cores * seconds), met)


def results_of(figures: Figures, load: Load, loops: Iterable[str] = LOOPS) -> Results:
    cpis, most_cores = learned_alone(figures, load, SEED)
    cpi_model = f"{threshold_of(cpis)}/{most_cores}"
    without = alone(figures, load)
    found = {
        loop: ratios_of(under(loop, figures, load, cpi_model), without, load.seconds)
        for loop in loops
    }
    oracle = best_with_foresight(figures, load, SEED)
    return {**found, ORACLE: ratios_of(oracle, without, load.seconds)}


def measure(load: Load | None = None, figures: Figures | None = None) -> Mapping[str, Any]:
    model = figures or Figures()
    progress("the load of the source" if load is None else "the load of the file")
    found: dict[str, Results] = {"source": results_of(model, load or published(model))}
    if load is None and figures is None:
        for seed in RANDOM_LOADS:
            progress(f"random load {seed}")
            found[f"load-{seed}"] = results_of(model, random_load(seed, model))
        for seed in MODELS:
            progress(f"model {seed}")
            found[f"model-{seed}"] = results_of(perturbed(seed), published(model))
    return {
        case: {name: asdict(one) for name, one in results.items()}
        for case, results in found.items()
    }


def numbers_of(found: Mapping[str, Any]) -> Numbers:
    source = found["source"]
    numbers = {f"{name}_{key}": value for name, row in source.items() for key, value in row.items()}
    asked = min(MOST_ASKED, OF_ORACLE * source[ORACLE]["be_ratio"])
    others = {case: rows for case, rows in found.items() if case != "source"}
    short = {case: _shortfalls(rows) for case, rows in others.items()}
    return {
        **numbers,
        "lacking_be_ratio": max(asked - source[OURS]["be_ratio"], 0.0),
        "missed_ratio": 1.0 - source[OURS]["targets_met_ratio"],
        "least_of_oracle": min((_of_oracle(rows) for rows in others.values()), default=1.0),
        "least_met": min(
            (rows[OURS]["targets_met_ratio"] for rows in others.values()), default=1.0
        ),
        "cases_below_oracle": sum(one[0] for one in short.values()),
        "cases_that_miss": sum(one[1] for one in short.values()),
        "cases_worse_than_tuned": sum(one[2] for one in short.values()),
    }


def _of_oracle(rows: Mapping[str, Mapping[str, float]]) -> float:
    return rows[OURS]["be_ratio"] / rows[ORACLE]["be_ratio"]


def _shortfalls(rows: Mapping[str, Mapping[str, float]]) -> tuple[bool, bool, bool]:
    met = rows[OURS]["targets_met_ratio"]
    return (
        _of_oracle(rows) < OF_ORACLE_ELSEWHERE,
        met < MET_ELSEWHERE,
        met < rows[BEST_PUBLISHED]["targets_met_ratio"],
    )


BENCHMARK = Benchmark(
    name="best_effort",
    about="best-effort work beside a latency-critical server",
    budgets={
        "lacking_be_ratio": fixed(0.0),
        "missed_ratio": fixed(0.0),
        "cases_below_oracle": fixed(0),
        "cases_that_miss": fixed(0),
        "cases_worse_than_tuned": fixed(0),
    },
    measure=measure,
    numbers_of=numbers_of,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.best_effort", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    parser.add_argument("--load", type=Path, help="a JSON list of [seconds, requests per second]")
    parser.add_argument("--model", type=Path, help="a JSON object of figures of the model")
    parser.add_argument("--lab", action="store_true", help="real guests; 50 minutes")
    asked = parser.parse_args()
    if asked.lab:
        from tests.bench import best_effort_lab  # Here: it needs this module.

        return run(best_effort_lab.BENCHMARK, as_json=asked.json)
    try:
        load = read_load(asked.load) if asked.load else None
        figures = read_figures(asked.model) if asked.model else None
    except (OSError, ValueError) as exc:
        parser.error(str(exc))
    benchmark = Benchmark(
        name=BENCHMARK.name,
        about=BENCHMARK.about,
        budgets=BENCHMARK.budgets,
        measure=lambda: measure(load, figures),
        numbers_of=numbers_of,
    )
    return run(benchmark, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
