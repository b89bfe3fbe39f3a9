# SPDX-License-Identifier: Apache-2.0
"""Overlays from vp-api through the real database and the real bus to an agent, with any of the
three dead; calls and their answers the same way."""

import itertools
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
import requests
from oslo_config import cfg

from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.conf import database
from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Overlay, Verb
from nova_vp.db.report_store import ReportStore
from nova_vp.overlay_message import (
    CallMessage,
    answer_text,
    call_text,
    checksum,
    overlays_text,
    read_answer,
    read_call,
    read_overlays,
)
from nova_vp.rpcapi import OVERLAY_CALL_TIMEOUT_S
from nova_vp.service.broker_probe import BrokerProbe, brokers
from tests import identities
from tests.bus_conf import a_conf
from tests.loopback import served
from tests.messages import report_text
from tests.rabbitmq import RabbitMQ
from tests.unit.api import cloud
from tests.unit.api.client import Persona, as_persona
from tests.waiting import wait_until
from vp_api import deploy
from vp_api.reachable_agents import ReachableAgents
from vp_api.services import Stored
from vp_scheduler.ingest.service import Service

WEB, DB = cloud.VICTIM, cloud.SLEEPER
LATEST = {"OpenStack-API-Version": "performance-isolation latest"}
PATIENCE_S = 30
THREADS = 8
"""Of our unit."""


class Agent:
    """The RPC endpoint of a host that takes overlays, answers calls and reports both."""

    numbers = itertools.count(1)

    def __init__(self, conf: cfg.ConfigOpts, host: str = "") -> None:
        # A listener that ends takes some seconds, in which it still takes what is its host's.
        self.host = host or f"vp{next(self.numbers)}"
        identity = identities.agent(conf, self.host)
        self.version, self.overlays = 0, tuple[Overlay, ...]()
        self.calls: list[CallMessage] = []
        self.modes: list[str] = []
        self._sequence = itertools.count(1)
        self._epoch = int(time.time() * 1000)
        self._reports = rpcapi.ReportAPI(rpctransport.Bus(identity))
        where = rpctransport.target(wire.AGENT_TOPIC, server=self.host)
        self._server = rpcserver.BackgroundServer(identity, where, [self], threads=4)
        self._server.start()
        wait_until(lambda: self._server.is_ready, "the agent to listen")

    def set_overlays(self, call: Any, text: str) -> int | None:
        version, overlays = read_overlays(text)
        if version < self.version:
            return self.version
        self.version, self.overlays = version, overlays
        return None

    def call_overlay(self, call: Any, text: str) -> str:
        message = read_call(text)
        self.calls.append(message)
        nack = Nack.NO_ROOM if message.call.verb is Verb.BORROW else None
        return answer_text(CallAnswer(message.call.id, nack, f"by {self.host}", 5.0))

    def set_mode(self, call: Any, mode: str) -> None:
        self.modes.append(mode)

    def report(self, *uuids: str, project_id: str = cloud.ALPHA, group: str = "") -> None:
        about = {"project_id": project_id, **cloud.asked(group)}
        vps = [cloud.a_vp(uuid=uuid, **about) for uuid in uuids]
        told = {"version": self.version, "checksum": checksum(self.overlays)}
        order = (self._epoch, next(self._sequence))
        self._reports.report(report_text(self.host, order, vps=vps, overlays_told=told))

    def names(self) -> set[str]:
        return {one.name for one in self.overlays}

    def close(self) -> None:
        self._server.stop()


def conf_of(rabbitmq: RabbitMQ, url: str) -> cfg.ConfigOpts:
    conf = a_conf(rabbitmq.url)
    database.register_opts(conf)
    conf.set_override("connection", url, group="database")
    return conf


@pytest.fixture
def conf(rabbitmq: RabbitMQ, synced_sqlite_url: str) -> cfg.ConfigOpts:
    return conf_of(rabbitmq, synced_sqlite_url)


@pytest.fixture
def conf_of_each(rabbitmq: RabbitMQ, synced_url: str) -> cfg.ConfigOpts:
    """With each database that we support."""
    return conf_of(rabbitmq, synced_url)


@contextmanager
def ingesting(conf: cfg.ConfigOpts) -> Iterator[Service]:
    service = Service(identities.scheduler(conf), ReportStore(conf))
    service.start()
    wait_until(lambda: service.is_listening, "the service to listen")
    try:
        yield service
    finally:
        service.stop(timeout_s=30.0)  # Else it would take the reports of the next test.


