# SPDX-License-Identifier: Apache-2.0
"""The CPU weight of a server in terms of what Nova gave it: the host's units differ."""

from typing import TypeVar, cast

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    WEIGHT_RANGES,
    Applied,
    CpuWeight,
    EmulatorWeight,
    Knob,
)

Weight = TypeVar("Weight", CpuWeight, EmulatorWeight)


def times_given(guest: Guest, applied: Applied | None, times: float) -> CpuWeight:
    """So many times what Nova gave it. NO_CPU_WEIGHT where its weight is not known: there is
    nothing to multiply, and nothing to set."""
    held = applied.of(Knob.CPU_WEIGHT) if applied else None
    given = cast(CpuWeight, held.original) if held else guest.cpu_weight
    return NO_CPU_WEIGHT if given == NO_CPU_WEIGHT else multiplied(given, times)


def multiplied(given: Weight, times: float) -> Weight:
    """As near as its host's range has that."""
    bounds = WEIGHT_RANGES[given.unit]
    return given._replace(number=max(bounds.least, min(bounds.most, round(given.number * times))))
