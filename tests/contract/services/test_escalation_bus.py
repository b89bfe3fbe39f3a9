# SPDX-License-Identifier: Apache-2.0
"""Escalations and the orders that come back, over a real RabbitMQ."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.core.types.decision import Decision, Migrant, Role
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import Mode
from nova_vp.message_filter import may_refuse
from tests import identities
from tests.bus_conf import a_conf
from tests.decisions import a_decision, a_detection, a_view, an_escalation, facts, uuid_of
from tests.messages import NothingToSay
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.loop.command_server import CommandServer
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.state import StateFolder
from vp_agent.publish.asking_bus import BusEscalations
from vp_agent.publish.escalator import Escalator
from vp_agent.publish.outbox import Outbox

ESCALATION = "99999999-9999-5999-8999-999999999999"


@pytest.fixture
def conf(rabbitmq: RabbitMQ, nobody_listens_on: None) -> cfg.ConfigOpts:
    return a_conf(rabbitmq.url)


class Ledger:
    """What the cluster's end of the call keeps; it can lose its database."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.is_broken = False
        self.is_picky = False

    @may_refuse(wire.BadMessage, OSError)
    def escalate(self, context: Any, text: str) -> None:
        if self.is_broken:
            raise OSError("no database")
        if self.is_picky:
            raise wire.BadMessage("not today")
        self.got.append(wire.decode(wire.ESCALATION_TOPIC, text))


@pytest.fixture
def ledger(conf: cfg.ConfigOpts) -> Iterator[Ledger]:
    ledger = Ledger()
    where = rpctransport.target(wire.ESCALATION_TOPIC, server="vp-scheduler")
    server = rpcserver.BackgroundServer(identities.scheduler(conf), where, [ledger])
    server.start()
    wait_until(lambda: server.is_ready, "the cluster to listen")
    yield ledger
    server.stop(timeout_s=0.1)


@pytest.fixture
def escalator(conf: cfg.ConfigOpts, tmp_path: Path) -> Iterator[Escalator]:
    state = StateFolder(str(tmp_path / "state"))
    outbox = Outbox(state.escalations, state.set_escalations, time.monotonic())
    with closing(
        Escalator(outbox, BusEscalations(identities.agent(conf)), NoRates(), facts, 1)
    ) as escalator:
        yield escalator


class NoRates:
    def measure(self, guest_uuids: object, stop: object) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """Nothing is open."""


def hopeless() -> Decision:
    candidates = (Migrant(uuid_of(1), Role.VICTIM, 0.3, 0.0),)
    one = an_escalation(kind=Kind.CACHE, candidates=candidates)
    return a_decision(a_view(1, detection=a_detection()), escalations=(one,))


def told(escalator: Escalator, ledger: Ledger) -> bool:
    escalator.submit(hopeless())
    return bool(ledger.got)


def test_it_reaches_the_ledger_once(escalator: Escalator, ledger: Ledger, tmp_path: Path) -> None:
    wait_until(lambda: told(escalator, ledger), "the escalation")
    file = tmp_path / "state" / "escalations.json"
    wait_until(lambda: '"is_acknowledged": true' in file.read_text(), "the acknowledgement")
    escalator.submit(hopeless())
    escalator.close()
    assert len(ledger.got) == 1


def test_what_the_ledger_could_not_keep_comes_again(escalator: Escalator, ledger: Ledger) -> None:
    ledger.is_broken = True
    escalator.submit(hopeless())
    wait_until(lambda: escalator._is_failing, "the failure to be noticed")
    ledger.is_broken = False
    wait_until(lambda: told(escalator, ledger), "the escalation", 30)


def test_a_refusal_crosses_as_what_it_is(
    escalator: Escalator, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.is_picky = True
    escalator.submit(hopeless())
    wait_until(lambda: "rejected by the cluster" in caplog.text, "the log line")


def test_a_broker_restart_is_survived(
    rabbitmq: RabbitMQ, escalator: Escalator, ledger: Ledger
) -> None:
    rabbitmq.stop()
    escalator.submit(hopeless())
    rabbitmq.start()
    wait_until(lambda: told(escalator, ledger), "the escalation after the restart", 90)


class Orders:
    def set_mode(self, mode: Mode) -> None:
        """Nobody is told."""

    def accept(self, action_id: str) -> None:
        """Nothing is accepted."""


@pytest.fixture
def ended() -> list[tuple[str, str]]:
    """Escalations, and what came of them, as the agent was told."""
    return []


@pytest.fixture
def migrations(conf: cfg.ConfigOpts, ended: list[tuple[str, str]]) -> Iterator[MigrationHolds]:
    """An agent whose tick comes ten times a second, and that finds one guest only."""
    migrations = MigrationHolds(lambda id: id == ESCALATION, lambda *what: ended.append(what))
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.1):
            migrations.carry_out(
                lambda uuid: "" if uuid == uuid_of(1) else "it does not run on this host",
                time.monotonic(),
            )

    ticking = threading.Thread(target=tick)
    ticking.start()
    server = CommandServer(identities.agent(conf), Orders(), NothingToSay(), migrations)
    server.start()
    wait_until(lambda: server.is_listening, "the agent to listen")
    yield migrations
    server.close()
    stop.set()
    ticking.join()


def test_a_migration_is_prepared_and_ended(
    conf: cfg.ConfigOpts, migrations: MigrationHolds, ended: list[tuple[str, str]]
) -> None:
    api = rpcapi.AgentAPI(identities.scheduler_bus(conf))
    ready = {"ready": True, "why": ""}
    for _ in range(2):
        assert api.prepare_migration("vp1", ESCALATION, uuid_of(1), 60.0) == ready
    gone = api.prepare_migration("vp1", ESCALATION, uuid_of(2), 60.0)
    assert gone == {"ready": False, "why": "it does not run on this host"}
    well = api.prepare_migration("vp1", "another", uuid_of(1), 60.0)
    assert well == {"ready": False, "why": rpcapi.NO_LONGER_HURT}
    assert set(migrations._holds) == {uuid_of(1)}
    assert ended == []
    api.end_migration("vp1", ESCALATION, uuid_of(1), "completed", "")
    assert migrations._holds == {}
    wait_until(lambda: ended == [(ESCALATION, "completed")], "the agent to know how it ended")


def test_an_outcome_of_a_newer_cluster_is_a_failure(
    conf: cfg.ConfigOpts, migrations: MigrationHolds, ended: list[tuple[str, str]]
) -> None:
    api = rpcapi.AgentAPI(identities.scheduler_bus(conf))
    api.end_migration("vp1", ESCALATION, uuid_of(1), "evaporated", "x" * 5000)
    wait_until(lambda: ended == [(ESCALATION, "failed")], "the agent to take it for a failure")
