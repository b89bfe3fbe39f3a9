# SPDX-License-Identifier: Apache-2.0
"""From runs to the published figures: degradation, spread, platform efficiency, moves.

Degradation is against the application's best run without management, as the thesis normalises
(2.3); against running alone stands beside it. Efficiency is the mean over the runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles

from nova_vp.core.types.topology import Topology
from vp_sim.jobs import JOB_S
from vp_sim.placement import Placement, cpu_nodes
from vp_sim.run import Run

PERCENT = 100
TWENTIETHS = 20


@dataclass(frozen=True, slots=True)
class OfApplication:
    median: float
    worst: float
    quartiles: tuple[float, float]
    vs_solo: float
    """Median, against running alone."""
    final_nodes: tuple[tuple[int, ...], ...]
    """By start order: nodes that its vCPUs may run on at the end."""

    @property
    def spread(self) -> float:
        return self.quartiles[1] - self.quartiles[0]


@dataclass(frozen=True, slots=True)
class OfOrder:
    """One run."""

    worst_degradation: float
    pe: float
    final: Placement


@dataclass(frozen=True, slots=True)
class OfPolicy:
    orders: tuple[OfOrder, ...]
    """By start order: number n is that of seed n."""
    spread: float
    memory_moves: float
    vcpu_moves: float
    cpu_used: float
    """Of the guests."""
    management_cpu_used: float
    applications: Mapping[str, OfApplication]

    @property
    def worst_degradation(self) -> float:
        return max(order.worst_degradation for order in self.orders)

    @property
    def p95_worst(self) -> float:
        """95th percentile over the start orders of the worst degradation."""
        worst = [order.worst_degradation for order in self.orders]
        if len(worst) == 1:
            return worst[0]
        return quantiles(worst, n=TWENTIETHS, method="inclusive")[-1]

    @property
    def pe(self) -> float:
        return fmean(order.pe for order in self.orders)


def best_of(baseline: Sequence[Run]) -> Mapping[str, float]:
    """By application: its shortest job without management."""
    return {name: min(run.seconds[name] for run in baseline) for name in baseline[0].seconds}


def judge(runs: Sequence[Run], best_s: Mapping[str, float], topology: Topology) -> OfPolicy:
    """Runs in the order of their seeds."""
    applications = {
        name: _application(name, runs, best_s[name], topology) for name in sorted(best_s)
    }
    cores = len(topology.cpus)
    return OfPolicy(
        orders=tuple(
            OfOrder(worst_degradation(run, best_s), efficiency(run, best_s, cores), run.final)
            for run in runs
        ),
        spread=max(app.spread for app in applications.values()),
        memory_moves=fmean(run.tally.memory_moves for run in runs),
        vcpu_moves=fmean(run.tally.vcpu_moves for run in runs),
        cpu_used=fmean(run.cpu_used for run in runs),
        management_cpu_used=fmean(run.management_cpu_used for run in runs),
        applications=applications,
    )


def _application(
    name: str, runs: Sequence[Run], best_s: float, topology: Topology
) -> OfApplication:
    seconds = [run.seconds[name] for run in runs]
    lost = [took / best_s - 1 for took in seconds]
    low, _, high = quantiles(lost, n=4, method="inclusive") if len(lost) > 1 else lost * 3
    return OfApplication(
        median=median(lost),
        worst=max(lost),
        quartiles=(low, high),
        vs_solo=median(seconds) / JOB_S - 1,
        final_nodes=tuple(cpu_nodes(run.final[name], topology) for run in runs),
    )


def worst_degradation(run: Run, best_s: Mapping[str, float]) -> float:
    """Of any application."""
    return max(took / best_s[name] for name, took in run.seconds.items()) - 1


def efficiency(run: Run, best_s: Mapping[str, float], cores: int) -> float:
    """Sum of 1 / (1 + degradation) over the CPU that the guests used, as a share of all cores."""
    done = sum(best_s[name] / took for name, took in run.seconds.items())
    return done / (run.cpu_used / (PERCENT * cores))
