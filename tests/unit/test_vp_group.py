# SPDX-License-Identifier: Apache-2.0
"""The state of a VP of several servers is that of their counters together."""

import pytest

from nova_vp.core.model.states import state_seen
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import FactorClass, Intensity, State
from nova_vp.vp_group import METRICS, combined


def counted(instructions: float, misses: float, references: float, cycles: float) -> dict:
    """What a report says of a server that did this in a second, on CPUs of one cycle a second."""
    return {
        "mpki": 1000 * misses / instructions,
        "l2_mpki": 1000 * references / instructions,
        "memory_factor": misses / references if references else 0.0,
        "cpi": cycles / instructions,
        "cpu_cores": cycles,
        "misses_per_s": misses,
        "remote_ratio": 0.0,
        "running_ratio": 1.0,
    }


def test_it_is_what_the_sums_of_the_counters_say():
    one, other = counted(1000.0, 40.0, 50.0, 3000.0), counted(9000.0, 9.0, 90.0, 9000.0)
    found = combined([one, other])
    assert found.mpki == pytest.approx(1000 * 49 / 10_000)
    assert found.l2_mpki == pytest.approx(1000 * 140 / 10_000)
    assert found.memory_factor == pytest.approx(49 / 140)
    assert found.cpi == pytest.approx(12_000 / 10_000)
    assert found.misses_per_s == pytest.approx(49)
    assert found.state == state_seen(4.9, 14.0, 0.35, None, Policy())
    assert found.state == State(FactorClass.MID, Intensity.TERRIER)
    assert set(found.metrics) == set(METRICS)


def test_who_runs_more_instructions_counts_more():
    """No mean of states: a busy server beside one that streams a little."""
    streaming, busy = counted(100.0, 8.0, 9.0, 800.0), counted(99_900.0, 0.0, 0.0, 50_000.0)
    assert combined([streaming]).state.intensity is Intensity.BULLDOG
    assert combined([streaming, busy]).state.intensity is Intensity.PUG


def test_who_is_not_measured_or_does_nothing_is_left_out():
    one = counted(1000.0, 40.0, 50.0, 3000.0)
    idle = {**one, "cpu_cores": 0.0}
    standing = {**one, "cpi": 0.0}
    assert combined([one, None, idle, standing]) == combined([one])
    assert combined([one, None]).servers == 1


@pytest.mark.parametrize("servers", [[], [None], [None, None]])
def test_of_nobody_nothing_is_known(servers):
    assert combined(servers) is None
