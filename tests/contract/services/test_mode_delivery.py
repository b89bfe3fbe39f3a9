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
from nova_vp.core.types.mode_levels import ModeLevel, SetMode
from nova_vp.core.types.policy import Mode
from nova_vp.db.modes import ModeStore
from nova_vp.host_facts import HostFacts, facts_text
from nova_vp.rpctransport import Bus
from tests import delivery, identities
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import ToldFacts
from vp_scheduler.ingest.service import Service

CLOUDS = SetMode(Mode.ADVISE, ModeLevel.CLOUD)
SSDS = SetMode(Mode.OBSERVE, ModeLevel.AGGREGATE, "ssd")


@pytest.fixture
def conf(rabbitmq: RabbitMQ, synced_sqlite_url: str) -> cfg.ConfigOpts:
    return delivery.conf_of(rabbitmq.url, synced_sqlite_url)


@pytest.fixture
def store(conf: cfg.ConfigOpts) -> ModeStore:
    return ModeStore(conf)


@pytest.fixture
def service(conf: cfg.ConfigOpts) -> Iterator[Service]:
    with delivery.serving(conf) as service:
        yield service


class AgentOnTheBus(delivery.AgentOnTheBus):
    """It is in the aggregate `ssd`."""

    def _controlled(self, state: StateFolder) -> CommandHandler:
        told = ToldFacts(state)
        told.take(facts_text(time.time(), HostFacts(("ssd",))))
        return CommandHandler(state, None, facts=told)

    def _told(self):
        return replace(self.facts, modes=self.control.mode.now())

    @property
    def source(self) -> SetMode:
        return self.control.mode.now().source


def put(store: ModeStore, one: SetMode, mode: Mode | None = None) -> None:
    mode = one.mode if mode is None else mode
    store.put(one.level, one.name, mode, by="u", at=datetime.now(UTC))


def test_a_host_is_told_when_it_reports_and_then_at_once(
    conf: cfg.ConfigOpts, store: ModeStore, service: Service, tmp_path: Path
) -> None:
    put(store, CLOUDS)
    with closing(AgentOnTheBus(conf, tmp_path, "vp71")) as agent:
        agent.publish(1)
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
            agent.publish(1)
            wait_until(lambda agent=agent: agent.source == SSDS, f"the {folder} one to be told")


def test_after_a_restore_of_the_database_hosts_are_told_with_a_larger_number(
    conf: cfg.ConfigOpts, store: ModeStore, service: Service, tmp_path: Path
) -> None:
    put(store, CLOUDS)
    with closing(AgentOnTheBus(conf, tmp_path, "vp73")) as agent:
        ahead = round(time.time() * 1000) + 3_600_000
        agent.control.take_modes(modes_text(ahead, CloudModes(Mode.ENFORCE)))
        agent.publish(1)
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
