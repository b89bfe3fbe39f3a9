# SPDX-License-Identifier: Apache-2.0
"""Two experiments of inTune (thesis 2013, 4.5.1 and 4.5.3) on the model of `vp-sim overlay`.

`python -m tests.bench.overlay_sim --json`. The agent's core runs with the controller `overlays`
alone.

Cap: 24 CPUs in four islands, a cap of 20 cores, a server of 8 vCPUs in each of three islands of 6.
With the same servers: islands that lend, islands that do not, and all CPUs as one pool with the
best static limits that a sweep finds; only limits that sum up to the cap hold it. They leave CPUs
idle, so that weights would change nothing. Completion is the mean of the servers, the deviation
that over seeds.

Last CPU: a web server and a word count of 4 vCPUs on 2 CPUs each, and a lender of 4 CPUs that uses
less than one. Both borrow one CPU, then both call for the last at once.
"""

import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nova_vp.core.types.overlay import ArbitrationClass
from tests.bench.harness import Benchmark, Numbers, command_line, fixed, progress
from vp_sim.overlay import coordinated, setups
from vp_sim.overlay.figures import Parsec
from vp_sim.overlay.uncoordinated import Completed, completed

SEEDS = range(1, 5)
HOST_CORES = 1
"""Of the cap, left to the host by static limits."""
PUBLISHED = {"completion_change": -0.16, "deviation": 0.002, "last_cpu_times": 4.0}


def limited(seed: int, limits: tuple[int, ...]) -> Completed:
    """One pool with static limits, in cores, without an agent."""
    figures = Parsec()
    setup = setups.parsec(figures, seed, is_one_pool=True)
    for name, cores in zip(setup.parallel, limits, strict=True):
        setup.cpus.change(setup.cpus.vms[name], quota_cores=cores / figures.vcpus)
    return completed(setup)


def best_static() -> list[Completed]:
    """Of all splits of the cap in whole cores."""
    cores = int(Parsec().cap_cores) - HOST_CORES
    splits = [one for one in itertools.product(range(5, 9), repeat=3) if sum(one) == cores]
    best = min(splits, key=lambda split: limited(SEEDS[0], split).seconds)
    return [limited(seed, best) for seed in SEEDS]


def cap_experiment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for case, lends in (("islands", False), ("borrowing", True)):
        progress(case)
        found[case] = _row([coordinated.parsec(seed, lends=lends) for seed in SEEDS])
    progress("best static limits")
    found["best_static"] = _row(best_static())
    return found


def _row(runs: Sequence[Completed]) -> dict[str, float]:
    times = [one.seconds for one in runs]
    mean_s = statistics.mean(times)
    return {
        "completion_s": mean_s,
        "deviation_ratio": statistics.stdev(times) / mean_s,
        "most_cores_of_2_s": max(one.most_cores for one in runs),
    }


def measure() -> Mapping[str, Any]:
    return {
        "cap": cap_experiment(),
        "last_cpu": {one.value: coordinated.last_cpu(SEEDS[0], one) for one in ArbitrationClass},
        "published": PUBLISHED,
    }


def numbers_of(found: Mapping[str, Any]) -> Numbers:
    cap, last = found["cap"], found["last_cpu"]
    lent, alone, static = (cap[one] for one in ("borrowing", "islands", "best_static"))
    by_priority, in_turn = (last[one.value] for one in ArbitrationClass)
    return {
        "completion_change": lent["completion_s"] / alone["completion_s"] - 1.0,
        "completion_change_of_best_static": lent["completion_s"] / static["completion_s"] - 1.0,
        "deviation_ratio": lent["deviation_ratio"],
        "islands_deviation_ratio": alone["deviation_ratio"],
        "over_cap_cores": max(lent["most_cores_of_2_s"] - Parsec().cap_cores, 0.0),
        "web_times_by_priority": by_priority["web_last"] / by_priority["web_own"],
        "web_times_in_turn": in_turn["web_last"] / in_turn["web_own"],
        "wrong_winners": float(by_priority["web_got_it"] != 1.0) + float(in_turn["web_got_it"]),
    }


BENCHMARK = Benchmark(
    name="overlay_sim",
    about="two experiments of inTune on the model of vp-sim overlay",
    budgets={
        "completion_change": fixed(-0.1),
        "completion_change_of_best_static": fixed(-0.05),
        "over_cap_cores": fixed(0.0),
        "wrong_winners": fixed(0.0),
    },
    measure=measure,
    numbers_of=numbers_of,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