class Member:
    """Asks as a member of the project."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        url = f"{self._url}/v1/overlays{path}"
        return requests.request(method, url, json=body, headers=LATEST, timeout=PATIENCE_S)

    def create(self, name: str, *servers: str) -> str:
        made = self.ask("POST", "", {"name": name, "servers": servers})
        assert made.status_code == 200, made.text
        return str(made.json()["overlay"]["id"])

    def knows(self, uuid: str) -> bool:
        """Whether the database has it."""
        found = requests.get(f"{self._url}/v1/vps/{uuid}", headers=LATEST, timeout=PATIENCE_S)
        return found.status_code == 200


@contextmanager
def member_of(conf: cfg.ConfigOpts, project_id: str = cloud.ALPHA) -> Iterator[Member]:
    bus = identities.api_bus(conf)
    application = deploy.loadapp(
        conf,
        Stored.open(conf),
        ReachableAgents(rpcapi.AgentAPI(bus), BrokerProbe(brokers(conf)).greet),
        authenticate=as_persona(Persona("member", project_id)),
    )
    with served(application, THREADS) as url:
        yield Member(url)
    bus.close()


@pytest.fixture
def member(conf: cfg.ConfigOpts) -> Iterator[Member]:
    with member_of(conf) as one:
        yield one


@pytest.fixture
def agent(conf: cfg.ConfigOpts) -> Iterator[Agent]:
    with closing(Agent(conf)) as one:
        yield one


def test_an_overlay_is_with_its_host_at_once_and_leaves_it_at_once(
    conf_of_each: cfg.ConfigOpts,
) -> None:
    """Also while vp-scheduler is dead."""
    with closing(Agent(conf_of_each)) as agent, member_of(conf_of_each) as member:
        with ingesting(conf_of_each):
            agent.report(WEB, DB)
            wait_until(lambda: member.knows(DB), "the report to be stored")
        shop = member.create("shop", WEB)
        wait_until(lambda: agent.names() == {"shop"}, "the agent to be told")
        assert [one.members for one in agent.overlays] == [{WEB}]
        assert member.ask("PATCH", f"/{shop}", {"target": 7}).status_code == 200
        wait_until(lambda: agent.overlays[0].target == 7.0, "the agent to know the target")
        assert member.ask("DELETE", f"/{shop}").status_code == 200
        wait_until(lambda: agent.overlays == (), "the agent to forget it")


def test_a_host_that_was_away_is_told_once_it_reports(conf: cfg.ConfigOpts, member: Member) -> None:
    with ingesting(conf):
        with closing(Agent(conf)) as before:
            before.report(WEB, DB)
            wait_until(lambda: member.knows(DB), "the report to be stored")
        member.create("shop", WEB)
        with closing(Agent(conf)) as after:
            after.report(WEB, DB, group="tiers")
            wait_until(lambda: after.names() == {"shop", "tiers"}, "the host to be told")
            after.report(WEB, DB, group="tiers")
            after.version, after.overlays = 0, ()
            after.report(WEB, DB, group="tiers")
            wait_until(lambda: after.names() == {"shop", "tiers"}, "it to be told anew")


def test_an_overlay_follows_its_server_and_a_liar_gets_none(
    conf: cfg.ConfigOpts, agent: Agent, member: Member
) -> None:
    with ingesting(conf), closing(Agent(conf)) as other, closing(Agent(conf)) as liar:
        agent.report(WEB)
        wait_until(lambda: member.knows(WEB), "the report to be stored")
        member.create("shop", WEB)
        wait_until(lambda: agent.names() == {"shop"}, "the first host to be told")
        liar.report(WEB, project_id=cloud.BETA)
        other.report(WEB)
        wait_until(lambda: other.names() == {"shop"}, "the second host to be told")
        agent.report()
        wait_until(lambda: agent.overlays == (), "the first host to forget it")
        assert liar.overlays == ()


def test_a_host_that_obeys_a_version_that_nobody_gave_takes_the_next(
    conf: cfg.ConfigOpts, agent: Agent, member: Member
) -> None:
    """As after a restore of the database."""
    with ingesting(conf):
        agent.version = int(time.time() * 1000) + 3600_000
        agent.report(WEB)
        wait_until(lambda: member.knows(WEB), "the report to be stored")
        member.create("shop", WEB)
        agent.report(WEB)
        wait_until(lambda: agent.names() == {"shop"}, "the host to be told")


@pytest.fixture
def shop(conf: cfg.ConfigOpts, agent: Agent, member: Member) -> str:
    with ingesting(conf):
        agent.report(WEB, DB)
        wait_until(lambda: member.knows(DB), "the report to be stored")
    return member.create("shop", WEB, DB)


CALL = Call("c", cloud.OVERLAY, Verb.TUNE, guest_uuid=WEB)
TUNE = {"verb": "tune", "server_id": WEB, "id": "call-1"}


def test_a_call_is_answered_by_the_agent(agent: Agent, member: Member, shop: str) -> None:
    told = member.ask("POST", f"/{shop}/calls", TUNE)
    assert told.status_code == 200
    assert told.json()["call"]["granted"] is True
    assert told.json()["call"]["answers"][0]["lease_s"] == 5.0
    borrow = {"verb": "borrow", "server_id": WEB, "cpus": 1}
    answer = member.ask("POST", f"/{shop}/calls", borrow).json()["call"]["answers"][0]
    assert (answer["granted"], answer["nack"]) == (False, "no-room")
    assert agent.host not in told.text
    [tune, _] = agent.calls
    assert (tune.call.id, tune.call.overlay_id, tune.project_id) == ("call-1", shop, cloud.ALPHA)
    assert tune.age_s(time.time_ns() // 1_000_000) < PATIENCE_S


def test_a_dead_agent_costs_one_wait_and_then_none(agent: Agent, member: Member, shop: str) -> None:
    agent.close()
    begun_s = time.monotonic()
    first = member.ask("POST", f"/{shop}/calls", TUNE)
    assert first.status_code == 504, first.text
    assert time.monotonic() - begun_s < OVERLAY_CALL_TIMEOUT_S + PATIENCE_S / 2
    assert agent.host not in first.text
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: member.ask("POST", f"/{shop}/calls", TUNE), range(20)))
    assert {one.status_code for one in answers} == {504}
    assert max(one.elapsed.total_seconds() for one in answers) < OVERLAY_CALL_TIMEOUT_S


def test_only_controllers_call(
    conf: cfg.ConfigOpts, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """vp-scheduler on behalf of another host's monitor; an agent does not."""
    caplog.set_level(logging.INFO)
    now_ms = time.time_ns() // 1_000_000
    call = call_text(CallMessage(CALL, cloud.ALPHA, now_ms))
    with closing(identities.agent_bus(conf, "vp-thief")) as bus:
        api = rpcapi.AgentAPI(bus)
        api._client.prepare(server=agent.host).cast("call_overlay", text=call)
        wait_until(lambda: "may not call call_overlay" in caplog.text, "the refusal")
    assert agent.calls == []
    with closing(identities.scheduler_bus(conf)) as bus:
        api = rpcapi.AgentAPI(bus)
        assert read_answer(api.call_overlay(agent.host, call)).nack is None
        api.tell_overlays(agent.host, overlays_text(7, ()))
        wait_until(lambda: agent.version == 7, "the overlays of vp-scheduler")


