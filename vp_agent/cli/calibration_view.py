# SPDX-License-Identifier: Apache-2.0
"""A calibration as a table: the limits, then for each memory controller and link how long memory
takes under which load."""

from collections.abc import Iterator
from dataclasses import asdict

from nova_vp.core.types.topology import LoadCurve
from vp_agent.calibration.capacity import ESTIMATED, KNEE_RATIO
from vp_agent.calibration.curves import highest_lines_per_s, latency_ns_at
from vp_agent.calibration.procedure import SHARES
from vp_agent.calibration.record import Calibration
from vp_agent.format import limits_line

_WRITEBACKS = {
    ESTIMATED: "write-backs are estimated from what the measuring programs wrote: no counter of "
    "memory controllers (uncore) and no resctrl monitoring that this user may read counts them",
    "uncore": "write-backs were counted by the memory controllers (uncore)",
    "resctrl": "write-backs were counted by resctrl monitoring",
}
_COLUMNS = (0.0, *SHARES, 1.0)
_NAME, _TRAFFIC, _RATE, _LATENCY = 11, 24, 10, 7


def as_table(found: Calibration) -> str:
    return "\n".join(_lines(found))


def _lines(found: Calibration) -> Iterator[str]:
    yield limits_line(asdict(found.limits))
    if found.limits.node_misses_per_s is not None:
        flat_out = found.limits.node_misses_per_s / KNEE_RATIO / 1e6
        yield (
            f"the limit of a node is {KNEE_RATIO:.0%} of its highest rate, {flat_out:.1f} M lines/s"
        )
    yield from found.notes
    if found.is_of_earlier_release:
        yield "measured by an earlier release, without curves: calibrate again"
    if found.limits.curves:
        yield _WRITEBACKS.get(found.writebacks, f"write-backs: {found.writebacks}")
        yield ""
        yield from _curve_lines(found.limits.curves)


def _curve_lines(curves: tuple[LoadCurve, ...]) -> Iterator[str]:
    shares = (f"{share:.0%}" for share in _COLUMNS)
    yield f"{'':{_NAME + _TRAFFIC}}{'highest':>{_RATE}}  latency in ns at this share of it"
    yield (
        f"{'memory':{_NAME}}{'traffic':{_TRAFFIC}}{'M lines/s':>{_RATE}}"
        + "".join(f"{share:>{_LATENCY}}" for share in shares)
    )
    for curve in curves:
        highest = highest_lines_per_s(curve)
        latencies = (latency_ns_at(curve, share * highest) for share in _COLUMNS)
        yield (
            f"{_name(curve):{_NAME}}{_traffic(curve):{_TRAFFIC}}{highest / 1e6:>{_RATE}.1f}"
            + "".join(f"{latency_ns:>{_LATENCY}.0f}" for latency_ns in latencies)
        )


def _name(curve: LoadCurve) -> str:
    if curve.cpu_node == curve.memory_node:
        return f"node {curve.memory_node}"
    return f"link {curve.cpu_node}-{curve.memory_node}"


def _traffic(curve: LoadCurve) -> str:
    written = round(100 * curve.writeback_ratio)
    return f"100 reads : {written} writes" if written else "reads"
