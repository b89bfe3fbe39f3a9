# SPDX-License-Identifier: Apache-2.0
"""The real bus: from an agent's decision to the scheduler's view and the store, and what breaks."""

import base64
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_vp import queues, rpcapi, rpcserver, rpctransport, wire
from nova_vp.conf import database
from nova_vp.core.types.policy import Mode
from nova_vp.db.report_store import ReportStore
from nova_vp.signing.identity import Identity
from nova_vp.signing.keyring import ToldKeys
from nova_vp.signing.senders import Process, Sender
from tests import identities
from tests.bus_conf import a_conf
from tests.decisions import a_decision, a_guest, a_view, facts
from tests.messages import NothingToSay, digest_text, report_text
from tests.rabbitmq import RabbitMQ, free_port
from tests.waiting import wait_until
from vp_agent.commands import NotAdvising, UnknownAction
from vp_agent.loop.command_server import CommandServer
from vp_agent.publish.bus import BusPublisher, BusSender
from vp_agent.publish.schedule import Intervals
from vp_scheduler.ingest import coalesce, jitter, key_publisher
from vp_scheduler.ingest.service import Service
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.placement.listener import DigestListener

QUICK = Intervals(refresh_s=3600.0, min_s=0.0)


@pytest.fixture
def conf(rabbitmq: RabbitMQ, nobody_listens_on: None) -> cfg.ConfigOpts:
    return a_conf(rabbitmq.url)


@pytest.fixture
def one_host(conf: cfg.ConfigOpts) -> None:
    """Otherwise who starts without a vp-scheduler gives a large cloud its time."""
    conf.set_override("known_hosts", ["vp1"], group="vp_scheduler")


@pytest.fixture
def store(conf: cfg.ConfigOpts, synced_sqlite_url: str) -> ReportStore:
    database.register_opts(conf)
    conf.set_override("connection", synced_sqlite_url, group="database")
    return ReportStore(conf)


@pytest.fixture
def service(conf: cfg.ConfigOpts, store: ReportStore) -> Iterator[Service]:
    service = Service(identities.scheduler(conf), store)
    service.start()
    wait_until(lambda: service.is_listening, "the service to listen")
    yield service
    service.stop(timeout_s=0.1)


class Orders:
    """What operators told the agent."""

    def __init__(self) -> None:
        self.mode: Mode | None = None

    def set_mode(self, mode: Mode) -> None:
        self.mode = mode

    def accept(self, action_id: str) -> None:
        if action_id == "not-now":
            raise NotAdvising("the mode is observe")
        raise UnknownAction(f"no proposal {action_id}; those that stand: a1")


class AgentOnTheBus:
    """Publisher and command server of one host, as `vp-agent` wires them."""

    def __init__(self, conf: cfg.ConfigOpts, host: str = "vp1", epoch: int = 1) -> None:
        self.orders = Orders()
        self.publisher = BusPublisher(
            BusSender(identities.agent(conf, host)), lambda: facts(host), QUICK, epoch
        )
        self.server = CommandServer(identities.agent(conf, host), self.orders, self.publisher)
        self.server.start()

    def publish(self, state: int = 4) -> None:
        self.publisher.publish(a_decision(a_view(1, state), at_s=time.monotonic()), ())

    def publish_of(self, projects: int, state: int) -> None:
        """A server of each."""
        guests = [a_guest(number, project_id=f"p{number}") for number in range(1, projects + 1)]
        views = [a_view(number, state, guest=guest) for number, guest in enumerate(guests, 1)]
        self.publisher.publish(a_decision(*views, at_s=time.monotonic()), ())

    def close(self) -> None:
        self.server.close()
        self.publisher.close()


@pytest.fixture
def agent(conf: cfg.ConfigOpts) -> Iterator[AgentOnTheBus]:
    with closing(AgentOnTheBus(conf)) as agent:
        wait_until(lambda: agent.server.is_listening, "the agent to listen")
        yield agent


def nova_scheduler(conf: cfg.ConfigOpts) -> Identity:
    return identities.identity_of(conf, Process.NOVA_SCHEDULER, "ctl1")


def a_listener(conf: cfg.ConfigOpts, view: HostView) -> DigestListener:
    return DigestListener(nova_scheduler(conf), view, ToldKeys())


