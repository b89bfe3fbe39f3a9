# SPDX-License-Identifier: Apache-2.0
"""What nothing on a host helps is told to the cluster, with its evidence."""

from nova_vp.core.escalation.escalate import escalations
from nova_vp.core.types.claim import Alternative
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.state import CoreState, VpState
from tests.unit.core.build import CHASE, CHASE_HURT
from tests.unit.core.hosts import trapped
from tests.unit.core.wishful import Helpless, enabled

POLICY = enabled(Helpless())


def test_an_escalation_keeps_its_id_while_it_stands_and_ends_with_the_hurt():
    host = trapped(POLICY)
    host.ticks(40)
    ids = {e.id for d in host.ticks(30) for e in d.escalations}
    assert len(ids) == 1
    host.run("victim", CHASE)
    assert all(d.escalations == () for d in host.ticks(5)[2:])
    host.run("victim", CHASE_HURT)
    again = {e.id for d in host.ticks(60) for e in d.escalations}
    assert not again & ids, "another hurt is another escalation"


def test_nobody_is_told_of_a_victim_that_is_well():
    refused = [Alternative("a", 0, Rejection.NO_FREE_CPU, victim_uuid="vm")]
    assert escalations(CoreState(vps={"vm": VpState("vm")}), refused, (), 1e6, 30.0) == ()
    assert escalations(CoreState(), refused, (), 1e6, 30.0) == ()
