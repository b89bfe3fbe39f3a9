# SPDX-License-Identifier: Apache-2.0
"""What `vp-agent calibrate` would find on a modelled host: its own procedure, on modelled workers.

A policy has a host's limits from here and never from the machine's figures: what workers reach in a
closed loop, off by noise, is all that a real operator has. The workers are the processes of
`vp_agent.calibration.bench_worker` as applications: those that load memory, and one that follows a
chain through it. Noise is drawn by seed; what the model answers without it is solved once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from nova_vp.core.types.topology import Limits
from vp_agent.calibration.capacity import CannotCalibrate
from vp_agent.calibration.load import MIXED, READS, Load, Response
from vp_agent.calibration.procedure import measured
from vp_sim.apps import App, Phase
from vp_sim.contention import Contention, Speed
from vp_sim.loads import Load as Busy
from vp_sim.machine import Machine

RATE_NOISE, LATENCY_NOISE = 0.03, 0.05
"""Standard deviation of one measurement, as a share of it: estimated. Rates of memory repeat within
a few percent; latencies under load repeat worse, since a small change of load changes them much."""
NOISE_BOUND = 2.0
"""Standard deviations that no measurement exceeds."""
DUTIES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the time in which a worker that is held to a rate loads memory."""
KILO = 1000.0
NS_PER_S = 1e9


def _worker(
    name: str, base_cpi: float, l2_mpki: float, parallel_misses: float, writeback_ratio: float
) -> App:
    """Goes through a buffer that no cache holds: all that reaches the LLC misses it."""
    return App(
        name=name,
        vcpus=1,
        guests=1,
        memory_mib=256.0,
        footprint_mib=256.0,
        base_cpi=base_cpi,
        l1_mpki=l2_mpki,
        l2_mpki=l2_mpki,
        full_ratio=1.0,
        least_ratio=1.0,
        half_mib=1.0,
        steepness=1.0,
        hit_exposure=1.0,
        parallel_misses=parallel_misses,
        writeback_ratio=writeback_ratio,
        busy_ratio=1.0,
        phases=(Phase(1.0, 1.0),),
        cycles=1,
    )


LOADERS = {ratio: _worker("calibration-load", 0.4, 150.0, 10.0, ratio) for ratio in (READS, MIXED)}
"""A loop over lines, about seven instructions each; a core has ten line fill buffers."""
TIMER = _worker("calibration-time", 1.0, 100.0, 1.0, 0.0)
"""Each access waits for the one before."""


