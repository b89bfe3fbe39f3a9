# SPDX-License-Identifier: Apache-2.0
"""The state of a VP of several servers, from their counters together: one answer for all who tell.

Its counters are the sums of its servers': what a VP does is what they do together, wherever they
run. A report has rates per instruction; how many instructions each server runs follows from the
CPU that it uses and its cycles for each, with all CPUs taken to be as fast as each other. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nova_vp.core.model.states import state_seen
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import State

METRICS = ("cpu_cores", "cpi", "l2_mpki", "mpki", "memory_factor", "misses_per_s")


class Combined(NamedTuple):
    """All servers of one VP that are measured now."""

    state: State
    servers: int
    cpu_cores: float
    cpi: float
    l2_mpki: float
    mpki: float
    memory_factor: float
    misses_per_s: float

    @property
    def metrics(self) -> dict[str, float]:
        return {name: round(getattr(self, name), 6) for name in METRICS}


def combined(metrics: Iterable[Mapping[str, Any] | None]) -> Combined | None:
    """Of its servers' `metrics`, as reports have them; None: nobody is measured or works."""
    working = [one for one in metrics if one and one["cpi"] > 0 and one["cpu_cores"] > 0]
    if not working:
        return None
    # In instructions per cycle of one CPU.
    instructions = [float(one["cpu_cores"]) / float(one["cpi"]) for one in working]
    whole = sum(instructions)

    def mean(name: str) -> float:
        weighted = zip(working, instructions, strict=True)
        return sum(float(one[name]) * weight for one, weight in weighted) / whole

    mpki, l2_mpki = mean("mpki"), mean("l2_mpki")
    memory_factor = min(mpki / l2_mpki, 1.0) if l2_mpki else 0.0
    cpu_cores = sum(float(one["cpu_cores"]) for one in working)
    return Combined(
        state=state_seen(mpki, l2_mpki, memory_factor, None, Policy()),
        servers=len(working),
        cpu_cores=cpu_cores,
        cpi=cpu_cores / whole,
        l2_mpki=l2_mpki,
        mpki=mpki,
        memory_factor=memory_factor,
        misses_per_s=sum(float(one["misses_per_s"]) for one in working),
    )
