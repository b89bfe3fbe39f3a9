# SPDX-License-Identifier: Apache-2.0
"""From a request to an agent and back over oslo.messaging, with its in-memory transport."""

import contextlib
import logging

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging._drivers import common as driver_common

from nova_vp import conf as options
from nova_vp import rpcapi, wire
from nova_vp.core.types.policy import Mode
from nova_vp.server_override import POSSIBLE_AHEAD_MS, ServerOverride, overrides_text
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_agent.commands import UnknownAction
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import Endpoint
from vp_agent.loop.state import StateFolder

ADMIN = Persona("admin")


class Agent:
    """The RPC endpoint of a host."""

    target = oslo_messaging.Target(version="1.0")

    def __init__(self):
        self.modes = []
        self.accepted = []

    def set_mode(self, context, mode):
        self.modes.append(mode)

    def accept(self, context, action_id):
        self.accepted.append(action_id)


@contextlib.contextmanager
def serving(transport, agent):
    where = rpcapi.target(wire.AGENT_TOPIC, server="lab-1")
    server = oslo_messaging.get_rpc_server(transport, where, [agent])
    server.start()
    try:
        yield
    finally:
        server.stop()
        server.wait()


@pytest.fixture
def transport():
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], project="nova-vp", default_config_files=[], default_config_dirs=[])
    conf.set_override("transport_url", "fake:/", group="bus")
    transport = rpcapi.open_transport(conf)
    yield transport
    transport.cleanup()


@pytest.fixture
def api_and_agent(transport):
    agent = Agent()
    with serving(transport, agent):
        yield Api(cloud.records(), agents=rpcapi.AgentAPI(transport)), agent


def test_what_is_told_arrives(api_and_agent):
    api, agent = api_and_agent
    answer = api.ask(ADMIN, "/v1/hosts/lab-1", "PATCH", {"mode": "enforce"})
    assert answer.status == 200, answer.text
    answer = api.ask(ADMIN, "/v1/hosts/lab-1/proposals/x", "PUT", {"accepted": True})
    assert answer.status == 200, answer.text
    assert (agent.modes, agent.accepted) == (["enforce"], ["x"])


def remote(exc):
    """As the broker would bring it: the in-memory transport hands over the object itself."""
    data = driver_common.serialize_remote_exception((type(exc), exc, exc.__traceback__))
    return driver_common.deserialize_remote_exception(data, list(rpcapi.REMOTE_EXCEPTIONS))


def raised(exc):
    try:
        raise exc
    except type(exc) as caught:
        return caught


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
def test_a_refusal_comes_back_without_its_traceback(refusal):
    api = Api()
    api.agents.failing["lab-1"] = remote(raised(refusal))
    answer = api.ask(ADMIN, "/v1/hosts/lab-1/proposals/x", "PUT", {"accepted": True})
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
    transport, vp_agent, ahead_ms
):
    """The database was restored, or somebody else has sent orders to the host."""
    control, _ = vp_agent
    agents = rpcapi.AgentAPI(transport)
    with serving(transport, Endpoint(control, None)):
        hostile = overrides_text(NOW_MS + ahead_ms, {cloud.VICTIM: HOSTILE})
        assert agents.set_orders("lab-1", hostile) is None
        assert opt_out(Api(cloud.records(), agents=agents))["is_told"] is True
    assert control.servers.told.servers[cloud.VICTIM] == ServerOverride(opt_out=True)


def test_an_agent_that_ignores_orders_is_not_called_told(transport, vp_agent, caplog):
    control, ahead_s = vp_agent
    agents = rpcapi.AgentAPI(transport)
    ahead_s[0] = 48 * 3600
    version = NOW_MS + 48 * 3600_000
    with serving(transport, Endpoint(control, None)), caplog.at_level(logging.WARNING):
        agents.set_orders("lab-1", overrides_text(version, {cloud.VICTIM: HOSTILE}))
        told = opt_out(Api(cloud.records(), agents=agents))
    assert (told["orders"]["opt_out"], told["is_told"]) == (True, False)
    assert control.servers.told.servers[cloud.VICTIM] == HOSTILE
    assert f"host=lab-1 ignores its orders: it obeys version {version}" in caplog.text


def test_an_agent_of_an_earlier_release_does_not_say_what_it_ignores(transport):
    class Earlier:
        target = oslo_messaging.Target(version="1.3")

        def set_orders(self, context, text):
            """It answers nothing."""

    with serving(transport, Earlier()):
        assert opt_out(Api(cloud.records(), agents=rpcapi.AgentAPI(transport)))["is_told"] is True
