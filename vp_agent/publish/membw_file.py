# SPDX-License-Identifier: Apache-2.0
"""How much memory traffic the host's servers cause, told to other programs of this host.

A mean over about the last half minute, since who reads it looks once a minute and one second is not
a habit. Only ticks in which every running server was counted are in it. Nothing here decides.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from nova_vp.core.types.decision import Decision
from nova_vp.core.types.sample import Incomplete
from nova_vp.service.run_dir import Load, NodeLoad, boot_clock_s, forget_load, write_load
from vp_agent.calibration.bench_worker import LINE_BYTES

LOG = logging.getLogger(__name__)
MEAN_S = 20.0
TELL_EVERY_S = 5.0
NO_COUNTERS = "none"
_CAUSE_NONE = frozenset({None, Incomplete.IDLE, Incomplete.STOPPED})
"""Of a server that does nothing it is known what traffic it causes."""


class MembwFile:
    def __init__(
        self, folder: Path, source: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._source = source
        self._clock = clock
        self._mean: dict[int, float] = {}
        self._limits: Mapping[int, float | None] = {}
        self._counted_at_s: float | None = None
        """Of the last tick that is in the mean, by `clock`."""
        self._told_at_s = -math.inf
        self._is_failing = False

    def tell(self, decision: Decision | None) -> None:
        """Called after every tick with the latest decision there is; never raises."""
        if decision is not None and decision.at_s != self._counted_at_s and _is_whole(decision):
            self._count(decision)
        now_s = self._clock()
        if now_s - self._told_at_s >= TELL_EVERY_S:
            self._told_at_s = now_s
            self._write(self._load(now_s))

    def forget(self) -> None:
        """The agent ends: nobody need wait until the numbers are stale."""
        forget_load(self._folder)

    def _count(self, decision: Decision) -> None:
        last_s, self._counted_at_s = self._counted_at_s, decision.at_s
        weight = 1.0 if last_s is None else 1.0 - math.exp((last_s - decision.at_s) / MEAN_S)
        for view in decision.nodes:
            before = self._mean.get(view.node, view.misses_per_s)
            self._mean[view.node] = before + weight * (view.misses_per_s - before)
        self._limits = {view.node: view.limit_misses_per_s for view in decision.nodes}

    def _load(self, now_s: float) -> Load | None:
        if self._source == NO_COUNTERS:
            problem = "no counter source works on this host; see `vp-agent status`"
            return Load(boot_clock_s(), self._source, problem, ())
        if self._counted_at_s is None:
            return None
        nodes = tuple(
            NodeLoad(node, LINE_BYTES * self._mean[node], limit and LINE_BYTES * limit)
            for node, limit in self._limits.items()
        )
        return Load(boot_clock_s() - (now_s - self._counted_at_s), self._source, "", nodes)

    def _write(self, load: Load | None) -> None:
        try:
            if load is not None:
                write_load(self._folder, load)
            self._is_failing = False
        except OSError as exc:
            if not self._is_failing:
                LOG.warning("the memory load is not published to nova-compute: %s", exc)
            self._is_failing = True


def _is_whole(decision: Decision) -> bool:
    return all(view.incomplete in _CAUSE_NONE for view in decision.vps)
