# SPDX-License-Identifier: Apache-2.0
"""How many CPUs others use, from /proc/stat."""

import pytest

from vp_agent.calibration.quiet import busy_between, busy_cpus

BEFORE = "cpu  100 0 50 1000 10 0 5 0 70 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5 6\n"


@pytest.mark.parametrize(
    ("after", "busy"),
    [
        ("cpu  100 0 50 1100 10 0 5 0 70 0", 0.0),
        ("cpu  100 0 50 1050 60 0 5 0 70 0", 0.0),  # Waiting for a disk is idle.
        ("cpu  150 0 50 1050 10 0 5 0 120 0", 1.0),  # Guests' time stands in the users' too.
        ("cpu  125 5 60 1000 10 5 10 50 70 0", 2.0),
        ("cpu  100 0 50 1000 10 0 5 0 70 0", 0.0),
    ],
)
def test_busy_is_all_but_idle_and_waiting(after, busy):
    rest = BEFORE.partition("\n")[2]
    assert busy_between(BEFORE, f"{after}\n{rest}") == pytest.approx(busy)


def test_this_machine_has_a_number():
    assert busy_cpus(sleep=lambda _: None) >= 0
