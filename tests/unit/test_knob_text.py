# SPDX-License-Identifier: Apache-2.0
"""Every knob's value has a short text."""

import pytest

from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_EMULATOR_WEIGHT,
    NO_MEMORY_SIZE,
    NO_QUOTA,
    CpuWeight,
    EmulatorWeight,
    Knob,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
    Value,
    WeightUnit,
)
from vp_agent.format import LONGEST, cpu_list, knob_text

LOW, HIGH = frozenset({0, 1}), frozenset({2, 3})


@pytest.mark.parametrize(
    ("knob", "value", "text"),
    [
        (Knob.PLACEMENT, (LOW,), "0-1"),
        (Knob.PLACEMENT, (LOW, LOW), "0-1"),
        (Knob.PLACEMENT, (LOW, HIGH, LOW), "vCPU 0,2: 0-1, vCPU 1: 2-3"),
        (Knob.PLACEMENT, (), ""),
        (Knob.CPU_CAP, NO_QUOTA, "none"),
        (Knob.CPU_CAP, Quota(45_000, 100_000), "45 % of each vCPU"),
        (Knob.CPU_CAP, Quota(12_500, 100_000), "12.5 % of each vCPU"),
        (Knob.CPU_WEIGHT, CpuWeight(400), "400 (default 100)"),
        (Knob.CPU_WEIGHT, CpuWeight(400, WeightUnit.SHARES), "400 (default 1024)"),
        (Knob.CPU_WEIGHT, NO_CPU_WEIGHT, "unknown"),
        (Knob.MEMORY, ((0, 1.0),), "node 0 100 %"),
        (Knob.MEMORY, ((0, 0.6), (2, 0.4)), "node 0 60 %, node 2 40 %"),
        (Knob.MEMORY, (), "unknown"),
        (Knob.LLC, LlcShare(), "none"),
        (Knob.LLC, LlcShare(0.5), "50 % of the cache"),
        (Knob.MEMBW, MembwShare(), "none"),
        (Knob.MEMBW, MembwShare(0.3), "30 % of the memory bandwidth"),
        (Knob.MEMORY_SIZE, MemorySize(786_432), "768 MiB"),
        (Knob.MEMORY_SIZE, NO_MEMORY_SIZE, "unknown"),
        (Knob.EMULATOR_WEIGHT, EmulatorWeight(50), "50 (default 100)"),
        (Knob.EMULATOR_WEIGHT, NO_EMULATOR_WEIGHT, "unknown"),
    ],
)
def test_knob_text(knob: Knob, value: Value, text: str) -> None:
    assert knob_text(knob, value) == text


@pytest.mark.parametrize("knob", Knob)
def test_every_knob_has_text(knob: Knob) -> None:
    values: dict[Knob, Value] = {
        Knob.PLACEMENT: (LOW,),
        Knob.CPU_CAP: NO_QUOTA,
        Knob.CPU_WEIGHT: NO_CPU_WEIGHT,
        Knob.MEMORY: ((0, 1.0),),
        Knob.LLC: LlcShare(),
        Knob.MEMBW: MembwShare(),
        Knob.MEMORY_SIZE: MemorySize(1024),
        Knob.EMULATOR_WEIGHT: EmulatorWeight(100),
    }
    assert knob_text(knob, values[knob])


def test_what_is_too_long_is_cut_at_a_comma() -> None:
    scattered = frozenset(range(0, 1000, 2))
    for text in (cpu_list(scattered), knob_text(Knob.PLACEMENT, (scattered,))):
        assert len(text) <= LONGEST
        assert text.endswith("…")
        assert not text.removesuffix("…").endswith(",")
