# SPDX-License-Identifier: Apache-2.0
"""A run of one published loop, and what stress-ng and memcached came to in it."""

from dataclasses import dataclass
from random import Random

from vp_sim.best_effort.figures import Figures
from vp_sim.best_effort.loads import Load
from vp_sim.best_effort.published_loops import LOOPS
from vp_sim.best_effort.socket import STEP_S, Socket, alone_cores

SEED = 1


@dataclass(frozen=True, slots=True)
class Ratios:
    be_ratio: float
    """Work of the best-effort server over what it would do alone in the same time."""
    targets_met_ratio: float
    """Share of the samples in which the target was met."""


def ratios_of(socket: Socket, seconds: float) -> Ratios:
    met = sum(one <= socket.figures.target_ms for one in socket.samples_ms)
    alone = socket.figures.be_cores * seconds
    return Ratios(socket.be_core_s / alone, met / len(socket.samples_ms))


def learned_alone(figures: Figures, load: Load, seed: int) -> tuple[list[float], float]:
    """What the learning phase of `cpi` records: the CPI of each interval of the main monitor while
    memcached runs alone, and the most CPU that it uses."""
    socket = Socket(figures, Random(f"alone-{seed}"))
    found: list[float] = []
    most, before = 0.0, (0.0, 0.0)
    for second in range(load.seconds):
        for _ in range(round(1 / STEP_S)):
            socket.advance(load.rps[second])
            if socket.now_s % 18.5 == 0:
                cycles, instructions = socket.cycles - before[0], socket.instructions - before[1]
                found.append(cycles / instructions)
                before = (socket.cycles, socket.instructions)
        most = max(most, alone_cores(figures, load.rps[second]))
    return found, most


def run_loop(
    name: str, figures: Figures, load: Load, cpi_threshold: float, lc_max: float, seed: int = SEED
) -> Ratios:
    socket = Socket(figures, Random(f"run-{seed}"))
    loop = LOOPS[name](figures, cpi_threshold, lc_max)
    for rps in load.rps:
        for _ in range(round(1 / STEP_S)):
            loop.tick(socket)
            socket.advance(rps)
    return ratios_of(socket, load.seconds)