def test_a_flood_of_calls_locks_no_operator_out(
    conf: cfg.ConfigOpts, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are not among those that a receiver remembers, and refuses from so many on."""
    monkeypatch.setattr("nova_vp.signing.envelope.MOST_IDS", 50)
    with closing(identities.api_bus(conf)) as bus:
        api = rpcapi.AgentAPI(bus)
        for number in range(120):
            call = CALL._replace(id=f"c{number}")
            now_ms = time.time_ns() // 1_000_000
            api.call_overlay(agent.host, call_text(CallMessage(call, cloud.ALPHA, now_ms)))
        api.set_mode(agent.host, "observe")
    assert len(agent.calls) == 120
    assert agent.modes == ["observe"]


def test_two_at_once_on_one_overlay(agent: Agent, member: Member, shop: str) -> None:
    """What both write is there in the end, on the host too."""
    changes = [{"target": 5}, {"target_unit": "ms"}, {"name": "sale"}]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda one: member.ask("PATCH", f"/{shop}", one), changes))
    assert [one.status_code for one in answers] == [200, 200, 200]
    stands = member.ask("GET", f"/{shop}").json()["overlay"]
    assert (stands["target"], stands["target_unit"], stands["name"]) == (5, "ms", "sale")

    def told() -> tuple[Any, ...]:
        return tuple((one.name, one.target, one.target_unit) for one in agent.overlays)

    wait_until(lambda: told() == (("sale", 5.0, "ms"),), "the host to have the last of them")
