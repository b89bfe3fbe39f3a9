# SPDX-License-Identifier: Apache-2.0
"""What the simulator has to know of an application, from runs of it alone.

Alone with less and less of the cache it shows its miss-rate curve, and with memory farther away how
much of a miss it waits for. Nothing that was measured beside others comes in here. The machine's
figures are those that the software PMU is configured with.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.bench.paced_guests import Measured
from vp_agent.calibration.bench_worker import LINE_BYTES

MHZ, LLC_CYCLES, LOCAL_CYCLES, REMOTE_CYCLES = 60.0, 40.0, 200.0, 280.0
"""The software PMU's defaults."""
KIB = 1024
NODE_MIB = 4096.0
SPEEDUP = 20.0
"""The machine is told as one so many times as fast, within what a mix's file allows: of shares of
speed nothing changes."""
NARROWEST = 0.05
"""Difference of miss ratios over the sizes that makes a curve; less is no use of the cache."""
MOST_PARALLEL = 32.0
LEAST_MPKI = 1.0
LEAST_ODDS = 0.01
"""Beyond it a measured share is as good as all or nothing."""


class Alone(NamedTuple):
    """One application alone under one condition."""

    llc_mib: float
    memory_cycles: float
    """Latency of its memory, idle."""
    found: Measured

    @property
    def miss_ratio(self) -> float:
        return min(self.found.mpki / self.found.l2_mpki, 1.0) if self.found.l2_mpki else 0.0


class Curve(NamedTuple):
    """As the simulator writes a miss-rate curve that starts at 1 with no cache at all."""

    least_ratio: float
    half_mib: float
    steepness: float


def name_of(work: str) -> str:
    """As a mix's file may have it."""
    return work.replace(":", "-")


def row(name: str, runs: Sequence[Alone], lines_per_s: float) -> dict[str, Any]:
    """An entry of a mix's file."""
    curve = curve_of(runs)
    base_cpi, parallel = cycles_of(runs, lines_per_s)
    return {
        "app": "stream",
        "name": name_of(name),
        "vcpus": 1,
        "memory_mib": 96.0,
        "footprint_mib": 96.0,
        "base_cpi": base_cpi,
        "l1_mpki": _mean(run.found.l2_mpki for run in runs),
        "l2_mpki": _mean(run.found.l2_mpki for run in runs),
        "full_ratio": 1.0,
        "least_ratio": curve.least_ratio,
        "half_mib": curve.half_mib,
        "steepness": curve.steepness,
        "hit_exposure": 1.0,
        "parallel_misses": parallel,
        "writeback_ratio": 0.0,
        "busy_ratio": 1.0,
    }


def machine(lines_per_s: float, llc_mib: float) -> dict[str, float]:
    """The modelled host. The software PMU's controller has no rows, and as many lines under way as
    fit into a miss's latency."""
    mhz, lines_per_s = MHZ * SPEEDUP, lines_per_s * SPEEDUP
    local_ns = 1000 * LOCAL_CYCLES / mhz
    return {
        "nodes": 1,
        "domains_per_node": 2,
        "cores_per_domain": 4,
        "clock_ghz": mhz / 1000,
        "llc_mib": llc_mib,
        "llc_cycles": LLC_CYCLES,
        "node_mib": NODE_MIB,
        "local_ns": local_ns,
        "remote_ns": 1000 * REMOTE_CYCLES / mhz,
        "node_gbps": lines_per_s * LINE_BYTES / 1e9,
        "node_channels": local_ns * lines_per_s / 1e9,
        "row_conflict_ratio": 0,
        "row_conflict_ns": 0,
    }


def curve_of(runs: Sequence[Alone]) -> Curve:
    """Through the two sizes between which half of what the cache can save is won."""
    by_size = sorted({run.llc_mib: run.miss_ratio for run in runs}.items())
    ratios = [ratio for _, ratio in by_size]
    least = min(ratios)
    if max(ratios) - least < NARROWEST:
        return Curve(min(_mean(ratios), 1.0), by_size[-1][0], 1.0)
    odds = [(size, _odds((ratio - least) / (1 - least))) for size, ratio in by_size]
    last = next((at for at, (_, won) in enumerate(odds) if won > 1), len(odds) - 1)
    (low, few), (high, many) = odds[max(last, 1) - 1], odds[max(last, 1)]
    steepness = math.log(many / few) / math.log(high / low)
    return Curve(least, low / few ** (1 / steepness), steepness)


def _odds(lost: float) -> float:
    """What the cache saves over what it does not."""
    return min(max((1 - lost) / max(lost, LEAST_ODDS), LEAST_ODDS), 1 / LEAST_ODDS)


def cycles_of(runs: Sequence[Alone], lines_per_s: float) -> tuple[float, float]:
    """(cycles per instruction without the LLC and memory, misses under way at a time): a line
    through what is left of each run's cycles once LLC hits are taken out. Of who misses even with
    all of the LLC, with all of it: what else it misses in less may overlap otherwise. The software
    PMU's latency grows with the load by as much again, up to its controller's limit."""
    whole = [run for run in runs if run.llc_mib == max(one.llc_mib for one in runs)]
    always_misses = min(run.found.mpki for run in whole) >= LEAST_MPKI
    points = []
    for run in whole if always_misses else runs:
        found = run.found
        load = found.mips * found.mpki * 1000 / lines_per_s
        latency = run.memory_cycles * (1 + min(load, 1.0))
        hits = (found.l2_mpki - found.mpki) / 1000 * LLC_CYCLES
        points.append((found.mpki / 1000 * latency, found.cpi - hits))
    mean_x, mean_y = _mean(x for x, _ in points), _mean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread < 1e-4:
        return mean_y, 1.0
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    slope = min(max(slope, 1 / MOST_PARALLEL), 1.0)
    return mean_y - slope * mean_x, 1 / slope


def mix_file(
    name: str, rows: Mapping[str, Sequence[Alone]], lines_per_s: float, llc_mib: float
) -> dict[str, Any]:
    return {
        "name": name,
        "memory": "local",
        "machine": machine(lines_per_s, llc_mib),
        "applications": [row(name, runs, lines_per_s) for name, runs in rows.items()],
    }


def _mean(values: Any) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
