# SPDX-License-Identifier: Apache-2.0
"""What becomes of orders to agents where the bus is away, and where it is not."""

import oslo_messaging
import pytest

from nova_vp.server_override import overrides_text
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_agent.commands import UnknownAction
from vp_api.reachable_agents import ReachableAgents
from vp_api.testing import MemoryAgents


def api_with(greet, agents):
    return Api(cloud.records(), agents=ReachableAgents(agents, greet))


def set_mode(api):
    return api.ask(Persona("admin"), "/v1/hosts/lab-1", "PATCH", {"mode": "enforce"})


def test_what_is_told_arrives():
    agents = MemoryAgents()
    assert set_mode(api_with(lambda: None, agents)).status == 200
    assert agents.modes == {"lab-1": "enforce"}


def test_what_agents_answer_arrives():
    agents = MemoryAgents()
    agents.versions["lab-1"] = 8
    assert ReachableAgents(agents, lambda: None).set_overrides("lab-1", overrides_text(7, {})) == 8


def test_what_agents_raise_arrives():
    agents = MemoryAgents()
    agents.failing["lab-1"] = UnknownAction("told-why")
    with pytest.raises(UnknownAction, match="told-why"):
        ReachableAgents(agents, lambda: None).accept("lab-1", "x")


@pytest.mark.parametrize("exc", [ConnectionRefusedError(), TimeoutError()])
def test_where_no_broker_answers_nobody_is_told(exc):
    excs = [exc]

    def greet():
        """Answered from the second time on, so that no outage lasts."""
        if excs:
            raise excs.pop()

    agents = MemoryAgents()
    answer = set_mode(api_with(greet, agents))
    assert answer.status == 503
    assert answer.json["errors"][0]["code"] == "performance-isolation.bus-unavailable"
    assert not agents.modes


def test_reports_of_one_second_share_a_greeting_and_orders_have_their_own():
    greeted, now_s = [], [10.0]
    agents = ReachableAgents(MemoryAgents(), lambda: greeted.append(1), lambda: now_s[0])
    for _ in range(5):
        agents.report_latency("lab-1", "{}")
    assert len(greeted) == 1
    agents.set_mode("lab-1", "enforce")
    assert len(greeted) == 2
    now_s[0] = 11.5
    agents.report_latency("lab-1", "{}")
    assert len(greeted) == 3


def test_reports_rely_on_no_greeting_from_before_a_failed_one():
    excs, told = [], MemoryAgents()

    def greet():
        if excs:
            raise excs.pop()

    agents = ReachableAgents(told, greet, lambda: 10.0)
    agents.report_latency("lab-1", "{}")
    excs += [ConnectionRefusedError(), ConnectionRefusedError()]
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        agents.set_mode("lab-1", "enforce")
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        agents.report_latency("lab-1", "{}")
    assert len(told.latency) == 1
