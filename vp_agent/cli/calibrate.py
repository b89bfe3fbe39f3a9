# SPDX-License-Identifier: Apache-2.0
"""The command `vp-agent calibrate`: whether it may run now, what it runs, and how it is told.

What is measured and what it means lives in `capacity`; keeping it is for `state`.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from vp_agent.calibration.bench import HostBench
from vp_agent.calibration.capacity import (
    KNEE_RATIO,
    CannotCalibrate,
    Capacity,
    KnowsCapacity,
    measured,
    modelled,
)
from vp_agent.drivers.base import CountersDriver, GuestsDriver
from vp_agent.format import limits_line
from vp_agent.loop.state import Calibration

MEASURED = "measured"
MAX_NAMES = 5


@dataclass(frozen=True, slots=True)
class Calibrated:
    record: Calibration
    lines: tuple[str, ...]
    """For people."""


def run(
    source: CountersDriver, guests: GuestsDriver, tell: Callable[[str], None], is_forced: bool
) -> Calibrated:
    """Raises CannotCalibrate, BenchFailed, HostUnavailable."""
    if isinstance(source, KnowsCapacity):
        return _told(modelled(source), source.name)
    if not is_forced:
        _check_idle(guests)
    topology = guests.topology()
    bench = HostBench(binds=len(topology.nodes) > 1)
    return _told(measured(bench, topology, time.monotonic, tell), MEASURED)


def _check_idle(guests: GuestsDriver) -> None:
    running = [guest.name or guest.domain_name for guest in guests.read() if guest.is_running]
    if running:
        names = ", ".join(running[:MAX_NAMES]) + (" ..." if len(running) > MAX_NAMES else "")
        raise CannotCalibrate(
            f"{len(running)} servers run on this host ({names}). Calibration loads all memory "
            "controllers for half a minute: it slows these servers, and they distort the result. "
            "Calibrate an empty host, or use --force"
        )


def _told(capacity: Capacity, how: str) -> Calibrated:
    record = Calibration(capacity.limits, time.time(), how)
    flat_out = f"{capacity.node_lines_per_s / 1e6:.1f} M lines/s"
    lines = (
        limits_line(asdict(record.limits)),
        f"the limit of a node is {KNEE_RATIO:.0%} of its highest measured rate, {flat_out}",
        *capacity.notes,
    )
    return Calibrated(record, lines)
