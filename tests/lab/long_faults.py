# SPDX-License-Identifier: Apache-2.0
"""One short pass of the fault matrix; `make fault-test` runs all of it, as often as wanted."""

import pytest

from tests.lab.faults import Case, staged


@pytest.fixture(scope="module")
def matrix(admin):
    with staged(admin) as matrix:
        yield matrix


@pytest.mark.parametrize("case", [Case(), Case("after-nova-call")], ids=lambda case: case.name)
def test_of_two_workers_one_migrates_whatever_dies(matrix, case):
    done = matrix.run(case)
    assert done.faults == ()
    assert (done.escalations, done.migrations) == (1, 1)