@pytest.fixture
def view(conf: cfg.ConfigOpts) -> Iterator[HostView]:
    view = HostView(180.0)
    listener = a_listener(conf, view)
    listener.start()
    yield view
    listener.stop(timeout_s=0.1)


def stored_state(store: ReportStore, host: str = "vp1") -> int | None:
    record = store.get_host(host)
    return record.report["vps"][0]["state"] if record and record.report["vps"] else None


@pytest.mark.usefixtures("one_host")
def test_from_decision_to_view_and_store(
    agent: AgentOnTheBus, view: HostView, store: ReportStore, service: Service
) -> None:
    agent.publish(state=7)
    digest = wait_until(lambda: view.get("vp1"), "the view to know the host")
    assert digest.is_homing
    wait_until(lambda: stored_state(store) == 7, "the store to have the report")
    agent.publish(state=2)
    wait_until(lambda: stored_state(store) == 2, "the store to have the newer report")
    wait_until(lambda: view.get("vp1").version.sequence > digest.version.sequence, "a newer digest")


@pytest.mark.usefixtures("one_host")
def test_what_was_learned_reaches_who_asks(
    agent: AgentOnTheBus, conf: cfg.ConfigOpts, store: ReportStore, service: Service, view: HostView
) -> None:
    agent.publish_of(3, state=7)
    wait_until(lambda: store.count_classes(), "the class to be stored")
    late = Service(identities.scheduler(conf), store)
    late.start()
    asking = rpcapi.ReportAPI(rpctransport.Bus(nova_scheduler(conf)))

    def is_told() -> bool:
        asking.scheduler_started()
        return view.learned.of_image("m1.small", "") == 7

    try:
        wait_until(is_told, "the view to be told")
    finally:
        late.stop(timeout_s=0.1)


@pytest.mark.usefixtures("one_host")
def test_who_starts_later_asks_and_is_told(
    conf: cfg.ConfigOpts, agent: AgentOnTheBus, view: HostView, store: ReportStore
) -> None:
    agent.publish()
    wait_until(lambda: view.get("vp1"), "the first scheduler to know the host")
    late_view = HostView(180.0)
    listener = a_listener(conf, late_view)
    service = Service(identities.scheduler(conf), store)
    listener.start()
    service.start()
    try:
        wait_until(lambda: late_view.get("vp1"), "a scheduler that started later to know it")
        wait_until(lambda: stored_state(store) == 4, "a service that started later to have it")
    finally:
        listener.stop(timeout_s=0.1)
        service.stop(timeout_s=0.1)


class Asked(NothingToSay):
    def __init__(self) -> None:
        self.digests: list[float] = []

    def republish_digest(self, within_s: float) -> None:
        self.digests.append(within_s)


def test_for_a_scheduler_that_starts_hosts_are_asked_for_their_digests_alone(
    conf: cfg.ConfigOpts, service: Service
) -> None:
    asked = Asked()
    agent = CommandServer(identities.agent(conf, "vp7"), Orders(), asked)
    agent.start()
    wait_until(lambda: agent.is_listening, "the agent to listen")
    listener = a_listener(conf, HostView(180.0))
    listener.start()
    try:
        wait_until(lambda: jitter.LEAST_S in asked.digests, "the hosts to be asked")
    finally:
        listener.stop(timeout_s=0.1)
        agent.close()


def test_orders_reach_the_agent_and_refusals_come_back(conf: cfg.ConfigOpts) -> None:
    api = rpcapi.AgentAPI(identities.api_bus(conf))
    with closing(AgentOnTheBus(conf, "vp5")) as agent:
        wait_until(lambda: agent.server.is_listening, "the agent to listen")
        api.set_mode("vp5", "enforce")
        assert agent.orders.mode is Mode.ENFORCE
        with pytest.raises(ValueError, match="sometimes"):
            api.set_mode("vp5", "sometimes")
        with pytest.raises(UnknownAction, match="those that stand: a1"):
            api.accept("vp5", "a9")
        with pytest.raises(NotAdvising, match="observe"):
            api.accept("vp5", "not-now")


def test_a_queue_that_an_administrator_deletes_is_declared_again(
    rabbitmq: RabbitMQ, conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpctransport, "CALL_TIMEOUT_S", 1)
    api = rpcapi.AgentAPI(identities.api_bus(conf))
    with closing(AgentOnTheBus(conf, "vp4")) as agent:
        wait_until(lambda: agent.server.is_listening, "the agent to listen")
        rabbitmq.delete("vp_agent.vp4")
        wait_until(lambda: is_obeyed(api, "vp4"), "an order to be obeyed", 30)


