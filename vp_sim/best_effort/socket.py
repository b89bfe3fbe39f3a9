# SPDX-License-Identifier: Apache-2.0
"""The socket: what memcached's requests wait, and what CPU stress-ng gets, each half second.

Latency is a queue's: it rises with the load that is offered over the load that is served, and what
is not served is a backlog. Each core that stress-ng uses costs memcached a share of the load that
it can serve (cache, memory, clock), and as many more cycles for each instruction. stress-ng gets
the CPU that memcached does not need, or its weight's share of the cores if that is more.
"""

from dataclasses import dataclass, field
from random import Random

from vp_sim.best_effort.figures import Figures

STEP_S = 0.5
MOST_OFF = 2.0
"""No draw of noise is farther off than so many standard deviations."""
LEAST_WEIGHT_RATIO = 1e-5
"""2 of 200000 shares."""


@dataclass(slots=True)
class Socket:
    figures: Figures
    random: Random
    now_s: float = 0.0
    backlog: float = 0.0
    """Requests that wait because more came than were served."""
    quota_cores: float = 0.0
    """Of all best-effort servers."""
    weight_ratio: float = LEAST_WEIGHT_RATIO
    """Weight of the best-effort servers over that of memcached."""
    others_cores: float = 0.0
    """CPU that other latency-critical servers need of the same cores."""
    be_used_cores: float = 0.0
    lc_used_cores: float = 0.0
    be_core_s: float = 0.0
    """So far."""
    lc_core_s: float = 0.0
    instructions: float = 0.0
    cycles: float = 0.0
    latency_ms: float = 0.0
    """Of the last sample."""
    offered_rps: float = 0.0
    """The load of the last sample."""
    samples_ms: list[float] = field(default_factory=list)
    _sum_ms: float = 0.0
    _sum_rps: float = 0.0
    _steps: int = 0
    _cpi_factor: float = 1.0
    _cpi_until_s: float = 0.0

    def advance(self, load_rps: float) -> None:
        """Half a second."""
        figures = self.figures
        load = load_rps * self._noise(figures.load_noise_ratio)
        needed = min(needed_cores(figures, load), float(figures.lc_cores))
        taken, cores = needed + self.others_cores, float(figures.lc_cores)
        self.be_used_cores = be_cores(figures, taken, self.quota_cores, self.weight_ratio)
        left = max(cores - self.others_cores - self.be_used_cores, 0.0)
        self.lc_used_cores = min(alone_cores(figures, load), left)
        served = served_rps(figures, needed, self.be_used_cores, self.others_cores)
        self.backlog = max(self.backlog + (load - served) * STEP_S, 0.0)
        self.backlog = min(self.backlog, served * figures.worst_backlog_ms / 1000)
        waited_ms = p95_ms(figures, load, served) + 1000 * self.backlog / served
        self._count(load)
        self.now_s += STEP_S
        self._sum_ms += waited_ms
        self._sum_rps += load
        self._steps += 1
        if self._steps * STEP_S >= figures.sample_s:
            noise = self._noise(figures.latency_noise_ratio)
            self.latency_ms = self._sum_ms / self._steps * noise
            self.offered_rps = self._sum_rps / self._steps
            self.samples_ms.append(self.latency_ms)
            self._sum_ms = self._sum_rps = 0.0
            self._steps = 0

    def _count(self, load: float) -> None:
        figures = self.figures
        self.be_core_s += self.be_used_cores * STEP_S
        self.lc_core_s += self.lc_used_cores * STEP_S
        if self.now_s >= self._cpi_until_s:
            self._cpi_factor = self._noise(figures.cpi_noise_ratio)
            self._cpi_until_s = self.now_s + 18.5
        slower = 1.0 - figures.lost_per_be_core * self.be_used_cores
        instructions = load * STEP_S
        self.instructions += instructions
        self.cycles += instructions * figures.base_cpi / slower * self._cpi_factor

    def _noise(self, deviation: float) -> float:
        drawn = self.random.gauss(0.0, 1.0)
        return 1.0 + deviation * min(max(drawn, -MOST_OFF), MOST_OFF)


def needed_cores(figures: Figures, load: float) -> float:
    """As little CPU as memcached can serve this load with."""
    return figures.lc_cores * figures.needed_at_lowest_ratio * load / figures.lowest_rps


def alone_cores(figures: Figures, load: float) -> float:
    """What it uses if nobody else wants the CPU: it wakes up more often."""
    wanted = figures.lc_cores * figures.alone_at_lowest_ratio * load / figures.lowest_rps
    return min(wanted, float(figures.lc_cores))


def be_cores(figures: Figures, needed: float, quota: float, weight_ratio: float) -> float:
    """What stress-ng gets of what its quota lets it want."""
    by_weight = figures.lc_cores * weight_ratio / (1.0 + weight_ratio)
    left = max(figures.lc_cores - needed, by_weight)
    return min(quota, float(figures.be_cores), left)


def served_rps(figures: Figures, needed: float, be_used: float, others: float = 0.0) -> float:
    """The load at which memcached's queue would have no end."""
    intact = figures.saturation_rps * max(1.0 - figures.lost_per_be_core * be_used, 0.05)
    lacking = max(needed + others + be_used - figures.lc_cores, 0.0)
    return intact * max(1.0 - lacking / max(needed, 1e-9), 0.05)


def p95_ms(figures: Figures, load: float, served: float) -> float:
    """Without a backlog."""
    at_full = figures.max_rps / (figures.saturation_rps - figures.max_rps)
    per_wait_ms = (figures.full_ms - figures.idle_ms) / at_full
    busy = min(load / served, 0.995)
    return figures.idle_ms + per_wait_ms * busy / (1.0 - busy)
