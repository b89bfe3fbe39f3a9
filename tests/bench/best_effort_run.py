# SPDX-License-Identifier: Apache-2.0
"""The picture of one run: `python -m tests.bench.best_effort_run FILE.svg`.

`adaptive` and `hybrid-tuned` on the modelled socket, with the load of the source.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot
from matplotlib.axes import Axes

from tests.bench.best_effort import BEST_PUBLISHED, OURS, SEED, an_agent
from vp_sim.best_effort.agent_host import agent_host
from vp_sim.best_effort.figures import Figures
from vp_sim.best_effort.loads import published

STYLE = {"svg.hashsalt": "best-effort-run", "svg.fonttype": "none"}
SHOWN = {BEST_PUBLISHED: "C1", OURS: "C0"}
EVERY_S = 20
"""One point of so many seconds: the worst latency, the mean CPU."""


@dataclass(slots=True)
class Course:
    """By stretch of `EVERY_S` seconds."""

    latency_ms: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)


def watch(loop: str, figures: Figures) -> Course:
    course, host = Course(), agent_host(figures, SEED)
    agent = an_agent(host, loop)
    done_core_s = 0.0
    for second, rps in enumerate(published(figures).rps, 1):
        host.advance(rps)
        agent.tick(float(second))
        if second % EVERY_S == 0:
            course.latency_ms.append(max(host.socket.samples_ms[-EVERY_S:]))
            course.cores.append((host.socket.be_core_s - done_core_s) / EVERY_S)
            done_core_s = host.socket.be_core_s
    return course


def draw(path: Path) -> None:
    figures = Figures()
    with pyplot.rc_context(STYLE):
        figure, rows = pyplot.subplots(3, 1, sharex=True, figsize=(8, 6))
        for loop, colour in SHOWN.items():
            course = watch(loop, figures)
            _row(rows[0], course.latency_ms, colour, loop)
            _row(rows[1], course.cores, colour, loop)
        rows[0].axhline(figures.target_ms, color="C3", linestyle="--", label="target")
        rows[0].set_ylabel("p95 of memcached,\nworst of 20 s, ms")
        rows[1].set_ylabel("CPU of stress-ng,\ncores")
        load = [one / 1000 for one in published(figures).rps[::EVERY_S]]
        _row(rows[2], load, "C2", "load")
        rows[2].set_ylabel("load, thousand\nrequests per second")
        rows[2].set_xlabel("second")
        rows[0].legend()
        for row in rows:
            row.set_ylim(bottom=0)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _row(axes: Axes, values: list[float], colour: str, label: str) -> None:
    seconds = [EVERY_S * number for number in range(len(values))]
    axes.step(seconds, values, color=colour, label=label, linewidth=1)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
