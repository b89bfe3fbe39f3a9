# SPDX-License-Identifier: Apache-2.0
"""What people order, from the database over the real bus to an agent's state folder, and calls to
agents where there is no broker."""

import itertools
import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_vp import answers, rpcapi, wire
from nova_vp.core.types.policy import Mode
from nova_vp.db.overrides import OverrideStore
from nova_vp.server_override import (
    NO_OVERRIDE,
    POSSIBLE_AHEAD_MS,
    ServerOverride,
    overrides_text,
)
from tests import delivery, identities
from tests.bus_conf import a_conf
from tests.decisions import a_decision, a_view, an_action, uuid_of
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.commands import NotInForce, UnknownAction
from vp_agent.loop import command_server
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.state import StateFolder
from vp_scheduler.ingest.service import Service

WEB, DB = uuid_of(1), uuid_of(2)
OUT = ServerOverride(opt_out=True)


@pytest.fixture
def conf(rabbitmq: RabbitMQ, synced_sqlite_url: str) -> cfg.ConfigOpts:
    return delivery.conf_of(rabbitmq.url, synced_sqlite_url)


@pytest.fixture
def book(conf: cfg.ConfigOpts) -> OverrideStore:
    return OverrideStore(conf)


@pytest.fixture
def service(conf: cfg.ConfigOpts) -> Iterator[Service]:
    with delivery.serving(conf) as service:
        yield service


@pytest.fixture
def agents(conf: cfg.ConfigOpts) -> rpcapi.AgentAPI:
    return rpcapi.AgentAPI(identities.api_bus(conf))


class AgentOnTheBus(delivery.AgentOnTheBus):
    hosts = itertools.count(1)

    def __init__(self, conf: cfg.ConfigOpts, folder: Path, host: str = "") -> None:
        # A listener that ends takes some seconds, in which it still takes what is its host's.
        super().__init__(conf, folder, host or f"vp{next(self.hosts)}")

    def _controlled(self, state: StateFolder) -> CommandHandler:
        return CommandHandler(state, Mode.ENFORCE)

    def _told(self):
        return replace(self.facts, told=self.control.servers.told)

    def obeys(self, uuid: str, ordered: ServerOverride | None) -> bool:
        return self.control.servers.told.servers.get(uuid) == ordered


@pytest.fixture
def agent(conf: cfg.ConfigOpts, tmp_path: Path) -> Iterator[AgentOnTheBus]:
    with closing(AgentOnTheBus(conf, tmp_path / "vp1")) as agent:
        yield agent


def order(book: OverrideStore, uuid: str, ordered: ServerOverride) -> None:
    book.put(uuid, "p" * 32, by="u", now=datetime.now(UTC), **ordered._asdict())


def test_a_host_is_told_when_it_reports_and_an_order_follows_a_migration(
    conf: cfg.ConfigOpts,
    book: OverrideStore,
    service: Service,
    agent: AgentOnTheBus,
    tmp_path: Path,
) -> None:
    order(book, WEB, OUT)
    agent.publish(1, 2)
    wait_until(lambda: agent.obeys(WEB, OUT), "the source to be told")
    assert agent.obeys(DB, NO_OVERRIDE)
    with closing(AgentOnTheBus(conf, tmp_path / "vp2")) as destination:
        destination.publish(3)
        wait_until(lambda: destination.obeys(uuid_of(3), NO_OVERRIDE), "it to be told of its own")
        destination.publish(3, 1)
        wait_until(lambda: destination.obeys(WEB, OUT), "the destination to be told")


def test_an_agent_without_its_state_asks_by_reporting(
    conf: cfg.ConfigOpts,
    book: OverrideStore,
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_server, "CLOSE_TIMEOUT_S", 30.0)
    order(book, WEB, ServerOverride(Mode.ADVISE, priority=3))
    for folder in ("one", "another"):
        with closing(AgentOnTheBus(conf, tmp_path / folder, "vp-without-state")) as agent:
            agent.publish(1)
            wait_until(
                lambda a=agent: a.obeys(WEB, ServerOverride(Mode.ADVISE, False, 3)), "it to know"
            )


def test_the_api_tells_a_host_at_once(
    book: OverrideStore, agent: AgentOnTheBus, agents: rpcapi.AgentAPI
) -> None:
    order(book, WEB, OUT)
    text = book.message([WEB, DB])
    assert agents.set_overrides(agent.host, text) is None
    assert agent.obeys(WEB, OUT)
    assert agents.set_overrides(agent.host, text) is None
    order(book, WEB, NO_OVERRIDE)
    assert agents.set_overrides(agent.host, book.message([WEB])) is None
    assert agent.obeys(WEB, NO_OVERRIDE)
    assert agents.set_overrides(agent.host, text) == book.version()
    assert agent.obeys(WEB, NO_OVERRIDE), "what comes late changes nothing"


@pytest.mark.parametrize("ahead_ms", [POSSIBLE_AHEAD_MS // 3, 2**52])
def test_orders_that_somebody_else_has_sent_are_replaced_once_the_host_reports(
    book: OverrideStore,
    service: Service,
    agent: AgentOnTheBus,
    agents: rpcapi.AgentAPI,
    ahead_ms: int,
) -> None:
    order(book, WEB, OUT)
    version = book.version() + ahead_ms
    agents.set_overrides(agent.host, overrides_text(version, {WEB: ServerOverride(priority=9)}))
    agent.publish(1)
    wait_until(lambda: agent.obeys(WEB, OUT), "the host to obey the service")


@pytest.mark.parametrize("text", ["", "{}", '{"v":1,"version":1,"servers":[{}]}', 7])
def test_what_is_no_order_comes_back_as_a_refusal(
    agent: AgentOnTheBus, agents: rpcapi.AgentAPI, text: object
) -> None:
    with pytest.raises(wire.BadMessage, match="vp_overrides: "):
        agents.set_overrides(agent.host, text)  # type: ignore[arg-type]
    assert agent.control.servers.told.version == 0


def test_undo_is_answered_by_the_agent(agent: AgentOnTheBus, agents: rpcapi.AgentAPI) -> None:
    with pytest.raises(UnknownAction, match="no recent action 'vp-1' on this host"):
        agents.undo(agent.host, "vp-1")
    agent.control.show(a_decision(a_view(1), at_s=1.0, proposals=(an_action("vp-2"),)))
    with pytest.raises(NotInForce, match="vp-2 is only proposed"):
        agents.undo(agent.host, "vp-2")


def test_a_call_fails_while_the_broker_was_never_there_and_works_once_it_is(
    rabbitmq: RabbitMQ, conf: cfg.ConfigOpts, tmp_path: Path
) -> None:
    rabbitmq.stop()
    try:
        agents = rpcapi.AgentAPI(identities.api_bus(conf))
        for _ in range(2):
            with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="the broker is away"):
                agents.set_mode("vp1", "observe")
    finally:
        rabbitmq.start()
    with closing(AgentOnTheBus(conf, tmp_path / "vp1")) as agent:
        agents.set_mode(agent.host, "observe")
        assert agent.control.commanded().mode is Mode.OBSERVE


def test_a_call_fails_within_its_timeout_where_a_broker_takes_no_notice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answers, "OPEN_TIMEOUT_S", 0.2)
    with socket.socket() as deaf, caplog.at_level(logging.CRITICAL):
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = f"rabbit://u:p@127.0.0.1:{deaf.getsockname()[1]}/"
        agents = rpcapi.AgentAPI(identities.api_bus(a_conf(url)))
        for _ in range(2):
            with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="not let us in"):
                agents.undo("vp1", "vp-1")