class Calibrator:
    """Calibrates one machine, as often as there are seeds."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._model = ModelledMemory(machine)
        self._found: dict[int, Limits] = {}

    def limits(self, seed: int) -> Limits:
        """Without any where a calibration would refuse: on a node of one CPU."""
        if seed not in self._found:
            self._found[seed] = self._calibrated(Random(f"calibration-{seed}"))
        return self._found[seed]

    def _calibrated(self, random: Random) -> Limits:
        bench = NoisyBench(self._model, random)
        try:
            capacity = measured(bench, self._machine.topology, lambda: 0.0, lambda _: None)
        except CannotCalibrate:
            return Limits()
        return capacity.limits


class Crew(NamedTuple):
    """Who loads which memory, and who measures it."""

    loaders: tuple[tuple[int, int], ...]
    """(LLC domain, how many)."""
    timer: int
    """LLC domain."""
    node: int
    """Of the memory."""


class ModelledMemory:
    """What workers on a machine get done, without noise. Remembers it."""

    def __init__(self, machine: Machine) -> None:
        self._clock_ghz = machine.costs.clock_ghz
        self._domain_of = {cpu: d.id for d in machine.topology.domains for cpu in d.cpus}
        self._core_of = machine.core_of
        self._contention = Contention(machine)
        self._answers: dict[tuple[Crew, float, float], Response] = {}

    def crew(self, cpus: Sequence[int], timer: int, node: int) -> Crew:
        loaders = Counter(self._domain_of[cpu] for cpu in cpus)
        return Crew(tuple(sorted(loaders.items())), self._domain_of[timer], node)

    def siblings(self, cpu: int) -> frozenset[int]:
        core = self._core_of[cpu]
        return frozenset(other for other, its in self._core_of.items() if its == core)

    def answer(self, crew: Crew, writeback_ratio: float, duty: float) -> Response:
        """While each worker loads memory for that share of the time."""
        key = crew, writeback_ratio, duty
        if key not in self._answers:
            self._answers[key] = self._solved(crew, writeback_ratio, duty)
        return self._answers[key]

    def _solved(self, crew: Crew, writeback_ratio: float, duty: float) -> Response:
        memory = ((crew.node, 1.0),)
        loads = [Busy(TIMER, 1.0, ((crew.timer, 1.0),), memory)]
        if crew.loaders:
            # Like the threads of STREAM: one program, whose lines are no strangers' to each other.
            busy = tuple((domain, count * duty) for domain, count in crew.loaders)
            loads.append(Busy(LOADERS[writeback_ratio], 1.0, busy, memory))
        timer, *loaders = self._contention.speeds(loads)
        read = sum(speed.misses_per_s for speed in loaders)
        return Response(read, read * writeback_ratio, self._latency_s(timer))

    def _latency_s(self, timer: Speed) -> float:
        """Of each hop, less that of a chain in the private cache."""
        waited = timer.cpi - TIMER.base_cpi
        return waited / (TIMER.l2_mpki / KILO) / self._clock_ghz / NS_PER_S


class NoisyBench:
    """The seam of the calibration procedure: a modelled memory whose every measurement is off."""

    def __init__(self, model: ModelledMemory, random: Random) -> None:
        self._model = model
        self._random = random

    @contextmanager
    def route(self, cpus: Sequence[int], timer: int, node: int) -> Iterator["NoisyRoute"]:
        yield NoisyRoute(self, timer, node)

    def siblings(self, cpu: int) -> frozenset[int]:
        return self._model.siblings(cpu)

    def measure(self, timer: int, node: int, load: Load) -> Response:
        crew = self._model.crew(load.cpus, timer, node)
        true = self._held(crew, load)
        rate = self._off(RATE_NOISE)
        return Response(
            true.read_lines_per_s * rate,
            true.written_lines_per_s * rate,
            true.latency_s * self._off(LATENCY_NOISE),
        )

    def _held(self, crew: Crew, load: Load) -> Response:
        """To the rate that is asked; flat out if it cannot be reached."""
        if load.lines_per_s is None:
            return self._model.answer(crew, load.writeback_ratio, DUTIES[-1])
        below = self._model.answer(crew._replace(loaders=()), READS, DUTIES[-1])
        for duty in DUTIES:
            above = self._model.answer(crew, load.writeback_ratio, duty)
            if load.lines_per_s <= above.lines_per_s:
                passed = load.lines_per_s - below.lines_per_s
                return _between(below, above, passed / (above.lines_per_s - below.lines_per_s))
            below = above
        return below

    def _off(self, noise: float) -> float:
        drawn = self._random.gauss(0.0, 1.0)
        return 1 + noise * min(max(drawn, -NOISE_BOUND), NOISE_BOUND)


def _between(below: Response, above: Response, way: float) -> Response:
    return Response(
        below.read_lines_per_s + way * (above.read_lines_per_s - below.read_lines_per_s),
        below.written_lines_per_s + way * (above.written_lines_per_s - below.written_lines_per_s),
        below.latency_s + way * (above.latency_s - below.latency_s),
    )


class NoisyRoute(NamedTuple):
    bench: NoisyBench
    timer: int
    node: int

    def measure(self, load: Load, span_s: float) -> Response:
        return self.bench.measure(self.timer, self.node, load)
