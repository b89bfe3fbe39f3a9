# SPDX-License-Identifier: Apache-2.0
"""What nothing on a host helps is told to the cluster, with its evidence."""

import pytest

from nova_vp.core.escalation.escalate import escalations
from nova_vp.core.types.claim import Alternative
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.state import CoreState, VpState
from tests.policies import with_numbers
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    nodes_of,
    uuid_of,
)
from tests.unit.core.hosts import trapped
from tests.unit.core.wishful import Helpless, Mover, enabled

POLICY = enabled(Helpless())


def beside_room(policy: Policy) -> Host:
    """As `trapped`, but another node is free."""
    host = Host(nodes_of(0, 1, cpus=4), policy, knobs=ALL_KNOBS)
    for name, rates in (("victim", CHASE), ("storm", COMPUTE)):
        host.add(name, rates, cpus={0, 1, 2, 3}, node=0)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", STREAM)
    return host


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


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"moves_per_minute": 0}, Rejection.BUDGET),
        ({"actions_per_victim_hour": 0}, Rejection.VICTIM_BUDGET),
        ({"actions_per_project_hour": 0}, Rejection.PROJECT_BUDGET),
    ],
)
def test_a_rung_that_waits_for_a_budget_is_not_spent(numbers, why):
    """The host can still help: nobody is migrated because it may not do so now."""
    host = beside_room(with_numbers(enabled(Mover()), **numbers))
    decisions = host.ticks(90)
    assert why in {one.rejection for d in decisions for one in d.refused}
    assert not any(d.escalations for d in decisions)


def test_what_the_host_itself_refuses_is_spent():
    host = beside_room(enabled(Mover()))
    host.refuse = True
    decisions = host.ticks(90)
    assert Rejection.HOST_REFUSED in {one.rejection for d in decisions for one in d.refused}
    assert uuid_of("victim") in {e.victim_uuid for d in decisions for e in d.escalations}
