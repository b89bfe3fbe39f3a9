# SPDX-License-Identifier: Apache-2.0
"""Fits the two figures that the source leaves open to two of its four rows (table 5.1).

`python -m vp_sim.best_effort.fit` prints the best. The rows `cpi` and `hybrid` have no part in it.
"""

from dataclasses import replace
from statistics import mean

from vp_sim.best_effort.figures import Figures
from vp_sim.best_effort.loads import published
from vp_sim.best_effort.run import Ratios, run_loop

FITTED = {
    "latency": (0.562, 0.892, 0.97),
    "hybrid-tuned": (0.54, 1.0, 1.0),
}
"""Throughput, and the least and most share of targets that were met."""
LOWEST_RPS = tuple(1000.0 * one for one in range(220, 400, 10))
LOST_PER_BE_CORE = tuple(round(0.0025 * one, 4) for one in range(2, 21))
SEEDS = (1, 2, 3)


def error(row: str, found: Ratios) -> float:
    be_ratio, least, most = FITTED[row]
    outside = max(least - found.targets_met_ratio, found.targets_met_ratio - most, 0.0)
    return (found.be_ratio - be_ratio) ** 2 + outside**2


def misfit(figures: Figures) -> float:
    load = published(figures)
    return sum(
        mean(error(row, run_loop(row, figures, load, 0.0, 0.0, seed)) for seed in SEEDS)
        for row in FITTED
    )


def fit() -> Figures:
    candidates = (
        replace(Figures(), lowest_rps=lowest, lost_per_be_core=lost)
        for lowest in LOWEST_RPS
        for lost in LOST_PER_BE_CORE
    )
    return min(candidates, key=misfit)


if __name__ == "__main__":
    best = fit()
    print(f"lowest_rps = {best.lowest_rps:g}")
    print(f"lost_per_be_core = {best.lost_per_be_core:g}")
    print(f"misfit = {misfit(best):.6f}")
