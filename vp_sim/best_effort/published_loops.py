# SPDX-License-Identifier: Apache-2.0
"""The four loops of the source, transcribed from its listings: what the model is fitted with and
validated by, without the agent.

Each is called every half second with the socket, and sets its quota.
"""

from dataclasses import dataclass
from typing import ClassVar

from vp_sim.best_effort.figures import Figures
from vp_sim.best_effort.socket import Socket

LEAST_CORES = 1000 / 100_000
"""A quota of 1000 us in a period of 100 ms."""
MAIN_S = 20.0 - 1.5
SUB_S = 2.0
TOP_S = 15.0


class Loop:
    def __init__(self, figures: Figures, cpi_threshold: float, lc_max_cores: float) -> None:
        self.figures = figures
        self.cpi_threshold = cpi_threshold
        self.lc_max_cores = lc_max_cores
        self.at_s: dict[str, float] = {}

    def is_due(self, monitor: str, period_s: float, now_s: float) -> bool:
        """Every monitor begins by sleeping."""
        due_s = self.at_s.setdefault(monitor, period_s)
        if now_s < due_s:
            return False
        self.at_s[monitor] = due_s + period_s
        return True

    def tick(self, socket: Socket) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class Counts:
    """At the last look."""

    instructions: float = 0.0
    cycles: float = 0.0
    lc_core_s: float = 0.0
    be_core_s: float = 0.0


class Cpi(Loop):
    """3.1.2, 4.1.3, listing 4.3."""

    LEVELS = 20
    CYCLES = 7

    def __init__(self, figures: Figures, cpi_threshold: float, lc_max_cores: float) -> None:
        super().__init__(figures, cpi_threshold, lc_max_cores)
        self.level = 0
        self.quiet = 0
        self.main, self.sub = Counts(), Counts()

    def tick(self, socket: Socket) -> None:
        if self.is_due("main", MAIN_S, socket.now_s):
            instructions = socket.instructions - self.main.instructions
            cycles = socket.cycles - self.main.cycles
            self.main = Counts(socket.instructions, socket.cycles)
            if cycles > self.cpi_threshold * instructions:
                self.level = self.quiet = 0
        if self.is_due("sub", SUB_S, socket.now_s):
            lc = (socket.lc_core_s - self.sub.lc_core_s) / SUB_S
            be = (socket.be_core_s - self.sub.be_core_s) / SUB_S
            self.sub = Counts(lc_core_s=socket.lc_core_s, be_core_s=socket.be_core_s)
            if lc + be + 0.5 > self.lc_max_cores:
                self.level = self.quiet = 0
            else:
                self.quiet += 1
                if self.quiet >= self.CYCLES:
                    self.quiet = 0
                    self.level = min(self.level + 1, self.LEVELS)
        step = self.lc_max_cores / self.LEVELS
        socket.quota_cores = max(LEAST_CORES, self.level * step)
        if self.level == self.LEVELS:
            socket.quota_cores = float(self.figures.machine_cpus)


class Latency(Loop):
    """3.2, 4.2."""

    LEVELS = 50
    MOST = 48

    def __init__(self, figures: Figures, cpi_threshold: float, lc_max_cores: float) -> None:
        super().__init__(figures, cpi_threshold, lc_max_cores)
        self.level = 0

    def tick(self, socket: Socket) -> None:
        if self.is_due("qos", MAIN_S, socket.now_s):
            if socket.latency_ms >= self.figures.target_ms:
                self.level = 0
            else:
                self.level = min(self.level + 1, self.MOST)
        step = self.figures.machine_cpus / self.LEVELS
        socket.quota_cores = max(LEAST_CORES, self.level * step)


class Hybrid(Loop):
    """3.3, 4.3, listing 3.1. Where the listing tests `slack < 0.80`, the text says load."""

    SUSPEND_LOAD: ClassVar[float] = 0.85
    ENABLE_LOAD: ClassVar[float] = 0.80
    COOL_DOWN_S: ClassVar[float] = 300.0

    def __init__(self, figures: Figures, cpi_threshold: float, lc_max_cores: float) -> None:
        super().__init__(figures, cpi_threshold, lc_max_cores)
        self.cores = LEAST_CORES
        self.is_enabled = False
        self.is_growing = False
        self.cool_until_s = 0.0

    def step_cores(self) -> float:
        return 1.0

    def tick(self, socket: Socket) -> None:
        if self.is_due("top", TOP_S, socket.now_s) and socket.now_s >= self.cool_until_s:
            self.look(socket)
        if self.is_due("sub", SUB_S, socket.now_s) and self.is_growing:
            most = float(self.figures.machine_cpus)
            self.cores = min(self.cores + self.step_cores(), most)
        socket.quota_cores = self.cores if self.is_enabled else 0.0

    def look(self, socket: Socket) -> None:
        slack = (self.figures.target_ms - socket.latency_ms) / self.figures.target_ms
        load = socket.offered_rps / self.figures.max_rps
        self.is_growing = False
        if slack < 0:
            self.suspend()
            self.cool_until_s = socket.now_s + self.COOL_DOWN_S
        elif load > self.SUSPEND_LOAD:
            self.suspend()
        else:
            self.is_enabled = self.is_enabled or load < self.ENABLE_LOAD
            self.is_growing = self.is_enabled and slack > 0.10

    def suspend(self) -> None:
        """It starts again from the minimum."""
        self.is_enabled = False
        self.cores = LEAST_CORES


class HybridTuned(Hybrid):
    """3.3.1."""

    SUSPEND_LOAD = 0.95
    ENABLE_LOAD = 0.90
    COOL_DOWN_S = 180.0

    def step_cores(self) -> float:
        return self.figures.machine_cpus / 50


LOOPS: dict[str, type[Loop]] = {
    "cpi": Cpi,
    "latency": Latency,
    "hybrid": Hybrid,
    "hybrid-tuned": HybridTuned,
}
