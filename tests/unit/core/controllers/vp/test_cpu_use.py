# SPDX-License-Identifier: Apache-2.0
"""CPU waiting is measured and told; no decision depends on it."""

from nova_vp.core.types.cpu_time import CpuTimes
from tests.policies import a_policy
from tests.unit.core.hosts import a_quiet_pair, onset

NS = 10**9


def test_decisions_are_the_same_however_long_servers_wait():
    told = []
    for waits in (False, True):
        host = a_quiet_pair(policy=a_policy())
        onset(host)
        decisions = []
        for second in range(1, 40):
            for name in ("victim", "neighbour") if waits else ():
                host.change(name, cpu_times=CpuTimes(second * NS // 4, second * NS, 0, "1"))
            decisions.append(host.tick())
        told.append([(d.actions, d.proposals, d.detections, d.refused) for d in decisions])
    assert told[0] == told[1]
    assert any(actions for actions, *_ in told[0])
