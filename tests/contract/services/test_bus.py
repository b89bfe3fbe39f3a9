# SPDX-License-Identifier: Apache-2.0
"""The real bus: from an agent's decision to the scheduler's view and the store, and what breaks."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import rpcapi, wire
from nova_vp.conf import database
from nova_vp.core.model import Mode
from nova_vp.db import schema
from nova_vp.db.queries import Store
from tests.decisions import a_decision, a_view, facts
from tests.messages import digest_text, report_text
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.commands import NotAdvising, UnknownAction
from vp_agent.drivers.bus import BusPublisher, BusSender
from vp_agent.drivers.command_server import CommandServer
from vp_agent.pacing import Intervals
from vp_scheduler.host_view import HostView
from vp_scheduler.listener import DigestListener
from vp_scheduler.service import Service

# oslo.messaging leaves its sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

QUICK = Intervals(refresh_s=3600.0, min_s=0.0)
ROOT = Path(__file__).parents[3]


def a_conf(url: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[])
    conf.set_override("transport_url", url, group="bus")
    return conf


@pytest.fixture
def conf(rabbitmq: RabbitMQ) -> cfg.ConfigOpts:
    return a_conf(rabbitmq.url)


@pytest.fixture
def store(conf: cfg.ConfigOpts, tmp_path: Path) -> Store:
    database.register_opts(conf)
    conf.set_override("connection", f"sqlite:///{tmp_path}/store.sqlite", group="database")
    schema.upgrade(schema.open_engine(conf))
    return Store(conf)


@pytest.fixture
def service(conf: cfg.ConfigOpts, store: Store) -> Iterator[Service]:
    service = Service(conf, store)
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
        self.publisher = BusPublisher(BusSender(conf), lambda: facts(host), QUICK, epoch)
        self.server = CommandServer(conf, host, self.orders, self.publisher.republish)
        self.server.start()

    def publish(self, state: int = 4) -> None:
        self.publisher.publish(a_decision(a_view(1, state), at_s=time.monotonic()), ())

    def close(self) -> None:
        self.server.close()
        self.publisher.close()


@pytest.fixture
def agent(conf: cfg.ConfigOpts) -> Iterator[AgentOnTheBus]:
    with closing(AgentOnTheBus(conf)) as agent:
        wait_until(lambda: agent.server.is_listening, "the agent to listen")
        yield agent


@pytest.fixture
def view(conf: cfg.ConfigOpts) -> Iterator[HostView]:
    view = HostView(180.0)
    listener = DigestListener(conf, view)
    listener.start()
    yield view
    listener.stop(timeout_s=0.1)


def stored_state(store: Store, host: str = "vp1") -> int | None:
    record = store.get_host(host)
    return record.report["vps"][0]["state"] if record and record.report["vps"] else None


def test_from_decision_to_view_and_store(
    agent: AgentOnTheBus, view: HostView, store: Store, service: Service
) -> None:
    agent.publish(state=7)
    digest = wait_until(lambda: view.get("vp1"), "the view to know the host")
    assert digest.is_homing
    wait_until(lambda: stored_state(store) == 7, "the store to have the report")
    agent.publish(state=2)
    wait_until(lambda: stored_state(store) == 2, "the store to have the newer report")
    wait_until(lambda: view.get("vp1").order.sequence > digest.order.sequence, "a newer digest")


def test_who_starts_later_asks_and_is_told(
    conf: cfg.ConfigOpts, agent: AgentOnTheBus, view: HostView, store: Store
) -> None:
    agent.publish()
    wait_until(lambda: view.get("vp1"), "the first scheduler to know the host")
    late_view = HostView(180.0)
    listener = DigestListener(conf, late_view)
    service = Service(conf, store)
    listener.start()
    service.start()
    try:
        wait_until(lambda: late_view.get("vp1"), "a scheduler that started later to know it")
        wait_until(lambda: stored_state(store) == 4, "a service that started later to have it")
    finally:
        listener.stop(timeout_s=0.1)
        service.stop(timeout_s=0.1)


def test_orders_reach_the_agent_and_refusals_come_back(conf: cfg.ConfigOpts) -> None:
    api = rpcapi.AgentAPI(rpcapi.open_transport(conf))
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


def test_an_agent_that_is_not_there(conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpcapi, "CALL_TIMEOUT_S", 1)
    with pytest.raises(oslo_messaging.MessagingTimeout):
        rpcapi.AgentAPI(rpcapi.open_transport(conf)).set_mode("nowhere", "observe")


def test_hostile_messages_leave_view_and_store_right(
    conf: cfg.ConfigOpts, view: HostView, store: Store, service: Service
) -> None:
    transport = rpcapi.open_transport(conf)
    digests, reports = rpcapi.DigestAPI(transport), rpcapi.ReportAPI(transport)
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
    wait_until(lambda: service.endpoint.refused["malformed"] == len(hostile), "all to arrive")
    assert view.get("vp8").order == wire.Order(2, 1)
    record = store.get_host("vp8")
    assert record is not None
    assert (record.epoch, record.sequence) == (2, 1)
    assert [record.host for record in store.list_hosts()] == ["vp8"]


def sends(digests: rpcapi.DigestAPI, view: HostView) -> bool:
    """A fanned-out message is for those who listen already."""
    digests.digest(digest_text("hello"))
    return view.get("hello") is not None


def test_a_broker_restart_is_survived(
    rabbitmq: RabbitMQ, agent: AgentOnTheBus, view: HostView, store: Store, service: Service
) -> None:
    agent.publish(state=1)
    wait_until(lambda: stored_state(store) == 1 and view.get("vp1"), "the line to stand")
    before = view.get("vp1").order
    rabbitmq.stop()
    agent.publish(state=5)
    rabbitmq.start()
    wait_until(lambda: stored_state(store) == 5, "the report after the restart", 60)
    wait_until(lambda: view.get("vp1").order.is_newer_than(before), "the digest after it", 60)


def test_starting_without_a_broker_waits_for_it(rabbitmq: RabbitMQ, conf: cfg.ConfigOpts) -> None:
    rabbitmq.stop()
    view = HostView(180.0)
    listener = DigestListener(conf, view)
    listener.start()
    with closing(AgentOnTheBus(conf, "vp4")) as agent:
        agent.publish()
        rabbitmq.start()
        wait_until(lambda: view.get("vp4"), "both to find the broker", 60)
    listener.stop(timeout_s=0.1)


def test_a_stopped_service_does_not_fill_the_broker(
    rabbitmq: RabbitMQ, conf: cfg.ConfigOpts, service: Service
) -> None:
    service.stop()
    reports = rpcapi.ReportAPI(rpcapi.open_transport(conf))
    text = report_text(actuator="x" * 200_000)
    for _ in range(40):
        reports.report(text)
    # 40 messages of 200 kB were sent, the queue holds 2.6 MB of them at most, and not for long.
    wait_until(lambda: rabbitmq.waiting(wire.REPORT_TOPIC) <= 13, "the oldest to be dropped")
    wait_until(lambda: rabbitmq.waiting(wire.REPORT_TOPIC) == 0, "the others to expire")


def test_a_dead_scheduler_does_not_fill_the_broker(
    rabbitmq: RabbitMQ, conf: cfg.ConfigOpts, view: HostView
) -> None:
    digests = rpcapi.DigestAPI(rpcapi.open_transport(conf))
    wait_until(lambda: sends(digests, view), "the exchange to be there")
    rabbitmq.bind("vp_digest_fanout_dead", "vp_digest_fanout")
    for _ in range(400):
        digests.digest(digest_text("vp1"))
    # 400 messages of more than 500 bytes were sent, the queue holds 168 kB of them at most.
    wait_until(lambda: rabbitmq.waiting("vp_digest_fanout_dead") < 335, "the oldest to be dropped")
    wait_until(lambda: rabbitmq.waiting("vp_digest_fanout_dead") == 0, "the others to expire")


FORKING_SCHEDULER = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
from oslo_service import backend
backend.init_backend(backend.BackendType.THREADING)
import nova.conf
nova.conf.CONF([], default_config_files=[])
from vp_scheduler import shared
from vp_scheduler.filters import VPIsolationFilter
from vp_scheduler.weighers import VPInterferenceWeigher
plugins = VPIsolationFilter(), VPInterferenceWeigher()
nova.conf.CONF.set_override("transport_url", sys.argv[1], group="bus")
assert threading.active_count() == 1, threading.enumerate()
for _ in range(2):
    if os.fork() == 0:
        end = time.monotonic() + 30
        while not shared.placement().view.get("vp1"):
            if time.monotonic() > end:
                os._exit(1)
            time.sleep(0.05)
        os._exit(0)
statuses = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)]
assert threading.active_count() == 1, threading.enumerate()
sys.exit(max(statuses))
"""


def test_each_forked_scheduler_worker_listens_and_their_parent_does_not(
    rabbitmq: RabbitMQ, agent: AgentOnTheBus
) -> None:
    agent.publish()
    argv = [sys.executable, "-c", FORKING_SCHEDULER, rabbitmq.url]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
