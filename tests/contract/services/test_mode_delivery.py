# SPDX-License-Identifier: Apache-2.0
"""Modes of the cloud and of aggregates, from the database over the real bus to an agent's state
folder."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp import rpcapi
from nova_vp.cloud_modes import CloudModes, modes_text
from nova_vp.conf import database
from nova_vp.core.types.mode_levels import ModeLevel, SetMode
from nova_vp.core.types.policy import Mode
from nova_vp.db.modes import ModeStore
from nova_vp.db.report_store import ReportStore
from nova_vp.host_facts import HostFacts, facts_text
from nova_vp.rpctransport import Bus
from tests import identities
from tests.bus_conf import a_conf
from tests.decisions import a_decision, a_view, facts
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import CommandServer
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import ToldFacts
from vp_agent.publish.bus import BusPublisher, BusSender
from vp_agent.publish.schedule import Intervals
from vp_scheduler.ingest.service import Service

# oslo.messaging leaves its sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

QUICK = Intervals(refresh_s=3600.0, min_s=0.0)
CLOUDS = SetMode(Mode.ADVISE, ModeLevel.CLOUD)
SSDS = SetMode(Mode.OBSERVE, ModeLevel.AGGREGATE, "ssd")


@pytest.fixture
def conf(rabbitmq: RabbitMQ, synced_sqlite_url: str) -> cfg.ConfigOpts:
    conf = a_conf(rabbitmq.url)
    database.register_opts(conf)
    conf.set_override("connection", synced_sqlite_url, group="database")
    return conf


@pytest.fixture
def store(conf: cfg.ConfigOpts) -> ModeStore:
    return ModeStore(conf)


@pytest.fixture
def service(conf: cfg.ConfigOpts) -> Iterator[Service]:
    service = Service(identities.scheduler(conf), ReportStore(conf))
    service.start()
    wait_until(lambda: service.is_listening, "the service to listen")
    yield service
    service.stop(timeout_s=30.0)  # Else it would take the reports of the next test.


class AgentOnTheBus:
    """Control, publisher and command server of one host, as `vp-agent` wires them; no tick."""

    def __init__(self, conf: cfg.ConfigOpts, folder: Path, host: str) -> None:
        identity, state = identities.agent(conf, host), StateFolder(str(folder))
        self.facts = ToldFacts(state)
        self.facts.take(facts_text(time.time(), HostFacts(("ssd",))))
        self.control = CommandHandler(state, None, facts=self.facts)
        self._host = facts(host)
        epoch = state.next_epoch()
        self.publisher = BusPublisher(BusSender(identity), self._told, QUICK, epoch)
        self.server = CommandServer(identity, self.control, self.publisher)
        self.server.start()
        wait_until(lambda: self.server.is_listening, f"the agent of {host} to listen")

    def _told(self):
        return replace(self._host, modes=self.control.mode.now())

    def publish(self, number: int = 1) -> None:
        """Different reports: the same one is not sent again."""
        self.publisher.publish(a_decision(a_view(number), at_s=time.monotonic()), ())

    @property
    def source(self) -> SetMode:
        return self.control.mode.now().source

    def close(self) -> None:
        self.server.close()
        self.publisher.close()


def put(store: ModeStore, one: SetMode, mode: Mode | None = None) -> None:
    mode = one.mode if mode is None else mode
    store.put(one.level, one.name, mode, by="u", at=datetime.now(UTC))


def test_a_host_is_told_when_it_reports_and_then_at_once(
    conf: cfg.ConfigOpts, store: ModeStore, service: Service, tmp_path: Path
) -> None:
    put(store, CLOUDS)
    with closing(AgentOnTheBus(conf, tmp_path, "vp71")) as agent:
        agent.publish()
        wait_until(lambda: agent.source == CLOUDS, "it to be told of the cloud's")
        # It says no more, and is told nevertheless.
        put(store, SSDS)
        wait_until(lambda: agent.source == SSDS, "it to be told of its aggregate's")
        store.put(SSDS.level, SSDS.name, None, by="u", at=datetime.now(UTC))
        wait_until(lambda: agent.source == CLOUDS, "it to be told that this is over")
    with closing(AgentOnTheBus(conf, tmp_path, "vp71")) as again:
        assert again.source == CLOUDS, "a restarted agent remembers"


def test_a_host_without_its_state_is_told_again(
    conf: cfg.ConfigOpts, store: ModeStore, service: Service, tmp_path: Path
) -> None:
    put(store, SSDS)
    for folder in ("first", "second"):
        with closing(AgentOnTheBus(conf, tmp_path / folder, "vp72")) as agent:
            assert agent.source.level is ModeLevel.DEFAULT
            agent.publish()
            wait_until(lambda agent=agent: agent.source == SSDS, f"the {folder} one to be told")


def test_after_a_restore_of_the_database_hosts_are_told_with_a_larger_number(
    conf: cfg.ConfigOpts, store: ModeStore, service: Service, tmp_path: Path
) -> None:
    put(store, CLOUDS)
    with closing(AgentOnTheBus(conf, tmp_path, "vp73")) as agent:
        ahead = round(time.time() * 1000) + 3_600_000
        agent.control.take_modes(modes_text(ahead, CloudModes(Mode.ENFORCE)))
        agent.publish()
        wait_until(lambda: agent.source == CLOUDS, "it to be told what the database has")
        assert agent.control.mode.now().told.version > ahead


@pytest.mark.parametrize("sender", [identities.api_bus, identities.agent_bus])
def test_nobody_but_vp_scheduler_may_set_them(
    conf: cfg.ConfigOpts,
    tmp_path: Path,
    sender: Callable[[cfg.ConfigOpts], Bus],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with closing(AgentOnTheBus(conf, tmp_path, "vp74")) as agent:
        rpcapi.AgentAPI(sender(conf)).tell_modes("vp74", modes_text(1, CloudModes(Mode.ENFORCE)))
        wait_until(lambda: "may not call set_modes" in caplog.text, "the refusal")
        assert agent.source.level is ModeLevel.DEFAULT
