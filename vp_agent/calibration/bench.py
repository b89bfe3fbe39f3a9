# SPDX-License-Identifier: Apache-2.0
"""Loading this host's memory and timing it: the processes of `bench_worker.py`, and what sysfs says
of caches and free memory. What the numbers mean is for `capacity`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nova_vp.cpuset import parse_cpus
from vp_agent.calibration import bench_worker
from vp_agent.calibration.bench_worker import LOAD, TIME
from vp_agent.calibration.load import BenchFailed, Load, Response
from vp_agent.calibration.writebacks import NoCounter, WritebackCounter
from vp_agent.drivers.numa_nodes import Nodes

SYSFS = Path("/sys/devices/system")
ANY_NODE = -1
_UNKNOWN_LLC_BYTES = 64 << 20
_LEAST_BUFFER_BYTES = 32 << 20
_MOST_CHAIN_BYTES = 256 << 20
_BEYOND_THE_CACHE = 4
_LEAST_SEEN_RATIO = 0.2
"""A counter that saw less than this of what was written does not count write-backs."""


class HostBench:
    """This host. `binds`: whether memory is bound to nodes; where there is one it need not be."""

    def __init__(
        self, binds: bool, sysfs: Path = SYSFS, counter: WritebackCounter | None = None
    ) -> None:
        self._binds = binds
        self._sysfs = sysfs
        self._counter = counter or NoCounter()

    @contextmanager
    def route(self, cpus: Sequence[int], timer: int, node: int) -> Iterator["_HostRoute"]:
        where = node if self._binds else ANY_NODE
        sizes = self._buffer_bytes(cpus, node)
        wanted = min(_BEYOND_THE_CACHE * self._llc(timer)[0], _MOST_CHAIN_BYTES)
        chain = 1 << min(wanted - 1, self._spare_bytes(node) >> 1).bit_length()
        with ExitStack() as stack:
            loaders = {c: stack.enter_context(_Worker(LOAD, c, where, sizes[c])) for c in cpus}
            timing = stack.enter_context(_Worker(TIME, timer, where, chain))
            for worker in (*loaders.values(), timing):
                worker.wait_until_ready()
            yield _HostRoute(loaders, timing, node, self._counter)

    def siblings(self, cpu: int) -> frozenset[int]:
        try:
            text = (self._sysfs / f"cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            return frozenset({cpu})
        return parse_cpus(text)

    def _buffer_bytes(self, cpus: Sequence[int], node: int) -> Mapping[int, int]:
        """By CPU: together far more than the caches hold, and no more than the node can spare."""
        sizes = {}
        for cpu in cpus:
            llc_bytes, sharers = self._llc(cpu)
            busy = len(sharers.intersection(cpus)) or len(cpus)
            sizes[cpu] = max(_LEAST_BUFFER_BYTES, _BEYOND_THE_CACHE * llc_bytes // busy)
        spare = self._spare_bytes(node)
        if sum(sizes.values()) > spare:
            raise BenchFailed(
                f"half of the free memory of node {node} ({spare >> 20} MiB) is too small: "
                f"{len(cpus)} CPUs need {sum(sizes.values()) >> 20} MiB to exceed their caches. "
                "Free memory, then calibrate again"
            )
        return sizes

    def _llc(self, cpu: int) -> tuple[int, frozenset[int]]:
        """Size of its last-level cache, and who shares it."""
        found = {}
        for index in (self._sysfs / f"cpu/cpu{cpu}/cache").glob("index*"):
            try:
                level = int((index / "level").read_text())
                kib = int((index / "size").read_text().strip().removesuffix("K"))
                found[level] = kib << 10, parse_cpus((index / "shared_cpu_list").read_text())
            except (OSError, ValueError):
                continue
        return found[max(found)] if found else (_UNKNOWN_LLC_BYTES, frozenset())

    def _spare_bytes(self, node: int) -> int:
        """What may be filled without pressing anybody."""
        try:
            free = Nodes(self._sysfs / "node").spare_kib(node) << 10
        except (OSError, KeyError, ValueError):
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return max(0, free) // 2


class _HostRoute:
    """Processes that wait for loads. Nothing is written where no counter sees it."""

    def __init__(
        self,
        loaders: Mapping[int, "_Worker"],
        timing: "_Worker",
        node: int,
        counter: WritebackCounter,
    ) -> None:
        self._loaders = loaders
        self._timing = timing
        self._node = node
        self._counter = counter

    def measure(self, load: Load, span_s: float) -> Response:
        loaders = [self._loaders[cpu] for cpu in load.cpus]
        each = (load.lines_per_s or 0.0) / max(len(loaders), 1)
        before = self._count()
        for loader in loaders:
            loader.ask(load.writeback_ratio, each, span_s)
        self._timing.ask(span_s)
        [latency_s] = self._timing.answer()
        rates = [loader.answer() for loader in loaders]
        counted = (self._count() - before) / span_s
        read, written = (sum(column) for column in zip((0.0, 0.0), *rates, strict=True))
        return self._judged(Response(read, written, max(latency_s, 0.0)), counted)

    def _count(self) -> float:
        try:
            return self._counter.lines(self._node)
        except OSError as exc:
            raise BenchFailed(f"the counter {self._counter.name} failed: {exc}") from exc

    def _judged(self, response: Response, counted: float) -> Response:
        """With the lines that were counted, if the counter sees those that are written back."""
        if self._counter.counts_reads:
            counted -= response.read_lines_per_s
        estimate = response.written_lines_per_s
        if not self._counter.name or counted < _LEAST_SEEN_RATIO * estimate:
            return response
        return response._replace(written_lines_per_s=counted, counted_by=self._counter.name)


class _Worker:
    """One process of `bench_worker.py`, gone when it is left."""

    def __init__(self, what: str, cpu: int, node: int, size_bytes: int) -> None:
        words = (what, os.getpid(), cpu, node, size_bytes)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", bench_worker.__file__, *map(str, words)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_until_ready(self) -> None:
        """Raises BenchFailed with what it said instead."""
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            _, said = self._process.communicate()
            last = (said.strip().splitlines() or ["out of memory?"])[-1]
            raise BenchFailed(f"memory cannot be measured on this host: {last}")

    def ask(self, *numbers: float) -> None:
        assert self._process.stdin
        try:
            print(*numbers, file=self._process.stdin, flush=True)
        except BrokenPipeError as exc:
            raise BenchFailed(_ENDED_EARLY) from exc

    def answer(self) -> tuple[float, ...]:
        """Raises BenchFailed."""
        assert self._process.stdout
        numbers = tuple(map(float, self._process.stdout.readline().split()))
        if not numbers:
            raise BenchFailed(_ENDED_EARLY)
        return numbers


_ENDED_EARLY = "a process that loads memory ended early (out of memory?): calibrate again"
