# SPDX-License-Identifier: Apache-2.0
"""An agent that is asked to let go of a guest may answer anything, whoever has its host."""

from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import rpctransport, wire
from nova_vp.message_filter import may_refuse
from nova_vp.rpcserver import BackgroundServer
from nova_vp.signing.envelope import Call
from tests import identities
from tests.escalations import ID
from tests.messages import VICTIM
from tests.waiting import wait_until
from vp_agent.commands import UnknownAction
from vp_scheduler.escalation.agents import MOST_DETAIL, AgentAway, BusAgents


class Agent:
    """Answers what the test wants, or raises it."""

    answer: Any = None

    @may_refuse(Exception)
    def prepare_migration(self, call: Call, escalation_id: str, uuid: str, hold_s: float) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def conf_of() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("transport_url", "fake://", group="bus")
    return conf


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    agent = Agent()
    where = rpctransport.target(wire.AGENT_TOPIC, server="vp1")
    server = BackgroundServer(identities.agent(conf_of()), where, [agent])
    server.start()
    wait_until(lambda: server.is_ready, "the agent listens")
    yield agent
    server.stop(0.1)


@pytest.fixture(scope="module")
def agents() -> Iterator[BusAgents]:
    agents = BusAgents(identities.scheduler(conf_of()))
    yield agents
    agents.close()


@pytest.mark.parametrize(
    "answer",
    [5, True, "ready", [1], None, ValueError("x"), OSError("x"), wire.BadMessage("x"),
     UnknownAction("x"), RuntimeError("x"), {"ready": False, "why": wire.AGENT_BUSY}],
    ids=repr,
)  # fmt: skip
def test_an_answer_that_is_none_is_no_answer(agent: Agent, agents: BusAgents, answer: Any) -> None:
    """Else the step fails each time: its escalation would stay among those that run, and as many of
    these as may run at once would stop all others in the cloud."""
    agent.answer = answer
    with pytest.raises(AgentAway):
        agents.prepare("vp1", ID, VICTIM, 900.0)


def test_an_agent_says_why_not_in_one_line(agent: Agent, agents: BusAgents) -> None:
    """It is stored, logged and shown."""
    agent.answer = {"ready": False, "why": "a\n\x1b[31m" + "b" * 10**6}
    why = agents.prepare("vp1", ID, VICTIM, 900.0)
    assert why == ("a??[31m" + "b" * 10**6)[:MOST_DETAIL]
    agent.answer = {"ready": True}
    assert agents.prepare("vp1", ID, VICTIM, 900.0) == ""
