# SPDX-License-Identifier: Apache-2.0
"""Reports of latency over the real broker: at the agent within a second, from vp-api alone."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp import rpcapi
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.latency_message import Ignored, LatencyMessage, latency_text
from tests import identities
from tests.bus_conf import a_conf
from tests.decisions import a_guest
from tests.messages import NothingToSay
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import CommandServer
from vp_agent.loop.state import StateFolder

WEB = "11111111-2222-4333-8444-000000000001"
GUEST = a_guest(uuid=WEB, project_id="p1", service_class=ServiceClass.LATENCY_CRITICAL)
WITHIN_S = 1.0


@pytest.fixture
def conf(rabbitmq: RabbitMQ, nobody_listens_on: None) -> cfg.ConfigOpts:
    return a_conf(rabbitmq.url)


class AgentOnTheBus:
    def __init__(self, conf: cfg.ConfigOpts, folder: Path) -> None:
        self.control = CommandHandler(StateFolder(str(folder)), Mode.ENFORCE)
        self.server = CommandServer(identities.agent(conf), self.control, NothingToSay())
        self.server.start()
        self.latency_ms()
        wait_until(lambda: self.server.is_listening, "the agent to listen")

    def latency_ms(self) -> float | None:
        found = self.control.latency.of([GUEST], time.monotonic()).get(WEB)
        return found and found.latency_ms

    def ignored(self) -> dict[str, int]:
        came = self.control.latency.known().by_server.get(WEB)
        return dict(came.ignored) if came else {}

    def close(self) -> None:
        self.server.close()


@pytest.fixture
def agent(conf: cfg.ConfigOpts, tmp_path: Path) -> Iterator[AgentOnTheBus]:
    with closing(AgentOnTheBus(conf, tmp_path)) as one:
        yield one


@pytest.fixture
def api(conf: cfg.ConfigOpts) -> Iterator[rpcapi.AgentAPI]:
    with closing(identities.api_bus(conf)) as bus:
        yield rpcapi.AgentAPI(bus)


def a_text(latency_ms: float, **changes: Any) -> str:
    now_ms = time.time_ns() // 1_000_000
    message = LatencyMessage(WEB, "p1", latency_ms, None, None, now_ms, now_ms)
    return latency_text(message._replace(**changes))


def test_a_report_is_with_the_agent_within_a_second(
    agent: AgentOnTheBus, api: rpcapi.AgentAPI
) -> None:
    api.report_latency("vp1", a_text(1.0))
    wait_until(lambda: agent.latency_ms() == 1.0, "the first, for which vp-api connects")
    wait_until(lambda: _is_used(agent, api, 2.0), "another one to be taken", 5.0)


def _is_used(agent: AgentOnTheBus, api: rpcapi.AgentAPI, latency_ms: float) -> bool:
    """Half a second after the one before."""
    before = sum(agent.ignored().values())
    api.report_latency("vp1", a_text(latency_ms))
    wait_until(
        lambda: agent.latency_ms() == latency_ms or sum(agent.ignored().values()) > before,
        "it to arrive",
        WITHIN_S,
    )
    return agent.latency_ms() == latency_ms


def test_one_that_comes_again_changes_nothing(agent: AgentOnTheBus, api: rpcapi.AgentAPI) -> None:
    text = a_text(1.0)
    for _ in range(3):
        api.report_latency("vp1", text)
    wait_until(lambda: agent.ignored() == {"not-newer": 2}, "both repetitions")
    assert agent.latency_ms() == 1.0


def test_nobody_but_vp_api_reports(
    agent: AgentOnTheBus, conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with closing(identities.scheduler_bus(conf)) as bus:
        rpcapi.AgentAPI(bus).report_latency("vp1", a_text(1.0))
        wait_until(lambda: "may not call report_latency" in caplog.text, "the refusal")
    assert agent.latency_ms() is None
    assert agent.ignored() == {}


def test_reports_go_on_with_an_agent_that_was_restarted(
    conf: cfg.ConfigOpts, api: rpcapi.AgentAPI, tmp_path: Path
) -> None:
    """What was reported to the one before is forgotten, and what it left is not believed."""
    with closing(AgentOnTheBus(conf, tmp_path)) as first:
        api.report_latency("vp1", a_text(1.0))
        wait_until(lambda: first.latency_ms() == 1.0, "the report")
    left = a_text(2.0, measured_at_ms=0)
    api.report_latency("vp1", left)  # Nobody listens.
    with closing(AgentOnTheBus(conf, tmp_path)) as second:
        assert second.latency_ms() is None
        api.report_latency("vp1", left)  # As from a broker that keeps it for longer than this one.
        wait_until(lambda: second.ignored().keys() == {Ignored.LATE}, "it to be ignored")
        api.report_latency("vp1", a_text(3.0))
        wait_until(lambda: second.latency_ms() == 3.0, "the next report")
        assert second.control.latency.known().by_server[WEB].used == 1


def test_a_flood_is_bounded_and_locks_no_operator_out(
    agent: AgentOnTheBus, api: rpcapi.AgentAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports are not among the calls that a receiver remembers, and refuses from so many on."""
    monkeypatch.setattr("nova_vp.signing.envelope.MOST_IDS", 50)
    for number in range(120):
        api.report_latency("vp1", a_text(1.0 + number))
    wait_until(lambda: sum(agent.ignored().values()) > 50, "most of them")
    api.set_mode("vp1", "observe")
    assert agent.control.commanded().mode is Mode.OBSERVE
