# SPDX-License-Identifier: Apache-2.0
"""Overlays and their calls over the real broker, to a whole agent on a host in memory."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp import rpcapi, wire
from nova_vp.core.types.overlay import CallAnswer, Nack, Overlay, Verb
from nova_vp.overlay_message import CallMessage, call_text, overlays_text, read_answer
from tests import identities
from tests.bus_conf import a_conf
from tests.messages import NothingToSay
from tests.rabbitmq import RabbitMQ
from tests.unit.overlay_world import MILLS, PROJECT, SHOP, OverlayWorld, a_call, open_world
from tests.waiting import wait_until
from vp_agent.loop.command_server import CommandServer


@pytest.fixture
def conf(rabbitmq: RabbitMQ, nobody_listens_on: None) -> cfg.ConfigOpts:
    return a_conf(rabbitmq.url)


class AgentOnTheBus:
    """Its tick's thread does nothing but answer calls."""

    def __init__(self, conf: cfg.ConfigOpts, folder: Path) -> None:
        self.world: OverlayWorld = open_world(folder)
        control = self.world.control
        self.server = CommandServer(
            identities.agent(conf), control, NothingToSay(), overlays=control
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._answer)
        self.server.start()
        wait_until(lambda: self.server.is_listening, "the agent to listen")
        self._thread.start()

    def _answer(self) -> None:
        while not self._is_over.is_set():
            self.world.control.calls.wait(20)
            self.world.agent.answer_calls(self.world.now_s)

    def close(self) -> None:
        self._is_over.set()
        self.world.control.calls.wake()
        self._thread.join()
        self.server.close()


@pytest.fixture
def agent(conf: cfg.ConfigOpts, tmp_path: Path) -> Iterator[AgentOnTheBus]:
    with closing(AgentOnTheBus(conf, tmp_path)) as one:
        yield one


@pytest.fixture
def api(conf: cfg.ConfigOpts) -> Iterator[rpcapi.AgentAPI]:
    with closing(identities.api_bus(conf)) as bus:
        yield rpcapi.AgentAPI(bus)


def a_text(verb: Verb, server: str = "", of: str = SHOP, **changes: Any) -> str:
    message = CallMessage(a_call(verb, server, of), PROJECT, time.time_ns() // 1_000_000)
    return call_text(message._replace(**changes))


def ask(api: rpcapi.AgentAPI, text: str) -> CallAnswer:
    return read_answer(api.call_overlay("vp1", text))


def test_a_call_is_answered_by_the_agent_and_done(
    agent: AgentOnTheBus, api: rpcapi.AgentAPI
) -> None:
    world = agent.world
    before = world.weight(world.web)
    assert ask(api, a_text(Verb.TUNE, world.web)).nack is None
    assert world.weight(world.web) > before
    assert ask(api, a_text(Verb.TRIGGER)).nack is None
    assert ask(api, a_text(Verb.RELEASE)).nack is None
    assert world.weight(world.web) == before
    assert ask(api, a_text(Verb.RELEASE)).nack is Nack.NOTHING_TO_RELEASE


def test_a_call_that_is_sent_again_is_done_once(agent: AgentOnTheBus, api: rpcapi.AgentAPI) -> None:
    text = a_text(Verb.TUNE, agent.world.web)
    first = ask(api, text)
    raised = agent.world.weight(agent.world.web)
    assert ask(api, text) == first
    assert agent.world.weight(agent.world.web) == raised


def test_a_call_for_the_overlay_of_another_project_is_refused(
    agent: AgentOnTheBus, api: rpcapi.AgentAPI
) -> None:
    text = a_text(Verb.TUNE, agent.world.web, project_id="p2")
    assert ask(api, text).nack is Nack.UNKNOWN_OVERLAY


def test_a_call_that_was_sent_long_ago_is_not_carried_out(
    agent: AgentOnTheBus, api: rpcapi.AgentAPI
) -> None:
    before = agent.world.weight(agent.world.web)
    answer = ask(api, a_text(Verb.TUNE, agent.world.web, sent_at_ms=1_700_000_000_000))
    assert answer.nack is Nack.HOST_REFUSED
    assert "clocks" in answer.detail
    assert agent.world.weight(agent.world.web) == before


def test_what_is_no_call_is_refused_by_the_agent(
    agent: AgentOnTheBus, api: rpcapi.AgentAPI
) -> None:
    with pytest.raises(wire.BadMessage):
        api.call_overlay("vp1", "{}")


def test_overlays_are_told_and_an_older_message_changes_nothing(
    agent: AgentOnTheBus, api: rpcapi.AgentAPI
) -> None:
    told = Overlay(MILLS, "mills", PROJECT, frozenset({agent.world.web}))
    assert api.set_overlays("vp1", overlays_text(900, [told])) is None
    assert agent.world.control.overlays.by_id == {MILLS: told}
    assert api.set_overlays("vp1", overlays_text(899, [])) == 900
    api.tell_overlays("vp1", overlays_text(901, []))
    wait_until(lambda: agent.world.control.overlays.told.version == 901, "it is told")
    assert agent.world.control.overlays.by_id == {}


def test_no_other_host_calls(
    agent: AgentOnTheBus, conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture
) -> None:
    """Another host's agent would be a way into every host."""
    caplog.set_level(logging.INFO)
    before = agent.world.weight(agent.world.web)
    with closing(identities.agent_bus(conf, "vp2")) as bus:
        text = a_text(Verb.TUNE, agent.world.web)
        rpcapi.AgentAPI(bus)._client.prepare(server="vp1").cast("call_overlay", text=text)
        wait_until(lambda: "may not call call_overlay" in caplog.text, "the refusal")
    assert agent.world.weight(agent.world.web) == before
