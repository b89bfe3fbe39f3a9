# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench.guest_calibration --json`: the calibration procedure on the software PMU's
memory, with guests as its workers, beside the model's truth.

Guests that stream, or write, load one memory controller; a guest that follows pointers measures the
latency by its cycles per miss. A load is held to a rate by the clock of its guests. The truth is
what the software PMU documents: below its limit a controller at utilisation u takes 1 + u times the
idle latency, and it moves no more lines than its bandwidth. `debt_ratio` over 5 % says that this
machine was too busy, and that the figures are worth nothing.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from nova_vp.core.types.topology import LlcDomain, LoadCurve, Topology
from testbed.lab.lag_meter import MAX_RATIO
from tests.bench.harness import Benchmark, CannotMeasure, Numbers, command_line, fixed, progress
from tests.bench.paced_guests import Measured, PacedHost
from tests.libvirt_host import missing_for_libvirt
from vp_agent.calibration.capacity import Capacity
from vp_agent.calibration.curves import highest_lines_per_s
from vp_agent.calibration.load import READS, Load, Response
from vp_agent.calibration.procedure import measured

MHZ, CPI, LLC_CYCLES, LOCAL_CYCLES = 60, 0.6, 40.0, 200.0
"""The software PMU's defaults."""
LINES_PER_KILOCYCLE = 40
CAPACITY_LINES_PER_S = LINES_PER_KILOCYCLE * MHZ * 1e3
PMU = {"cpumap": "0:0;1:1", "nodemap": "0:0;1:0", "bandwidth": str(LINES_PER_KILOCYCLE)}
READERS, WRITERS, TIMER = ("stream-1", "stream-2"), ("write-1", "write-2"), "chase"
WORKS = {**dict.fromkeys(READERS, "stream"), **dict.fromkeys(WRITERS, "write"), TIMER: "chase:8192"}
LOADER_CPU, TIMER_CPU = 0, 1
"""Of an LLC each: who measures keeps its cache."""
TOPOLOGY = Topology((LlcDomain(0, 0, frozenset(range(len(READERS) + 1))),))
"""A CPU for each guest that works at a time; the last one is the timer's."""
WINDOW_S = 4.0
WARM_S = 1.0
BELOW_THE_LIMIT = 0.9
"""Of the bandwidth: from here on the price of the limit is part of the latency."""


class GuestBench:
    """The seam of the calibration procedure over paced guests."""

    def __init__(self, host: PacedHost) -> None:
        self._host = host
        self._alone: dict[str, float] = {}
        """Lines per second of a guest that nothing slows."""
        self.worst_debt = 0.0

    @contextmanager
    def route(self, cpus: Sequence[int], timer: int, node: int) -> Iterator["GuestBench"]:
        for name in (READERS[0], WRITERS[0]):
            found = self._run({name: MHZ})[name]
            self._alone[name] = found.read_lines_per_s + found.written_lines_per_s
        yield self

    def siblings(self, cpu: int) -> frozenset[int]:
        return frozenset({cpu})

    def measure(self, load: Load, span_s: float) -> Response:
        kind = READERS if load.writeback_ratio == READS else WRITERS
        names = [kind[cpu] for cpu in load.cpus]
        clocks = dict.fromkeys(names, MHZ)
        if load.lines_per_s is not None:
            share = load.lines_per_s / len(names) / self._alone[kind[0]]
            clocks = dict.fromkeys(names, min(max(round(MHZ * share), 1), MHZ))
        found = self._run({**clocks, TIMER: MHZ})
        loaders = [found[name] for name in names]
        return Response(
            sum(one.read_lines_per_s for one in loaders),
            sum(one.written_lines_per_s for one in loaders),
            _latency_s(found[TIMER]),
            "vpmu",
        )

    def _run(self, clocks: Mapping[str, int]) -> dict[str, Measured]:
        self._host.pause()
        for name, mhz in clocks.items():
            self._host.set_mhz(name, mhz)
            self._host.guests[name].domain.resume()
        time.sleep(WARM_S)
        found = self._host.measure(clocks, WINDOW_S)
        self.worst_debt = max(self.worst_debt, *(one.debt_ratio for one in found.values()))
        return found


def _latency_s(timer: Measured) -> float:
    """Its cycles without those of instructions and of hits, by miss."""
    hits = (timer.l2_mpki - timer.mpki) / 1000 * LLC_CYCLES
    return (timer.cpi - CPI - hits) / (timer.mpki / 1000) / (MHZ * 1e6)


def true_latency_ns(lines_per_s: float, own_lines_per_s: float) -> float:
    """Of a miss of the timer, whose own lines load the controller too."""
    utilisation = min((lines_per_s + own_lines_per_s) / CAPACITY_LINES_PER_S, 1.0)
    return LOCAL_CYCLES * (1 + utilisation) * 1e3 / MHZ


def latency_errors(curve: LoadCurve) -> Iterator[float]:
    """Of the points below the limit; shares of the truth."""
    for point in curve.points:
        own_lines_per_s = 1e9 / point.latency_ns
        load = (point.lines_per_s + own_lines_per_s) / CAPACITY_LINES_PER_S
        if load < BELOW_THE_LIMIT:
            yield point.latency_ns / true_latency_ns(point.lines_per_s, own_lines_per_s) - 1


def measure() -> Mapping[str, Any]:
    missing = missing_for_libvirt()
    if missing:
        raise CannotMeasure(missing)
    with tempfile.TemporaryDirectory(prefix="nova-vp-guests-") as folder:
        host = PacedHost(Path(folder), "0+1", PMU)
        try:
            host.start(WORKS)
            for name, guest in host.guests.items():
                guest.place([TIMER_CPU if name == TIMER else LOADER_CPU])
            bench = GuestBench(host)
            found = measured(bench, TOPOLOGY, lambda: 0.0, progress)
        finally:
            host.stop()
    return as_numbers(found, bench.worst_debt)


def as_numbers(found: Capacity, worst_debt: float) -> Mapping[str, Any]:
    off = [abs(error) for curve in found.curves for error in latency_errors(curve)]
    short = [highest_lines_per_s(curve) / CAPACITY_LINES_PER_S - 1 for curve in found.curves]
    return {
        "debt_ratio": round(worst_debt, 4),
        "reads_error": round(short[0], 4),
        "writes_error": round(short[1], 4),
        "bandwidth_error_worst": round(max(map(abs, short)), 4),
        "latency_error_median": round(median(off), 4),
        "latency_error_worst": round(max(off), 4),
        "curves": [
            {"writeback_ratio": c.writeback_ratio, "points": [p._asdict() for p in c.points]}
            for c in found.curves
        ],
    }


def numbers_of(found: Mapping[str, Any]) -> Numbers:
    return {name: value for name, value in found.items() if name != "curves"}


BENCHMARK = Benchmark(
    name="guest_calibration",
    about=__doc__ or "",
    budgets={
        "debt_ratio": fixed(MAX_RATIO),
        "bandwidth_error_worst": fixed(0.15),
        "latency_error_median": fixed(0.05),
    },
    measure=measure,
    numbers_of=numbers_of,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
