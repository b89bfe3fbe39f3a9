# SPDX-License-Identifier: Apache-2.0
"""The picture of one run with pollution permits: `python -m tests.bench.permits_run FILE.svg`.

As figure 5 of the Kyoto paper, in the simulator: gcc beside lbm with permits of 250k. The agent
starts after a minute.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot
from matplotlib.axes import Axes

from tests.bench.permits import PERMIT, SEED, VICTIM, Kyoto, a_mix, an_agent
from vp_sim.run import start, world_of

POLLUTER = "lbm"
AGENT_FROM_S, SECONDS = 60, 240
STYLE = {"svg.hashsalt": "permits-run", "svg.fonttype": "none", "path.simplify_threshold": 1.0}


@dataclass(slots=True)
class Course:
    """By second."""

    victim_ratio: list[float] = field(default_factory=list)
    """Its speed by its speed alone."""
    misses: list[float] = field(default_factory=list)
    """Of the polluter, per ms of wall time."""
    cores: list[float] = field(default_factory=list)
    """That the polluter uses."""


def watch() -> Course:
    kyoto, course = Kyoto(), Course()
    host = start(world_of(a_mix(POLLUTER, 1, PERMIT)), SEED)
    agent = an_agent(kyoto, host)
    victim, polluter = (
        next(uuid for uuid, guest in host.guests.items() if guest.app.name == name)
        for name in (VICTIM, POLLUTER)
    )
    for second in range(SECONDS):
        host.advance(1.0)
        if second >= AGENT_FROM_S:
            agent.tick(host.now_s)
        speed = host.speeds[victim].instructions_per_s
        course.victim_ratio.append(speed / kyoto.alone[VICTIM].instructions_per_s)
        course.misses.append(host.speeds[polluter].misses_per_s / 1000)
        course.cores.append(host.cores[polluter])
    return course


def draw(course: Course, path: Path) -> None:
    with pyplot.rc_context(STYLE):
        figure, rows = pyplot.subplots(3, 1, sharex=True, figsize=(8, 6))
        _row(rows[0], course.victim_ratio, f"{VICTIM}: speed,\n1 = alone")
        rows[0].set_ylim(0.8, 1.0)
        _row(rows[1], course.misses, f"{POLLUTER}: LLC misses\nper ms")
        rows[1].axhline(PERMIT, color="C3", linestyle="--", label="permit")
        rows[1].legend()
        _row(rows[2], course.cores, f"{POLLUTER}: cores")
        rows[2].set_xlabel(f"second; the agent starts at {AGENT_FROM_S}")
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _row(axes: Axes, values: list[float], label: str) -> None:
    axes.step(range(len(values)), values)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)


if __name__ == "__main__":
    draw(watch(), Path(sys.argv[1]))
