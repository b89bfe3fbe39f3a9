# SPDX-License-Identifier: Apache-2.0
"""What the cluster asks of an agent before and after a migration: the real one, over a real
RabbitMQ, and the one that the cluster's own tests use."""

import threading
import time
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import rpctransport, wire
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import Mode
from tests import identities
from tests.decisions import uuid_of
from tests.escalations import FakeAgents
from tests.messages import NothingToSay
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.loop.command_server import CommandServer
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.publish.outbox import Outbox
from vp_scheduler.escalation.agents import AgentAway, Agents, BusAgents

HOST = "vp1"
ESCALATION = "99999999-9999-5999-8999-999999999999"
HERE, STUCK = uuid_of(1), uuid_of(2)
STUCK_WHY = "its settings could not be reverted; see the log of vp-agent"


class Orders:
    def set_mode(self, mode: Mode) -> None:
        """Nobody is told."""

    def accept(self, action_id: str) -> None:
        """Nothing is accepted."""


class RealAgent:
    """As `vp-agent` wires it, with a tick that comes ten times a second."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._outbox = Outbox(lambda: None, lambda text: None, 0.0)
        self._outbox.add(ESCALATION, HERE, Kind.CACHE, "{}", time.monotonic())
        migrations = MigrationHolds(self._outbox.stands, self._ended)
        self._migrations = migrations
        self._stop = threading.Event()
        self._ticking = threading.Thread(target=self._tick)
        self._ticking.start()
        self._server = CommandServer(
            identities.agent(conf, HOST), Orders(), NothingToSay(), migrations
        )
        self._server.start()
        wait_until(lambda: self._server.is_listening, "the agent to listen")
        self.agents = BusAgents(identities.scheduler(conf))

    def _ended(self, id: str, outcome: str) -> None:
        self._outbox.spend(id, time.monotonic(), is_helped=outcome == "completed")

    def _tick(self) -> None:
        while not self._stop.wait(0.1):
            self._migrations.carry_out(
                lambda uuid: STUCK_WHY if uuid == STUCK else "", time.monotonic()
            )

    def close(self) -> None:
        self.agents.close()
        self._server.close()
        self._stop.set()
        self._ticking.join()


@pytest.fixture(params=["fake", "real"])
def agents(request: pytest.FixtureRequest) -> Iterator[Agents]:
    if request.param == "fake":
        fake = FakeAgents()
        fake.why_not[STUCK] = STUCK_WHY
        yield fake
        return
    rabbitmq: RabbitMQ = request.getfixturevalue("rabbitmq")
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[])
    conf.set_override("transport_url", rabbitmq.url, group="bus")
    real = RealAgent(conf)
    yield real.agents
    real.close()


def test_a_guest_is_let_go_of_as_often_as_asked(agents: Agents) -> None:
    assert [agents.prepare(HOST, ESCALATION, HERE, 60.0) for _ in range(2)] == ["", ""]
    agents.end(HOST, ESCALATION, HERE, "completed", "")


def test_a_guest_that_cannot_be_let_go_of(agents: Agents) -> None:
    assert agents.prepare(HOST, ESCALATION, STUCK, 60.0) == STUCK_WHY
    assert agents.prepare(HOST, ESCALATION, HERE, 60.0) == ""


def test_what_ended_in_vain_is_over(agents: Agents) -> None:
    agents.prepare(HOST, ESCALATION, HERE, 60.0)
    for _ in range(2):
        agents.end(HOST, ESCALATION, HERE, "failed", "no valid host")
    assert agents.prepare(HOST, ESCALATION, HERE, 60.0) == wire.NO_LONGER_HURT


def test_an_agent_that_is_away(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpctransport, "CALL_TIMEOUT_S", 1)
    if isinstance(agents, FakeAgents):
        agents.is_away = True
    for call in (
        lambda: agents.prepare("nowhere", ESCALATION, HERE, 60.0),
        lambda: agents.end("nowhere", ESCALATION, HERE, "completed", ""),
    ):
        with pytest.raises(AgentAway):
            call()
