# SPDX-License-Identifier: Apache-2.0
"""An application's work: a job that takes 300 s alone, done again and again until all have
finished once, so that nobody loses a neighbour early. A server's job is so many answers, one after
the other.

Progress is in seconds of running alone. What a phase asks for changes where the job gets to it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from nova_vp.core.types.topology import LlcDomain
from vp_sim.apps import App, Phase
from vp_sim.contention import Contention
from vp_sim.cpu import alone_share
from vp_sim.loads import Load
from vp_sim.machine import Machine

JOB_S = 300.0


def solo_rates(app: App, machine: Machine) -> tuple[float, ...]:
    """Instructions per second of one of its VMs by phase, with nobody else on the host."""
    contention = Contention(machine)
    domains = [d for d in machine.topology.domains if d.node == machine.topology.domains[0].node]
    rates = []
    for phase in app.phases:
        busy = app.vcpus * phase.busy_ratio * app.busy_ratio
        placed = _fewest(domains, busy, app.guests)
        loads = [
            Load(
                app=app,
                traffic_factor=phase.traffic_factor,
                cores=cores,
                memory=((domains[0].node, 1.0),),
                core_share=_core_share(machine, domains, placed, cores),
            )
            for cores in placed
        ]
        rates.append(contention.speeds(loads)[0].instructions_per_s)
    return tuple(rates)


def _fewest(
    domains: Sequence[LlcDomain], busy: float, guests: int
) -> list[tuple[tuple[int, float], ...]]:
    """As many guests, each in one domain where it fits, over several of the node where not."""
    free = {d.id: float(len(d.cpus)) for d in domains}
    placed = []
    for _ in range(guests):
        fitting = [number for number, room in free.items() if room >= busy]
        chosen = fitting[:1] or list(free)
        cores = tuple((number, min(busy / len(chosen), free[number])) for number in chosen)
        for number, taken in cores:
            free[number] -= taken
        placed.append(tuple((number, taken) for number, taken in cores if taken > 0))
    return placed


def _core_share(
    machine: Machine,
    domains: Sequence[LlcDomain],
    placed: Sequence[Sequence[tuple[int, float]]],
    of: Sequence[tuple[int, float]],
) -> float:
    """Beside the siblings that guests of the same application keep busy."""
    if not machine.threads_per_core > 1:
        return 1.0
    busy = {d.id: sum(taken for one in placed for n, taken in one if n == d.id) for d in domains}
    cores = {d.id: len(d.cpus) // machine.threads_per_core for d in domains}
    shares = [
        taken * alone_share(busy[n], cores[n], machine.costs.sibling_ratio) for n, taken in of
    ]
    return sum(shares) / sum(taken for _, taken in of)


@dataclass(slots=True)
class Job:
    app: App
    rates: tuple[float, ...]
    """Alone, by phase."""
    at_s: float = 0.0
    """Of the job under way, in seconds of running alone."""
    finished_at_s: float | None = None
    """When the first one was done; None: it is not yet."""
    phase: int = 0
    last_slowdown_ratio: float = 1.0
    """Of the last stretch: the time that it took, divided by that alone."""
    _cycle_s: float = field(init=False)
    _ends: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._cycle_s = JOB_S / self.app.cycles
        self._ends = tuple(accumulate(p.time_share for p in self.app.phases))

    @property
    def now(self) -> Phase:
        return self.app.phases[self.phase]

    def slowdown_ratio(self, instructions_per_s: float) -> float:
        """At this speed, in the phase of now."""
        return self.app.slowdown_ratio(instructions_per_s / self.rates[self.phase])

    def advance(self, done: float, from_s: float, span_s: float) -> bool:
        """By so many instructions; whether another phase begins."""
        if not done:
            return False
        self.last_slowdown_ratio = self.slowdown_ratio(done / span_s)
        progress = span_s / self.last_slowdown_ratio
        if self.finished_at_s is None and self.at_s + progress >= JOB_S:
            self.finished_at_s = from_s + span_s * (JOB_S - self.at_s) / progress
        self.at_s = (self.at_s + progress) % JOB_S
        within = (self.at_s % self._cycle_s) / self._cycle_s
        phase = min(bisect_right(self._ends, within), len(self._ends) - 1)
        is_new = phase != self.phase
        self.phase = phase
        return is_new
