# SPDX-License-Identifier: Apache-2.0
"""The demo's picture: guest rates, memory factor, state and the agent's actions over time."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from testbed.lab.monitor import LabMonitor, Watched

MARKS = {"stream": "tab:red", "detected": "tab:orange", "moved": "tab:green"}
LABELS = {
    "stream": "neighbour turns to stream",
    "detected": "agent detects",
    "moved": "agent separates the two",
}


def draw(
    path: Path, watch: LabMonitor, events: Sequence[tuple[float, str]], began_at: float
) -> None:
    victim, neighbour = watch.servers["victim"], watch.servers["neighbour"]
    figure, (rates, factor, state) = plt.subplots(
        3, 1, sharex=True, figsize=(10, 7.5), height_ratios=(3, 2, 1.4), layout="constrained"
    )
    _rates(rates, victim, "victim: chase", "tab:blue", began_at)
    _rates(rates, neighbour, "neighbour: stream", "tab:purple", began_at, only="stream")
    rates.set_ylabel("operations per second")
    figure.suptitle("One VM degrades another; the agent detects and mitigates it")
    times = [s.at - began_at for s in victim.sightings]
    factor.plot(times, [s.memory_factor for s in victim.sightings], color="tab:blue")
    factor.set_ylabel("victim's memory factor")
    factor.set_ylim(-0.03, 1.03)
    factor.axhspan(0.25, 0.6, color="gold", alpha=0.15)
    factor.axhspan(0.6, 1.03, color="tomato", alpha=0.12)
    state.step(times, [s.state for s in victim.sightings], where="post", color="tab:blue")
    state.set_ylabel("victim's state")
    state.set_yticks(range(0, 9, 2))
    state.set_xlabel("seconds since the demo began")
    for axis in (rates, factor, state):
        axis.grid(alpha=0.3)
        for at, name in events:
            axis.axvline(at - began_at, color=MARKS[name], linestyle="--", linewidth=1.2)
    for name in dict.fromkeys(name for _, name in events):
        rates.plot([], [], color=MARKS[name], linestyle="--", label=LABELS[name])
    rates.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _rates(
    axis: plt.Axes, server: Watched, label: str, colour: str, began_at: float, only: str = ""
) -> None:
    rates = [r for r in server.console.rates if not only or r.kind == only]
    axis.plot([r.at - began_at for r in rates], [r.ops for r in rates], label=label, color=colour)
    axis.set_ylim(bottom=0)
