# SPDX-License-Identifier: Apache-2.0
"""The seam between the calibration procedure and the memory that it measures.

`bench.HostBench` is this host; the simulator and the tests have modelled ones. All rates are in
cache lines per second.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from vp_agent.drivers.base import DriverError

READS = 0.0
MIXED = 0.5
"""Lines written back per line read. One for two is the usual second mix of tools that measure
loaded latency (Intel's Memory Latency Checker, -W2), and near that of STREAM (0.4)."""


class BenchFailed(DriverError):
    """The host's memory could not be measured. The message says why."""


class Load(NamedTuple):
    """What reads and writes memory while its latency is measured."""

    cpus: tuple[int, ...]
    """None of them: the memory is idle."""
    writeback_ratio: float
    lines_per_s: float | None = None
    """Read and written back, by all of them together; None: as many as they can."""


class Response(NamedTuple):
    """What the memory did under a load."""

    read_lines_per_s: float
    written_lines_per_s: float
    latency_s: float
    """Of one access of the CPU that measures."""
    counted_by: str = ""
    """Which counter saw the lines written back; empty: they are estimated."""

    @property
    def lines_per_s(self) -> float:
        return self.read_lines_per_s + self.written_lines_per_s


class Route(Protocol):
    """From some CPUs of one node to the memory of one node."""

    def measure(self, load: Load, span_s: float) -> Response:
        """Raises BenchFailed."""


class Bench(Protocol):
    def route(self, cpus: Sequence[int], timer: int, node: int) -> AbstractContextManager[Route]:
        """`cpus` can load memory of that node, and `timer` measures its latency meanwhile, until
        the route is left. Raises BenchFailed."""

    def siblings(self, cpu: int) -> frozenset[int]:
        """CPUs of the same core, itself included."""
