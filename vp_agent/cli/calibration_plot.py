# SPDX-License-Identifier: Apache-2.0
"""A picture of the curves of a calibration. Imported only when one is asked."""

from pathlib import Path

from nova_vp.core.types.topology import LoadCurve
from vp_agent.calibration.capacity import CannotCalibrate
from vp_agent.calibration.record import Calibration

try:
    from matplotlib.figure import Figure
except ImportError as exc:
    raise CannotCalibrate(
        "matplotlib is not installed, so no picture was made; the calibration is stored. Install "
        "matplotlib, then use --show --plot, or draw the JSON of --show -f json elsewhere"
    ) from exc

from nova_vp.cli.whole_file import whole_file


def plot(path: Path, found: Calibration) -> None:
    """Raises CannotCalibrate, OSError."""
    if not found.limits.curves:
        raise CannotCalibrate("this calibration has no curves, so there is nothing to draw")
    figure = Figure(figsize=(11, 5))
    axes = figure.subplots()
    for curve in found.limits.curves:
        loads = [point.lines_per_s / 1e6 for point in curve.points]
        style = "-o" if curve.cpu_node == curve.memory_node else "--o"
        axes.plot(loads, [p.latency_ns for p in curve.points], style, label=_label(curve))
    axes.set_title(f"write-backs: {found.writebacks}")
    axes.set_xlabel("load, million cache lines per second, read and written back")
    axes.set_ylabel("latency of a miss, ns")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    figure.tight_layout()
    with whole_file(path) as unfinished:
        figure.savefig(unfinished)


def _label(curve: LoadCurve) -> str:
    return (
        f"CPUs of node {curve.cpu_node}, memory of node {curve.memory_node}, "
        f"{curve.writeback_ratio:.2f} write-backs per read"
    )