def is_obeyed(api: rpcapi.AgentAPI, host: str) -> bool:
    with suppress(oslo_messaging.MessagingTimeout):
        api.set_mode(host, "observe")
        return True
    return False


def definitions(folder: Path, user: str, configure: str) -> Path:
    """Of an account that may declare what `configure` matches."""
    file = folder / "definitions.json"
    rights = {"user": user, "vhost": "/", "configure": configure, "write": ".*", "read": ".*"}
    account = {"name": user, "password": "x", "tags": ""}
    file.write_text(json.dumps({"users": [account], "permissions": [rights]}))
    return file


def test_a_listener_that_the_broker_refuses_tries_again(
    rabbitmq: RabbitMQ,
    conf: cfg.ConfigOpts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(rpcserver, "AGAIN_S", 0.1)
    rabbitmq.import_definitions(definitions(tmp_path, "late", ""))
    conf.set_override("transport_url", rabbitmq.url_of("late:x"), group="bus")
    with closing(AgentOnTheBus(conf, "vp3")) as agent:
        wait_until(lambda: "nothing is heard on vp_agent" in caplog.text, "it to be refused", 30)
        assert not agent.server.is_listening
        rabbitmq.import_definitions(definitions(tmp_path, "late", ".*"))
        wait_until(lambda: agent.server.is_listening, "it to be let in", 30)


def test_the_hosts_keys_are_told_again_and_again(
    rabbitmq: RabbitMQ, conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler process that was away for a moment has missed them."""
    monkeypatch.setattr(coalesce, "GATHER_S", 0.01)
    monkeypatch.setattr(key_publisher, "EVERY_S", 0.05)
    monkeypatch.setattr(key_publisher, "REPEAT_S", 0.1)
    rabbitmq.bind("keys-told", queues.TO_SERVICES, wire.DIGEST_TOPIC)

    class Keys:
        def in_use(self, process: Process | None = None) -> list[tuple[Sender, str]]:
            return [(Sender(Process.AGENT, "vp1"), "x")]

    publisher = key_publisher.HostKeyPublisher(identities.scheduler(conf), Keys())
    publisher.start()
    wait_until(lambda: rabbitmq.waiting("keys-told") >= 3, "the same keys three times")
    publisher.close(1.0)


def test_an_agent_that_is_not_there(conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpctransport, "CALL_TIMEOUT_S", 1)
    with pytest.raises(oslo_messaging.MessagingTimeout):
        rpcapi.AgentAPI(identities.api_bus(conf)).set_mode("nowhere", "observe")


def test_a_broker_that_is_away_is_said_in_one_way(conf: cfg.ConfigOpts) -> None:
    conf.set_override("transport_url", f"rabbit://a:b@127.0.0.1:{free_port()}/", group="bus")
    bus = identities.agent_bus(conf)
    for send in (
        lambda: rpctransport.reach(conf),
        lambda: rpcapi.DigestAPI(bus).digest("{}"),
        lambda: rpcapi.ReportAPI(bus).report("{}"),
        lambda: rpcapi.AgentAPI(bus).republish(1.0),
    ):
        with pytest.raises(oslo_messaging.MessagingException):
            send()


@pytest.mark.parametrize(
    ("account", "virtual_host", "said"),
    [("test:wrong", "", "ACCESS_REFUSED"), ("test:secret", "none", "vhost none not found")],
)
def test_a_broker_that_refuses_the_account_is_said_in_the_same_way(
    conf: cfg.ConfigOpts, rabbitmq: RabbitMQ, account: str, virtual_host: str, said: str
) -> None:
    conf.set_override("transport_url", rabbitmq.url_of(account) + virtual_host, group="bus")
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match=f"the broker refuses.*{said}"):
        rpctransport.reach(conf)


def test_hostile_messages_leave_view_and_store_right(
    conf: cfg.ConfigOpts, view: HostView, store: ReportStore, service: Service
) -> None:
    bus = identities.agent_bus(conf, "vp8")
    digests, reports = rpcapi.DigestAPI(bus), rpcapi.ReportAPI(bus)
    hostile: list[Any] = [None, 7, {"a": [1]}, "{", "[" * 100_000, "\ud7ff", "x" * 2_000_000]
    later_orders = [(2, 1), (1, 9), (2, 1)]
    wait_until(lambda: sends(digests, view), "the view to listen")
    for text in hostile:
        digests.digest(text)
        reports.report(text)
    for order in later_orders:
        digests.digest(digest_text("vp8", order=order))
        reports.report(report_text("vp8", order=order))
    wait_until(lambda: view.get("vp8") and store.get_host("vp8"), "the good ones to arrive")
    wait_until(
        lambda: service.endpoint.refusals.counts["malformed"] == len(hostile), "all to arrive"
    )
    assert view.get("vp8").version == wire.MessageVersion(2, 1)
    record = store.get_host("vp8")
    assert record is not None
    assert (record.epoch, record.sequence) == (2, 1)
    assert [head.host for head in store.list_heads()] == ["vp8"]


def sends(digests: rpcapi.DigestAPI, view: HostView) -> bool:
    """A fanned-out message is for those who listen already."""
    digests.digest(digest_text("vp8", order=(1, 0)))
    return view.get("vp8") is not None


@pytest.mark.usefixtures("one_host")
def test_a_broker_restart_is_survived(
    rabbitmq: RabbitMQ, agent: AgentOnTheBus, view: HostView, store: ReportStore, service: Service
) -> None:
    agent.publish(state=1)
    wait_until(lambda: stored_state(store) == 1 and view.get("vp1"), "the line to stand")
    before = view.get("vp1").version
    rabbitmq.stop()
    agent.publish(state=5)
    rabbitmq.start()
    wait_until(lambda: stored_state(store) == 5, "the report after the restart", 60)

    def is_heard() -> bool:
        """What is fanned out while nobody listens yet is lost; it is repeated, every minute."""
        agent.publisher.republish_digest(0.0)
        return bool(view.get("vp1").version.is_newer_than(before))

    wait_until(is_heard, "the digest after it", 60)


def test_starting_without_a_broker_waits_for_it(rabbitmq: RabbitMQ, conf: cfg.ConfigOpts) -> None:
    rabbitmq.stop()
    view = HostView(180.0)
    listener = a_listener(conf, view)
    listener.start()
    with closing(AgentOnTheBus(conf, "vp4")) as agent:
        agent.publish()
        rabbitmq.start()
        wait_until(lambda: view.get("vp4"), "both to find the broker", 60)
    listener.stop(timeout_s=0.1)


def of_no_pattern(length: int) -> str:
    """It travels as long as it is; what repeats itself is compressed."""
    return base64.b64encode(os.urandom(length * 3 // 4)).decode()


def test_a_stopped_service_does_not_fill_the_broker(
    rabbitmq: RabbitMQ, conf: cfg.ConfigOpts, service: Service
) -> None:
    service.stop()
    reports = rpcapi.ReportAPI(identities.agent_bus(conf))
    waiting = []
    for _ in range(40):
        reports.report(report_text(actuator=of_no_pattern(200_000)))
        waiting.append(rabbitmq.waiting(wire.REPORT_TOPIC))
    # Of messages of 200 kB the queue holds 2.6 MB at most, and not for long.
    assert 0 < max(waiting) <= 13, "the oldest is dropped for each that is too many"
    wait_until(lambda: rabbitmq.waiting(wire.REPORT_TOPIC) == 0, "the others to expire")


def test_a_dead_scheduler_does_not_fill_the_broker(
    rabbitmq: RabbitMQ, conf: cfg.ConfigOpts, view: HostView
) -> None:
    digests = rpcapi.DigestAPI(identities.agent_bus(conf, "vp8"))
    rabbitmq.bind("vp_digest.dead", queues.TO_SERVICES, wire.DIGEST_TOPIC)
    waiting = []
    for _ in range(20):
        for _ in range(10):
            digests.digest(digest_text("vp8", mode=of_no_pattern(3_000)))
        waiting.append(rabbitmq.waiting("vp_digest.dead"))
    # Of messages of more than 3 kB the queue holds 168 kB at most, and not for long.
    assert 0 < max(waiting) <= 55, "the oldest is dropped for each that is too many"
    wait_until(lambda: rabbitmq.waiting("vp_digest.dead") == 0, "the others to expire")
