# SPDX-License-Identifier: Apache-2.0
"""Pictures of results, in the layout of the thesis's figure 10. Imported only when one is asked."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes

from nova_vp.cli.whole_file import whole_file
from vp_sim.measure import OfPolicy
from vp_sim.timeline import Timeline

WIDTH = 0.8


def plot_comparison(path: Path, mix_name: str, results: Mapping[str, OfPolicy]) -> None:
    figure, axes = pyplot.subplots(figsize=(11, 5))
    draw_comparison(axes, results)
    axes.set_title(f"{mix_name}: median (bar), middle half (thick line), worst (triangle)")
    _save(figure, path)


def draw_comparison(axes: Axes, results: Mapping[str, OfPolicy]) -> None:
    """Every application under every policy; who is faster than without management, below zero."""
    axes.axhline(0, color="black", linewidth=0.8)
    names = list(next(iter(results.values())).applications)
    width = WIDTH / len(results)
    for number, (policy, result) in enumerate(results.items()):
        apps = [result.applications[name] for name in names]
        places = [at + (number - (len(results) - 1) / 2) * width for at in range(len(names))]
        median = [100 * app.median for app in apps]
        low, high = ([100 * app.quartiles[side] for app in apps] for side in (0, 1))
        axes.bar(places, median, width * 0.9, color=f"C{number}", alpha=0.5, label=policy)
        axes.vlines(places, low, high, color=f"C{number}", linewidth=5)
        axes.plot(places, median, "k_", markersize=10)
        axes.plot(places, [100 * app.worst for app in apps], "kv", markersize=4)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_ylabel("degradation, % of the best run without management")
    axes.legend()


def plot_timeline(path: Path, title: str, timeline: Timeline) -> None:
    figure, axes = pyplot.subplots(figsize=(11, 5))
    for name, speed in timeline.speed.items():
        axes.plot(timeline.seconds, speed, label=name)
    axes.set_title(title)
    axes.set_xlabel("second")
    axes.set_ylabel("speed, 1 = running alone")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    _save(figure, path)


def _save(figure: "matplotlib.figure.Figure", path: Path) -> None:
    figure.tight_layout()
    try:
        with whole_file(path) as unfinished:
            figure.savefig(unfinished)
    finally:
        pyplot.close(figure)
