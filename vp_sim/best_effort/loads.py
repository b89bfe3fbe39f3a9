# SPDX-License-Identifier: Apache-2.0
"""Loads over time: the source's, random ones by seed, and those of a file."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from vp_sim.best_effort.figures import Figures


@dataclass(frozen=True, slots=True)
class Load:
    """Requests per second, by second."""

    rps: Sequence[float]

    @property
    def seconds(self) -> int:
        return len(self.rps)


def published(figures: Figures) -> Load:
    """From the highest load down to the lowest and up again, by a constant step. Assumed: that it
    begins at the highest, since `hybrid` starts stress-ng only at a load of 360 k (5.2.3)."""
    steps = round((figures.max_rps - figures.lowest_rps) / figures.step_rps)
    down = [figures.max_rps - number * figures.step_rps for number in range(steps + 1)]
    seconds = round(figures.step_s)
    return Load([rps for rps in (*down, *reversed(down)) for _ in range(seconds)])


def random_load(seed: int, figures: Figures, seconds: int = 3600) -> Load:
    """Between 10 and 100 % of what is served within the target: waves of some minutes, steps,
    ramps and now and then a burst of some seconds."""
    random, most = Random(f"load-{seed}"), figures.max_rps
    low, high = random.uniform(0.1, 0.5), random.uniform(0.6, 1.0)
    kind = random.choice(("wave", "steps", "ramps"))
    base = list({"wave": _wave, "steps": _steps, "ramps": _ramps}[kind](random, seconds))
    ratios = [low + (high - low) * one for one in base]
    for _ in range(random.randint(0, 6)):
        at, length = random.randrange(seconds), random.randint(5, 60)
        peak = random.uniform(high, 1.0)
        for second in range(at, min(at + length, seconds)):
            ratios[second] = max(ratios[second], peak)
    return Load([most * min(one, 1.0) for one in ratios])


def _wave(random: Random, seconds: int) -> Iterator[float]:
    period, phase = random.uniform(300, 1800), random.uniform(0, 2 * math.pi)
    for second in range(seconds):
        yield 0.5 + 0.5 * math.sin(2 * math.pi * second / period + phase)


def _steps(random: Random, seconds: int) -> Iterator[float]:
    level, until = random.random(), 0
    for second in range(seconds):
        if second >= until:
            level, until = random.random(), second + random.randint(30, 300)
        yield level


def _ramps(random: Random, seconds: int) -> Iterator[float]:
    begun, level, goal, until = 0, random.random(), random.random(), random.randint(60, 600)
    for second in range(seconds):
        if second >= until:
            begun, level, goal = second, goal, random.random()
            until = second + random.randint(60, 600)
        yield level + (goal - level) * (second - begun) / (until - begun)


def read_load(path: Path) -> Load:
    """A JSON list of [seconds, requests per second]. Raises ValueError."""
    told = json.loads(path.read_text())
    if not isinstance(told, list) or not told:
        raise ValueError(f"{path}: give a list of [seconds, requests per second]")
    found: list[float] = []
    for part in told:
        match part:
            case [int() as seconds, int() | float() as rps] if seconds > 0 and rps >= 0:
                found += [float(rps)] * seconds
            case _:
                raise ValueError(f"{path}: {part!r} is not [whole seconds, requests per second]")
    return Load(found)
