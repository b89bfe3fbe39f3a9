# SPDX-License-Identifier: Apache-2.0
"""How much longer a miss takes at a memory controller or link under load than at an idle one.

By the host's calibration: the measured curve where there is one, else a form that rises late, since
a miss keeps a controller busy for a small part of its latency only. On a host that was never
calibrated, a node's load is the thesis's own measure: LLC misses per 1000 instructions, summed over
the VPs whose memory lies there, against the threshold of 2.1.3.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from nova_vp.core.types.policy import Policy
from nova_vp.core.types.topology import Limits, LoadCurve

Route = tuple[int, int]
"""(node of the CPU, node of the memory): a controller if they are the same, else a link."""

LIMIT_LOAD = 0.7
"""Load of a memory controller at the calibrated limit, as a share of what it can serve at all. What
calibrates goes by this number too: another one here would see queues that are not there."""

SERVICE_RATIO = 0.05
"""Part of an idle miss's latency in which it keeps others waiting: a line occupies its channel for
a few of the hundred nanoseconds that it takes in all (an estimate, where no curve was measured)."""

_MOST_LOAD = 0.998
_LEAST_ROOM = 1e-4
"""Of what a controller can serve, at any demand beyond it: its latency rises until those who wait
ask for no more."""
_PRECISION = 0.01
"""Of a latency, as a share of it."""
_BINS = 16
"""Users of a controller that wait alike are one user: finer ones change no latency."""


class Flow(NamedTuple):
    """What one VP sends through a controller or link while that is idle."""

    demand: float
    """In the unit of its limit."""
    stall_share: float
    """Of its cycles, those that it waits for just this controller or link."""


def queueing_ratio(demand: float, limit: float | None) -> float:
    """Where no curve was measured."""
    if not limit:
        return 1.0
    load = min(LIMIT_LOAD * demand / limit, _MOST_LOAD)
    return 1 + SERVICE_RATIO * load / (1 - load)


class MemoryLatency:
    """Of one host's controllers and links, by its limits."""

    def __init__(self, limits: Limits, policy: Policy) -> None:
        self.is_calibrated = limits.node_misses_per_s is not None
        self.has_link_limit = limits.link_misses_per_s is not None
        self._node_limit = limits.node_misses_per_s or policy.hot_node_mpki
        self._link_limit = limits.link_misses_per_s
        self._curves: dict[Route, _Measured] = {}
        for curve in limits.curves:
            route = (curve.cpu_node, curve.memory_node)
            limit = self._limit(route)
            # With reads alone first: nobody knows what a VP writes back.
            if limit and route not in self._curves and curve.points[0].latency_ns > 0:
                self._curves[route] = _Measured(curve, limit / LIMIT_LOAD)

    def _limit(self, route: Route) -> float | None:
        return self._node_limit if route[0] == route[1] else self._link_limit

    def open_ratio(self, route: Route, demand: float) -> float:
        """At a demand that is there whatever the latency."""
        curve = self._curves.get(route)
        return queueing_ratio(demand, self._limit(route)) if curve is None else curve.ratio(demand)

    def ratio(self, route: Route, flows: Iterable[Flow]) -> float:
        """The latency at which those who are slowed by it make just the load that causes it: a
        busy controller slows those who fill it."""
        bins = _Bins()
        for flow in flows:
            bins.add(flow)
        return self._settled(route, bins)

    def ratios_beside(
        self, route: Route, flows: Iterable[Flow], others: Iterable[Flow]
    ) -> list[float]:
        """The same with each of the others in turn."""
        bins = _Bins()
        for flow in flows:
            bins.add(flow)
        return [self._settled(route, bins.with_one(other)) for other in others]

    def _settled(self, route: Route, bins: "_Bins") -> float:
        limit = self._limit(route)
        if limit is None:
            return 1.0
        curve = self._curves.get(route)
        if curve is None:
            return _settled(bins.users(), lambda load: queueing_ratio(load, limit))
        return _settled(bins.users(), curve.ratio)


class _Measured:
    """A measured curve, and beyond its last point a wait that goes on rising as the rest of what
    the controller can serve gets less."""

    def __init__(self, curve: LoadCurve, capacity_per_s: float) -> None:
        reads = 1 + curve.writeback_ratio
        idle_ns = curve.points[0].latency_ns
        self._loads = [point.lines_per_s / reads for point in curve.points]
        self._ratios: list[float] = []
        most = 1.0
        for point in curve.points:
            most = max(most, point.latency_ns / idle_ns)  # What it fell by is noise.
            self._ratios.append(most)
        self._capacity_per_s = max(capacity_per_s, self._loads[-1] / _MOST_LOAD)
        self._last_room = 1 - min(self._loads[-1] / self._capacity_per_s, _MOST_LOAD)

    def ratio(self, misses_per_s: float) -> float:
        loads, ratios = self._loads, self._ratios
        at = bisect_right(loads, misses_per_s)
        if at == len(loads):
            room = max(1 - misses_per_s / self._capacity_per_s, _LEAST_ROOM)
            wait = max(ratios[-1] - 1, SERVICE_RATIO)
            return ratios[-1] + wait * (self._last_room / min(room, self._last_room) - 1)
        if at == 0:
            return ratios[0]
        part = (misses_per_s - loads[at - 1]) / (loads[at] - loads[at - 1])
        return ratios[at - 1] + part * (ratios[at] - ratios[at - 1])


class _Bins:
    """Users of a controller, those together that wait alike."""

    def __init__(self) -> None:
        self._demand = [0.0] * (_BINS + 1)
        self._stalled = [0.0] * (_BINS + 1)

    def add(self, flow: Flow) -> None:
        demand, stall_share = flow
        number = int(stall_share * _BINS)
        self._demand[number] += demand
        self._stalled[number] += demand * stall_share

    def with_one(self, flow: Flow) -> "_Bins":
        more = _Bins()
        more._demand, more._stalled = self._demand.copy(), self._stalled.copy()
        more.add(flow)
        return more

    def users(self) -> list[tuple[float, float]]:
        """(demand, stall share) of each bin."""
        bins = zip(self._demand, self._stalled, strict=True)
        return [(demand, stalled / demand) for demand, stalled in bins if demand]


def _settled(users: list[tuple[float, float]], latency_at: Callable[[float], float]) -> float:
    low, high = 1.0, latency_at(sum(demand for demand, _ in users))
    while high - low > _PRECISION * low:
        middle = (low + high) / 2
        load = 0.0
        for demand, stall_share in users:
            load += demand / (1 + stall_share * (middle - 1))
        if latency_at(load) > middle:
            low = middle
        else:
            high = middle
    return (low + high) / 2
