# SPDX-License-Identifier: Apache-2.0
"""From a request to an agent and back over oslo.messaging, with its in-memory transport."""

import contextlib

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging._drivers import common as driver_common

from nova_vp import conf as options
from nova_vp import rpcapi, wire
from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_agent.commands import UnknownAction

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
def api_and_agent():
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], project="nova-vp", default_config_files=[], default_config_dirs=[])
    conf.set_override("transport_url", "fake:/", group="bus")
    transport = rpcapi.open_transport(conf)
    agent = Agent()
    with serving(transport, agent):
        yield Api(cloud.records(), agents=rpcapi.AgentAPI(transport)), agent
    transport.cleanup()


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
