# SPDX-License-Identifier: Apache-2.0
"""A calibration as it is kept and printed: one JSON object, its fields named as here."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nova_vp.core.types.topology import Limits, LoadCurve, LoadPoint
from vp_agent.calibration.capacity import ESTIMATED
from vp_agent.checked_numbers import finite, measured, positive

MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Calibration:
    limits: Limits
    at: float
    """Seconds since 1970."""
    how: str
    """`measured`, or the counter source that models the host."""
    writebacks: str = ESTIMATED
    """Which counter saw lines written back, or `estimated`."""
    notes: tuple[str, ...] = ()

    @property
    def is_of_earlier_release(self) -> bool:
        """Releases before the curves measured three figures alone."""
        return self.how == MEASURED and not self.limits.curves


def as_json(calibration: Calibration) -> dict[str, Any]:
    limits = asdict(calibration.limits)
    curves = [_curve_row(curve) for curve in calibration.limits.curves]
    return {
        **limits,
        "curves": curves,
        "at": calibration.at,
        "how": calibration.how,
        "writebacks": calibration.writebacks,
        "notes": list(calibration.notes),
    }


def _curve_row(curve: LoadCurve) -> dict[str, Any]:
    return {**asdict(curve), "points": [point._asdict() for point in curve.points]}


def from_json(row: Mapping[str, Any]) -> Calibration:
    """Raises ValueError, KeyError, TypeError or AttributeError for what is none. A file of the
    release before the curves has none."""
    node, link = row["node_misses_per_s"], row["link_misses_per_s"]
    limits = Limits(
        node_misses_per_s=None if node is None else positive(node),
        link_misses_per_s=None if link is None else positive(link),
        remote_penalty_ratio=positive(row["remote_penalty_ratio"]),
        curves=tuple(map(_curve, row.get("curves", ()))),
    )
    return Calibration(
        limits=limits,
        at=finite(row["at"]),
        how=str(row["how"]),
        writebacks=str(row.get("writebacks", ESTIMATED)),
        notes=tuple(map(str, row.get("notes", ()))),
    )


def _curve(row: Mapping[str, Any]) -> LoadCurve:
    points = [
        LoadPoint(measured(one["lines_per_s"]), measured(one["latency_ns"]))
        for one in row["points"]
    ]
    if len(points) < 2 or points != sorted(points):
        raise ValueError("a curve needs two points or more, by rising load")
    return LoadCurve(
        cpu_node=int(measured(row["cpu_node"])),
        memory_node=int(measured(row["memory_node"])),
        writeback_ratio=measured(row["writeback_ratio"]),
        points=tuple(points),
    )
