# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench.calibration --json`: what a calibration finds on modelled hosts, beside
the model's truth.

The procedure of `vp-agent calibrate` runs on the simulator's machine, nominal and drawn, with noise
by seed. Its limits are held against the machine's figures and against what its workers get without
noise; its curves against the same curves without noise.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from statistics import fmean, median, quantiles
from typing import Any, NamedTuple

from nova_vp.core.types.topology import Limits, LoadCurve
from tests.bench.harness import Benchmark, command_line, fixed
from vp_agent.calibration.capacity import KNEE_RATIO
from vp_agent.calibration.curves import latency_ns_at
from vp_agent.calibration.procedure import measured
from vp_sim.calibration import NS_PER_S, ModelledMemory, NoisyBench
from vp_sim.machine import LINE_BYTES, WESTMERE, Machine, machine_of
from vp_sim.parameters import Drawn
from vp_sim.queues import QueueForm

SEEDS = 10
DRAWS = 5
CURVE_POINTS = ("lines_per_s", "latency_ns")


class NoNoise(Random):
    """Draws the mean, always."""

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        return mu


class Errors(NamedTuple):
    """Of one calibration; shares of the truth, below zero: too low."""

    node_bandwidth: float
    """Highest rate against the controller's bandwidth for one guest."""
    link_bandwidth: float
    remote_penalty: float
    node_noise: float
    """Highest rate against that without noise."""
    link_noise: float
    latencies: tuple[float, ...]
    """At each point of each curve."""


def machines() -> Iterator[Machine]:
    for form in QueueForm:
        yield machine_of(hardware=replace(WESTMERE, queue_form=form))
    for draw in range(DRAWS):
        yield machine_of(draw=Drawn(Random(f"draw-{draw}")))


def calibrated(model: ModelledMemory, machine: Machine, random: Random) -> Limits:
    bench = NoisyBench(model, random)
    return measured(bench, machine.topology, lambda: 0.0, lambda _: None).limits


def errors(found: Limits, without: Limits, machine: Machine) -> Errors:
    costs = machine.costs
    node, link = found.node_misses_per_s or 0.0, found.link_misses_per_s or 0.0
    pairs = zip(found.curves, without.curves, strict=True)
    return Errors(
        node_bandwidth=_gbps(node) / costs.node_gbps - 1,
        link_bandwidth=_gbps(link) / costs.link_gbps - 1,
        remote_penalty=found.remote_penalty_ratio / (costs.remote_ns / costs.local_ns) - 1,
        node_noise=node / (without.node_misses_per_s or 1.0) - 1,
        link_noise=link / (without.link_misses_per_s or 1.0) - 1,
        latencies=tuple(error for one, true in pairs for error in _latency_errors(one, true)),
    )


def _gbps(limit_per_s: float) -> float:
    return limit_per_s / KNEE_RATIO * LINE_BYTES / NS_PER_S


def _latency_errors(found: LoadCurve, true: LoadCurve) -> Iterator[float]:
    for point in found.points:
        yield point.latency_ns / latency_ns_at(true, point.lines_per_s) - 1


def measure() -> Mapping[str, Any]:
    found: list[Errors] = []
    for machine in machines():
        model = ModelledMemory(machine)
        without = calibrated(model, machine, NoNoise())
        for seed in range(SEEDS):
            one = calibrated(model, machine, Random(f"calibration-{seed}"))
            found.append(errors(one, without, machine))
    latencies = [abs(error) for one in found for error in one.latencies]
    return {
        **{
            f"{name}_{kind}": round(value, 4)
            for name in ("node_bandwidth", "link_bandwidth", "remote_penalty")
            for kind, value in _summary([getattr(one, name) for one in found]).items()
        },
        "node_noise_worst": round(max(abs(one.node_noise) for one in found), 4),
        "link_noise_worst": round(max(abs(one.link_noise) for one in found), 4),
        "latency_error_median": round(median(latencies), 4),
        "latency_error_p95": round(quantiles(latencies, n=20)[-1], 4),
        "calibrations": len(found),
        "curve": _curve(machine_of()),
    }


def _summary(values: list[float]) -> Mapping[str, float]:
    return {"mean": fmean(values), "worst": max(map(abs, values))}


def _curve(machine: Machine) -> Mapping[str, Any]:
    """Of the first controller, as an example: measured with the first seed, and without noise."""
    model = ModelledMemory(machine)
    return {
        name: [dict(zip(CURVE_POINTS, point, strict=True)) for point in limits.curves[0].points]
        for name, limits in (
            ("measured", calibrated(model, machine, Random("calibration-0"))),
            ("true", calibrated(model, machine, NoNoise())),
        )
    }


def numbers_of(found: Mapping[str, Any]) -> Mapping[str, float]:
    return {name: value for name, value in found.items() if name != "curve"}


BENCHMARK = Benchmark(
    name="calibration",
    about=__doc__ or "",
    budgets={
        "remote_penalty_worst": fixed(0.15),
        "node_noise_worst": fixed(0.08),
        "link_noise_worst": fixed(0.08),
        "latency_error_p95": fixed(0.2),
    },
    measure=measure,
    numbers_of=numbers_of,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
