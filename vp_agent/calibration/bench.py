# SPDX-License-Identifier: Apache-2.0
"""Loading this host's memory and timing it: the processes of `bench_worker.py`, and what sysfs says
of caches and free memory. What the numbers mean is for `capacity`.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from nova_vp.cpuset import parse_cpus
from vp_agent.calibration import bench_worker
from vp_agent.drivers.base import DriverError
from vp_agent.drivers.numa_nodes import Nodes

SYSFS = Path("/sys/devices/system")
ANY_NODE = -1
_UNKNOWN_LLC_BYTES = 64 << 20
_LEAST_BUFFER_BYTES = 32 << 20
_MOST_CHAIN_BYTES = 256 << 20
_BEYOND_THE_CACHE = 4


class BenchFailed(DriverError):
    """The host's memory could not be measured. The message says why."""


class Bench(Protocol):
    """What `capacity` measures with; the tests' second implementation models a host."""

    def read_bytes_per_s(self, cpus: Sequence[int], node: int, span_s: float) -> float:
        """All CPUs at once read memory of that node that no cache holds. Raises BenchFailed."""

    def latency_s(self, cpu: int, node: int, span_s: float) -> float:
        """Of one access to that memory. Raises BenchFailed."""


class HostBench:
    """This host. `binds`: whether memory is bound to nodes; where there is one it need not be."""

    def __init__(self, binds: bool, sysfs: Path = SYSFS) -> None:
        self._binds = binds
        self._sysfs = sysfs

    def read_bytes_per_s(self, cpus: Sequence[int], node: int, span_s: float) -> float:
        sizes = self._buffer_bytes(cpus, node)
        return sum(self._run([("read", c, node, sizes[c], span_s) for c in cpus]))

    def latency_s(self, cpu: int, node: int, span_s: float) -> float:
        wanted = min(_BEYOND_THE_CACHE * self._llc(cpu)[0], _MOST_CHAIN_BYTES)
        size = 1 << min(wanted - 1, self._spare_bytes(node) >> 1).bit_length()
        return sum(self._run([("hop", cpu, node, size, span_s)]))

    def _run(self, commands: Iterable[tuple[str, int, int, int, float]]) -> list[float]:
        """All at once, and none before all are ready. Raises BenchFailed."""
        with ExitStack() as stack:
            workers = []
            for what, cpu, node, size_bytes, span_s in commands:
                where = node if self._binds else ANY_NODE
                words = [what, str(cpu), str(where), str(size_bytes), str(span_s)]
                workers.append(stack.enter_context(_Worker(words)))
            for worker in workers:
                worker.wait_until_ready()
            for worker in workers:
                worker.go()
            return [worker.answer() for worker in workers]

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
                f"a quarter of the free memory of node {node} ({spare >> 20} MiB) is too small: "
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
        return max(0, free) // 4


class _Worker:
    """One process of `bench_worker.py`, gone when it is left."""

    def __init__(self, words: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", bench_worker.__file__, *words],
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

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> float:
        """Raises BenchFailed."""
        assert self._process.stdout
        try:
            return float(self._process.stdout.readline())
        except ValueError as exc:
            raise BenchFailed(
                "a process that loads memory ended early (out of memory?): calibrate again"
            ) from exc
