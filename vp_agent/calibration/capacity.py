# SPDX-License-Identifier: Apache-2.0
"""What one node's memory controller and one link bear, as the limits that the core decides by.

Where the counter source models the host (vpmu), what it models is asked for instead of measured:
its misses are no traffic of this machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple, Protocol, runtime_checkable

from nova_vp.core.model.latency import LIMIT_LOAD
from nova_vp.core.types.topology import Limits, LoadCurve

KNEE_RATIO = LIMIT_LOAD
"""Share of the highest rate that counts as the limit. Requests queue long before a controller is
full: measured curves of loaded latency turn up between 60 and 80 %."""

FLAT_RATIO = 1.05
"""Twice the CPUs that bring less than this have reached the plateau."""

ESTIMATED = "estimated"


class CannotCalibrate(Exception):
    """The message says why, and what to do."""


class Measured(NamedTuple):
    """One memory controller or link."""

    curves: tuple[LoadCurve, ...]
    """With reads alone first."""
    rates: Mapping[int, float]
    """Lines read per second flat out, by number of CPUs."""
    counted_by: str
    """As in a Response."""

    @property
    def nodes(self) -> tuple[int, int]:
        """Of the CPUs and of the memory."""
        return self.curves[0].cpu_node, self.curves[0].memory_node

    @property
    def is_local(self) -> bool:
        return self.nodes[0] == self.nodes[1]

    @property
    def idle_ns(self) -> float:
        return self.curves[0].points[0].latency_ns


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the memory moves flat out."""

    node_lines_per_s: float
    """Cache lines read, that is LLC misses; of the weakest node."""
    link_lines_per_s: float | None = None
    remote_penalty_ratio: float | None = None
    curves: tuple[LoadCurve, ...] = ()
    writebacks: str = ESTIMATED
    """Which counter saw lines written back, or that none did."""
    notes: tuple[str, ...] = ()
    """What an operator should know of these numbers."""

    @property
    def limits(self) -> Limits:
        link = self.link_lines_per_s
        return Limits(
            node_misses_per_s=self.node_lines_per_s * KNEE_RATIO,
            link_misses_per_s=None if link is None else link * KNEE_RATIO,
            remote_penalty_ratio=self.remote_penalty_ratio or Limits().remote_penalty_ratio,
            curves=self.curves,
        )


@runtime_checkable
class KnowsCapacity(Protocol):
    """A counter source that counts misses of a modelled memory."""

    def node_lines_per_s(self) -> float | None:
        """Of the weakest modelled controller; None if none is modelled yet, or without a limit."""


def modelled(source: KnowsCapacity) -> Capacity:
    """Raises CannotCalibrate."""
    lines_per_s = source.node_lines_per_s()
    if lines_per_s is None:
        raise CannotCalibrate(
            "the software PMU models no memory controller yet. Start one server (its plugin makes "
            "the controllers, unless it has bandwidth=0), then calibrate again"
        )
    return Capacity(
        lines_per_s, notes=("values of the software PMU's model; nothing was measured",)
    )


def capacity_of(
    found: Sequence[Measured],
    distances: Sequence[tuple[int, int, int]] = (),
    skipped: Sequence[tuple[int, int]] = (),
) -> Capacity:
    """`distances`: as in a Topology. `skipped`: nodes of CPUs and memory for which there was no
    time."""
    local = [one for one in found if one.is_local]
    links = [max(one.rates.values()) for one in found if not one.is_local]
    return Capacity(
        node_lines_per_s=min(max(one.rates.values()) for one in local),
        link_lines_per_s=min(links, default=None),
        remote_penalty_ratio=_penalty({one.nodes: one.idle_ns for one in found}, distances),
        curves=tuple(curve for one in found for curve in one.curves),
        writebacks=_counter_of(found),
        notes=(*_saturation(local), *_gaps(skipped)),
    )


def _penalty(
    idle_ns: Mapping[tuple[int, int], float], distances: Sequence[tuple[int, int, int]]
) -> float | None:
    """Of the farthest, as the mean of all pairs that are as far apart: the highest of many ratios
    is high by chance. Never below 1, which noise can make of two equal ones."""
    far = {(here, there): distance for here, there, distance in distances}
    ratios: dict[int, list[float]] = {}
    for (here, there), latency in idle_ns.items():
        if here != there and idle_ns[here, here] > 0:
            ratios.setdefault(far.get((here, there), 0), []).append(latency / idle_ns[here, here])
    return max(1.0, *map(fmean, ratios.values())) if ratios else None


def _counter_of(found: Sequence[Measured]) -> str:
    """Only where it saw all of them."""
    names = {one.counted_by for one in found}
    return names.pop() or ESTIMATED if len(names) == 1 else ESTIMATED


def _saturation(local: Sequence[Measured]) -> Iterator[str]:
    for one in local:
        node, knee = one.nodes[0], _knee(one.rates)
        if knee is None:
            yield (
                f"node {node}: its CPUs cannot saturate its memory controller; the real limit is "
                "higher"
            )
        else:
            yield f"node {node}: {knee} of {max(one.rates)} CPUs saturate its memory controller"


def _knee(rates: Mapping[int, float]) -> int | None:
    """The fewest CPUs from which on more bring nothing; None if even the last ones did."""
    counts = sorted(rates)
    knee = None
    for fewer, more in pairwise(counts):
        if rates[more] >= rates[fewer] * FLAT_RATIO:
            knee = None
        elif knee is None:
            knee = fewer
    return knee


def _gaps(skipped: Sequence[tuple[int, int]]) -> Iterator[str]:
    if skipped:
        named = ", ".join(f"{here}-{there}" for here, there in skipped)
        yield f"no time was left for the nodes of CPUs and memory {named}"
