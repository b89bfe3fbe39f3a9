# SPDX-License-Identifier: Apache-2.0
"""From runs to the published figures: degradation, spread, platform efficiency, moves.

Degradation is against the application's best run without management, as the thesis normalises
(2.3); against running alone stands beside it. Efficiency is the mean over the runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles

from vp_sim.jobs import JOB_S
from vp_sim.run import Run

PERCENT = 100


@dataclass(frozen=True, slots=True)
class OfApplication:
    median: float
    worst: float
    quartiles: tuple[float, float]
    vs_solo: float
    """Median, against running alone."""

    @property
    def spread(self) -> float:
        return self.quartiles[1] - self.quartiles[0]


@dataclass(frozen=True, slots=True)
class OfPolicy:
    worst_degradation: float
    spread: float
    memory_moves: float
    vcpu_moves: float
    cpu_used: float
    pe: float
    applications: Mapping[str, OfApplication]


def best_of(baseline: Sequence[Run]) -> Mapping[str, float]:
    """By application: its shortest job without management."""
    return {name: min(run.seconds[name] for run in baseline) for name in baseline[0].seconds}


def judge(runs: Sequence[Run], best_s: Mapping[str, float], cores: int) -> OfPolicy:
    applications = {
        name: _application([run.seconds[name] for run in runs], best_s[name])
        for name in sorted(best_s)
    }
    return OfPolicy(
        worst_degradation=max(app.worst for app in applications.values()),
        spread=max(app.spread for app in applications.values()),
        memory_moves=fmean(run.tally.memory_moves for run in runs),
        vcpu_moves=fmean(run.tally.vcpu_moves for run in runs),
        cpu_used=fmean(run.cpu_used for run in runs),
        pe=fmean(efficiency(run, best_s, cores) for run in runs),
        applications=applications,
    )


def _application(seconds: Sequence[float], best_s: float) -> OfApplication:
    lost = [took / best_s - 1 for took in seconds]
    low, _, high = quantiles(lost, n=4, method="inclusive") if len(lost) > 1 else lost * 3
    return OfApplication(
        median=median(lost),
        worst=max(lost),
        quartiles=(low, high),
        vs_solo=median(seconds) / JOB_S - 1,
    )


def efficiency(run: Run, best_s: Mapping[str, float], cores: int) -> float:
    """Sum of 1 / (1 + degradation) over the CPU used, as a share of all cores."""
    done = sum(best_s[name] / took for name, took in run.seconds.items())
    return done / (run.cpu_used / (PERCENT * cores))
