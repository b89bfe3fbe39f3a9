# SPDX-License-Identifier: Apache-2.0
"""What was turned reads back as that, whichever knob it is, and nothing else changes."""

import pytest

from nova_vp.core.model.limits import value_now
from nova_vp.core.model.turned import turned
from nova_vp.core.types.knob import (
    CpuWeight,
    EmulatorWeight,
    Knob,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
)
from tests.decisions import a_guest

APART = (frozenset({0}), frozenset({1}))
VALUES = [
    (Knob.PLACEMENT, (frozenset({2, 3}),)),
    (Knob.PLACEMENT, APART),
    (Knob.CPU_CAP, Quota(20_000, 50_000)),
    (Knob.CPU_WEIGHT, CpuWeight(300)),
    (Knob.MEMORY, ((0, 0.25), (1, 0.75))),
    (Knob.LLC, LlcShare(0.5)),
    (Knob.MEMBW, MembwShare(0.3)),
    (Knob.MEMORY_SIZE, MemorySize(4096)),
    (Knob.EMULATOR_WEIGHT, EmulatorWeight(200)),
]


@pytest.mark.parametrize(("knob", "value"), VALUES)
def test_a_turned_knob_reads_back(knob, value):
    before = a_guest()._replace(vcpus=2, memory_by_node=((0, 4000), (1, 4000)))
    after = turned(before, knob, value)
    assert value_now(after, knob) == value
    for other in set(Knob) - {knob}:
        assert value_now(after, other) == value_now(before, other)


def test_vcpus_apart_are_placed_wherever_one_of_them_is():
    assert turned(a_guest(), Knob.PLACEMENT, APART).placement == {0, 1}


def test_every_knob_is_among_these():
    assert {knob for knob, _ in VALUES} == set(Knob)
