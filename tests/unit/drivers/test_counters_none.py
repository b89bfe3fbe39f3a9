# SPDX-License-Identifier: Apache-2.0
"""How a host without counters tells why, in the one line that a report and `status` have."""

import pytest

from vp_agent.drivers.counters_none import NoCounters


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("none works:\nperf: no PMU\nvpmu: no files", "none works: perf: no PMU; vpmu: no files"),
        ("perf: no PMU", "perf: no PMU"),
    ],
)
def test_the_reasons_stand_in_one_line(why, told):
    assert NoCounters(why).problems() == {"host": told}
