# SPDX-License-Identifier: Apache-2.0
"""The four loops of the source (Padala, 2020, chapters 3 and 4), with its constants.

Each goes from what is remembered and seen to what is remembered. All begin with best-effort servers
at their least, once there is one (3.1.2), and look first when their period is over.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nova_vp.core.controllers.latency.declaration import Loop, Watch
from nova_vp.core.controllers.latency.seen import Seen

MAIN_S = (20 * 1000 - 1500) / 1000
"""Of the monitors of CPI (3.1.2) and of latency (3.2)."""
SUB_S = 2.0
"""Of the monitor of CPU (3.1.2), and of the sub-controller (3.3)."""
TOP_S = 15.0
"""Of the top-level controller (3.3)."""
CPI_LEVELS = 20
CYCLES = 7
"""Quiet looks at the CPU before one level more (4.1.3)."""
MARGIN_CORES = 0.5
LATENCY_LEVELS = 50
MOST_LEVEL = 48
HOLD_SLACK = 0.10


def cpi(watch: Watch, seen: Seen) -> Watch:
    watch = _counted(watch, seen)
    if seen.now_s >= watch.main_at_s:
        is_disturbed = watch.cycles > seen.cpi_model.threshold * watch.instructions
        watch = watch._replace(
            main_at_s=next_look_s(watch.main_at_s, MAIN_S, seen.now_s),
            is_blind=not watch.instructions,
            instructions=0.0,
            cycles=0.0,
        )
        if is_disturbed:
            watch = watch._replace(level=0, quiet_cycles=0)
    if seen.now_s >= watch.sub_at_s:
        watch = _looked_at_cpu(watch, seen)
    cores = watch.level * source_step_cores(Loop.CPI, seen)
    return watch._replace(cores=cores, is_unlimited=watch.level >= CPI_LEVELS)


def _counted(watch: Watch, seen: Seen) -> Watch:
    """CPU use needs no counters: the source reads it from the CPU accounting of cgroups."""
    sample = seen.sample
    if sample is not None:
        instructions = sample.instructions_per_s * sample.span_s
        watch = watch._replace(
            instructions=watch.instructions + instructions,
            cycles=watch.cycles + instructions * sample.cpi,
        )
    if seen.own_cores is None or seen.best_effort_cores is None:
        return watch
    return watch._replace(
        cpu_samples=watch.cpu_samples + 1,
        cpu_sum=watch.cpu_sum + seen.own_cores + seen.best_effort_cores,
    )


def _looked_at_cpu(watch: Watch, seen: Seen) -> Watch:
    """Of who could not be measured nothing is said."""
    used_cores = watch.cpu_sum / watch.cpu_samples if watch.cpu_samples else None
    watch = watch._replace(
        sub_at_s=next_look_s(watch.sub_at_s, SUB_S, seen.now_s), cpu_samples=0, cpu_sum=0.0
    )
    if used_cores is None:
        return watch
    if used_cores + MARGIN_CORES > seen.cpi_model.most_cores:
        return watch._replace(level=0, quiet_cycles=0)
    if watch.quiet_cycles + 1 < CYCLES:
        return watch._replace(quiet_cycles=watch.quiet_cycles + 1)
    return watch._replace(quiet_cycles=0, level=min(watch.level + 1, CPI_LEVELS))


def latency(watch: Watch, seen: Seen) -> Watch:
    if seen.now_s < watch.main_at_s:
        return watch
    each = source_step_cores(Loop.LATENCY, seen)
    level = min(watch.level, whole(watch.cores / each))  # A retreat takes cores, and no level.
    level = 0 if seen.slack_ratio <= 0 else min(level + 1, MOST_LEVEL)
    return watch._replace(
        main_at_s=next_look_s(watch.main_at_s, MAIN_S, seen.now_s),
        level=level,
        cores=level * each,
    )


def whole(levels: float) -> int:
    """What is all but one more is one more."""
    return math.floor(levels + 1e-9)


@dataclass(frozen=True, slots=True)
class Hybrid:
    """What differs between the two (3.3, 3.3.1)."""

    suspend_load: float
    enable_load: float
    cool_down_s: float
    steps: int | None
    """Each is so small a part of all CPUs; None: one CPU."""

    def __call__(self, watch: Watch, seen: Seen) -> Watch:
        if seen.now_s >= watch.main_at_s:
            main_at_s = next_look_s(watch.main_at_s, TOP_S, seen.now_s)
            watch = watch._replace(main_at_s=main_at_s)
            if seen.now_s >= watch.cool_until_s:
                watch = self._looked(watch, seen)
        if seen.now_s >= watch.sub_at_s:
            watch = watch._replace(sub_at_s=next_look_s(watch.sub_at_s, SUB_S, seen.now_s))
            if watch.is_growing:
                cores = watch.cores + self.step_cores(seen)
                watch = watch._replace(cores=min(cores, float(seen.machine_cpus)))
        return watch._replace(is_suspended=watch.is_suspended or seen.now_s < watch.cool_until_s)

    def step_cores(self, seen: Seen) -> float:
        return 1.0 if self.steps is None else seen.machine_cpus / self.steps

    def _looked(self, watch: Watch, seen: Seen) -> Watch:
        """Listing 3.1; where it tests `slack < 0.80`, the text says that load is below 80 %. Of a
        load that nobody reports nothing is known: it enables nobody."""
        if seen.slack_ratio < 0:
            until_s = seen.now_s + self.cool_down_s
            return _suspended(watch)._replace(cool_until_s=until_s)
        if seen.load_ratio is None or seen.load_ratio > self.suspend_load:
            return _suspended(watch)
        is_enabled = watch.is_enabled or seen.load_ratio < self.enable_load
        if not is_enabled:
            return _suspended(watch)
        is_growing = seen.slack_ratio > HOLD_SLACK
        return watch._replace(is_enabled=True, is_suspended=False, is_growing=is_growing)


def _suspended(watch: Watch) -> Watch:
    """Who is enabled again begins at the least."""
    return watch._replace(is_enabled=False, is_suspended=True, is_growing=False, cores=0.0)


hybrid = Hybrid(suspend_load=0.85, enable_load=0.80, cool_down_s=300.0, steps=None)
hybrid_tuned = Hybrid(suspend_load=0.95, enable_load=0.90, cool_down_s=180.0, steps=50)

SOURCE_LOOPS: Mapping[Loop, Callable[[Watch, Seen], Watch]] = {
    Loop.CPI: cpi,
    Loop.LATENCY: latency,
    Loop.HYBRID: hybrid,
    Loop.HYBRID_TUNED: hybrid_tuned,
}


def source_step_cores(loop: Loop, seen: Seen) -> float:
    """By so much one of the source's loops goes up at once."""
    if loop is Loop.CPI:
        return seen.cpi_model.most_cores / CPI_LEVELS
    if loop is Loop.LATENCY:
        return seen.machine_cpus / LATENCY_LEVELS
    return (hybrid if loop is Loop.HYBRID else hybrid_tuned).step_cores(seen)


