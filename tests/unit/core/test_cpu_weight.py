# SPDX-License-Identifier: Apache-2.0
"""Weights in terms of what Nova gave: on either version of cgroups, within what the host takes."""

import pytest

from nova_vp.core.model.cpu_weight import times_given
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    Applied,
    CpuWeight,
    Held,
    Knob,
    WeightUnit,
)
from tests.unit.core.build import COMPUTE, Host, uuid_of

WEIGHT, SHARES = WeightUnit.WEIGHT, WeightUnit.SHARES


def a_host(weight: CpuWeight) -> Host:
    host = Host()
    host.add("server", COMPUTE, cpu_weight=weight)
    return host


def held(value: CpuWeight, original: CpuWeight) -> Applied:
    one = Held(Knob.CPU_WEIGHT, value, original, "vp", "vp-1")
    return Applied(uuid_of("server"), 1, (one,))


@pytest.mark.parametrize(
    ("given", "times", "number"),
    [
        (CpuWeight(100, WEIGHT), 4, 400),
        (CpuWeight(1024, SHARES), 4, 4096),
        (CpuWeight(1500, SHARES), 0.5, 750),
        (CpuWeight(100, WEIGHT), 0.333, 33),
        (CpuWeight(100, WEIGHT), 1.0, 100),
        (CpuWeight(100, WEIGHT), 1e-9, 1),
        (CpuWeight(1024, SHARES), 1e-9, 2),
        (CpuWeight(100, WEIGHT), 1e9, 10_000),
        (CpuWeight(1024, SHARES), 1e9, 262_144),
    ],
)
def test_so_many_times_what_nova_gave(given, times, number):
    guest = a_host(given).guest("server")
    assert times_given(guest, None, times) == CpuWeight(number, given.unit)


def test_what_nova_gave_is_the_original_and_not_what_we_have_set():
    guest = a_host(CpuWeight(400)).guest("server")
    assert times_given(guest, held(CpuWeight(400), CpuWeight(100)), 2) == CpuWeight(200)


def test_nothing_can_be_said_of_a_weight_that_is_not_known():
    guest = a_host(NO_CPU_WEIGHT).guest("server")
    assert times_given(guest, None, 4) == NO_CPU_WEIGHT
