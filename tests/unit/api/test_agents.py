# SPDX-License-Identifier: Apache-2.0
"""From a request to an agent and back over oslo.messaging, with its in-memory transport."""

import contextlib
import logging

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.core.types.policy import Mode
from nova_vp.server_override import POSSIBLE_AHEAD_MS, ServerOverride, overrides_text
from tests import identities
from tests.connections import end_listeners
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from tests.waiting import wait_until
from vp_agent.commands import UnknownAction
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import Endpoint
from vp_agent.loop.state import StateFolder

ADMIN = Persona("admin")
ACTION = "6f1c2d3e-2"


class Agent:
    """The RPC endpoint of a host."""

    def __init__(self):
        self.modes = []
        self.accepted = []
        self.refusal = None

    def set_mode(self, context, mode):
        self.modes.append(mode)

    def accept(self, context, action_id):
        if self.refusal:
            raise self.refusal
        self.accepted.append(action_id)


@contextlib.contextmanager
def serving(conf, agent):
    where = rpctransport.target(wire.AGENT_TOPIC, server="lab-1")
    server = rpcserver.BackgroundServer(identities.agent(conf, "lab-1"), where, [agent])
    server.start()
    wait_until(lambda: server.is_ready, "the agent to listen")
    try:
        yield
    finally:
        assert server.stop(30), "it would take what is meant for the next one"


@pytest.fixture
def conf():
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], project="nova-vp", default_config_files=[], default_config_dirs=[])
    conf.set_override("transport_url", "fake:/", group="bus")
    return conf


@pytest.fixture
def agents(conf):
    bus = identities.api_bus(conf)
    yield rpcapi.AgentAPI(bus)
    bus.close()
    # Whoever ends it empties the in-memory transport for everybody.
    end_listeners()


@pytest.fixture
def api_and_agent(conf, agents):
    agent = Agent()
    with serving(conf, agent):
        yield Api(cloud.records(), agents=agents), agent


def test_what_is_told_arrives(api_and_agent):
    api, agent = api_and_agent
    answer = api.ask(ADMIN, "/v1/hosts/lab-1", "PATCH", {"mode": "enforce"})
    assert answer.status == 200, answer.text
    answer = api.ask(ADMIN, f"/v1/actions/{ACTION}/accept", "POST")
    assert answer.status == 200, answer.text
    assert (agent.modes, agent.accepted) == (["enforce"], [ACTION])


@pytest.mark.parametrize(
    "refusal",
    [
        UnknownAction("told-why"),
        OSError("told-why"),
        OSError(30, "told-why"),
        RuntimeError("told-why"),
        cfg.NoSuchOptError("told-why"),
    ],
    ids=repr,
)
def test_a_refusal_comes_back_without_its_traceback(api_and_agent, refusal):
    api, agent = api_and_agent
    agent.refusal = refusal
    answer = api.ask(ADMIN, f"/v1/actions/{ACTION}/accept", "POST", {})
    assert answer.status == 409, answer.text
    assert "told-why" in answer.text
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text


NOW_MS = round(cloud.NOW_S * 1000)
HOSTILE = ServerOverride(priority=9)


@pytest.fixture
def vp_agent(tmp_path):
    """The commands of a whole agent, and how far its clock is ahead."""
    ahead_s = [0]
    clock = lambda: cloud.NOW_S + ahead_s[0]  # noqa: E731
    return CommandHandler(StateFolder(str(tmp_path)), Mode.ENFORCE, clock), ahead_s


def opt_out(api):
    answer = api.latest(ADMIN, f"/v1/vps/{cloud.VICTIM}", "PATCH", {"opt_out": True})
    assert answer.status == 200, answer.text
    return answer.json["vp"]


@pytest.mark.parametrize("ahead_ms", [1, 1000, POSSIBLE_AHEAD_MS // 2, POSSIBLE_AHEAD_MS, 2**52])
def test_a_host_that_obeys_a_version_which_the_database_does_not_know_is_told_all_the_same(
    conf, agents, vp_agent, ahead_ms
):
    """The database was restored, or somebody else has sent overrides to the host."""
    control, _ = vp_agent
    with serving(conf, Endpoint(control, None)):
        hostile = overrides_text(NOW_MS + ahead_ms, {cloud.VICTIM: HOSTILE})
        assert agents.set_overrides("lab-1", hostile) is None
        assert opt_out(Api(cloud.records(), agents=agents))["is_told"] is True
    assert control.servers.told.servers[cloud.VICTIM] == ServerOverride(opt_out=True)


def test_an_agent_that_ignores_orders_is_not_called_told(conf, agents, vp_agent, caplog):
    control, ahead_s = vp_agent
    ahead_s[0] = 48 * 3600
    version = NOW_MS + 48 * 3600_000
    with serving(conf, Endpoint(control, None)), caplog.at_level(logging.WARNING):
        agents.set_overrides("lab-1", overrides_text(version, {cloud.VICTIM: HOSTILE}))
        told = opt_out(Api(cloud.records(), agents=agents))
    assert (told["overrides"]["opt_out"], told["is_told"]) == (True, False)
    assert control.servers.told.servers[cloud.VICTIM] == HOSTILE
    assert f"host=lab-1 ignores its overrides: it obeys version {version}" in caplog.text
