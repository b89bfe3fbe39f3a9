# SPDX-License-Identifier: Apache-2.0
"""A memory whose truth is known, behind the seam of the calibration procedure."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from nova_vp.core.types.topology import Topology
from vp_agent.calibration.load import Load, Response

GB = 1e9
LINE_BYTES = 64
CPU_BYTES_PER_S = 10 * GB
LOCAL_S = 1e-7
FULLEST = 0.95
"""Nobody gets more of a controller than this."""


class ModelledMemory:
    """A CPU moves 10 GB/s until the controller, or the link, is full. A miss waits as in M/D/1."""

    def __init__(
        self,
        topology: Topology,
        controllers: Mapping[int, float],
        link: float = 20 * GB,
        remote: float = 1.6,
        step_s: float = 1.0,
        counted_by: str = "",
        siblings: Mapping[int, frozenset[int]] | None = None,
    ) -> None:
        self.node_of = {cpu: d.node for d in topology.domains for cpu in d.cpus}
        self._controllers, self._link, self._remote = controllers, link, remote
        self._step_s = step_s
        self._counted_by = counted_by
        self._siblings = siblings or {}
        self.now_s = 0.0
        self.loads: list[tuple[int, int, Load]] = []
        """(node of the CPUs, node of the memory, what was asked)."""
        self.timers: list[int] = []

    def clock(self) -> float:
        return self.now_s

    def siblings(self, cpu: int) -> frozenset[int]:
        return self._siblings.get(cpu, frozenset({cpu}))

    @contextmanager
    def route(self, cpus: Sequence[int], timer: int, node: int) -> Iterator["_Route"]:
        self.timers.append(timer)
        yield _Route(self, frozenset(cpus), timer, node)

    def most_bytes_per_s(self, here: int, node: int) -> float:
        most = self._controllers[node]
        return most if here == node else min(self._link, most)

    def latency_s(self, here: int, node: int, load_ratio: float) -> float:
        idle_s = LOCAL_S * (1 if here == node else self._remote)
        return idle_s * (1 + load_ratio / (2 * (1 - load_ratio)))

    def answer(self, here: int, node: int, load: Load) -> Response:
        self.now_s += self._step_s
        self.loads.append((here, node, load))
        most = self.most_bytes_per_s(here, node)
        asked = CPU_BYTES_PER_S * len(load.cpus)
        if load.lines_per_s is not None:
            asked = min(asked, load.lines_per_s * LINE_BYTES)
        moved = min(asked, most)
        read = moved / LINE_BYTES / (1 + load.writeback_ratio)
        return Response(
            read,
            read * load.writeback_ratio,
            self.latency_s(here, node, min(moved / most, FULLEST)),
            self._counted_by,
        )


class _Route:
    def __init__(self, memory: ModelledMemory, cpus: frozenset[int], timer: int, node: int) -> None:
        self._memory = memory
        self._cpus = cpus
        self._here = memory.node_of[timer]
        self._timer = timer
        self._node = node

    def measure(self, load: Load, span_s: float) -> Response:
        assert set(load.cpus) <= self._cpus - {self._timer}
        return self._memory.answer(self._here, self._node, load)