FIRST_LOOK_S: Mapping[Loop, tuple[float, float]] = {
    Loop.ADAPTIVE: (MAIN_S, SUB_S),
    Loop.CPI: (MAIN_S, SUB_S),
    Loop.LATENCY: (MAIN_S, SUB_S),
    Loop.HYBRID: (TOP_S, SUB_S),
    Loop.HYBRID_TUNED: (TOP_S, SUB_S),
}


def next_look_s(due_s: float, period_s: float, now_s: float) -> float:
    """A period that is no whole number of ticks is kept on average; what was missed is not made up
    for."""
    return due_s + period_s if now_s < due_s + period_s else now_s + period_s


def begun(watch: Watch, loop: Loop, now_s: float) -> Watch:
    """Best-effort servers at their least, its looks due one period from now, nothing counted."""
    main_s, sub_s = FIRST_LOOK_S[loop]
    return watch._replace(
        loop=loop,
        cores=0.0,
        is_unlimited=False,
        is_suspended=False,
        level=0,
        is_growing=False,
        is_enabled=False,
        worst_ms=0.0,
        main_at_s=now_s + main_s,
        sub_at_s=now_s + sub_s,
        quiet_cycles=0,
        instructions=0.0,
        cycles=0.0,
        is_blind=False,
        cpu_samples=0,
        cpu_sum=0.0,
    )
