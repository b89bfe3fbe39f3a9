# SPDX-License-Identifier: Apache-2.0
"""vp-api, and others that send, beside a RabbitMQ that is stopped in the middle of its work."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import oslo_messaging
import pytest
import requests

from nova_vp import conf as options
from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.bounded_sends import SEND_TIMEOUT_S
from nova_vp.service.broker_probe import BrokerProbe, brokers
from tests import identities
from tests.decisions import facts
from tests.freezing import frozen
from tests.keystone import Keystone
from tests.loopback import served
from tests.rabbitmq import free_port
from tests.unit.api import cloud
from tests.unit.api.client import Persona, as_persona, configuration
from tests.unit.api.stored import holding
from tests.unit.api.test_wsgi import TOKEN, prepare, url_of, waitress
from tests.waiting import wait_until
from vp_agent.publish import serving
from vp_agent.publish.metrics import Tally
from vp_api import deploy
from vp_api.reachable_agents import ReachableAgents

CLIENTS = 20
THREADS = 8
"""Of our unit."""
DEADLINE_S = 9
"""Less than an agent may take to answer, and than one after the other would."""


class Agent:
    """The RPC endpoint of a host."""

    def set_mode(self, context, mode):
        """Obeys."""


@pytest.fixture
def url(rabbitmq):
    conf = configuration()
    options.register_all(conf)
    conf.set_override("transport_url", rabbitmq.url, "bus")
    where = rpctransport.target(wire.AGENT_TOPIC, server="lab-1")
    server = rpcserver.BackgroundServer(identities.agent(conf, "lab-1"), where, [Agent()])
    server.start()
    wait_until(lambda: server.is_ready, "the agent to listen")
    bus = identities.api_bus(conf)
    application = deploy.loadapp(
        conf,
        holding(),
        ReachableAgents(rpcapi.AgentAPI(bus), BrokerProbe(brokers(conf)).greet),
        clock=lambda: cloud.NOW,
        authenticate=as_persona(Persona("admin")),
    )
    with served(application, THREADS) as url:
        yield url
    bus.close()
    server.stop()


@pytest.fixture
def clients():
    with ThreadPoolExecutor(CLIENTS) as pool:
        yield pool


def tell(url, headers=None):
    order = {"mode": "observe"}
    return requests.patch(f"{url}/v1/hosts/lab-1", json=order, headers=headers, timeout=DEADLINE_S)


def is_sent(send):
    with suppress(oslo_messaging.MessagingException):
        send()
        return True
    return False


def statuses(answers):
    return {answer.status_code for answer in answers}


def told(clients, url):
    return list(clients.map(tell, [url] * CLIENTS))


def test_who_tells_a_host_something_is_refused_while_the_bus_hangs(url, clients, rabbitmq):
    assert statuses(told(clients, url)) == {200}
    with frozen(rabbitmq.pid):
        answers = told(clients, url)
        assert statuses(answers) == {503}
        assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
        assert answers[0].json()["errors"][0]["code"] == "performance-isolation.bus-unavailable"
        assert requests.get(f"{url}/v1/hosts", timeout=DEADLINE_S).status_code == 200
    wait_until(lambda: statuses(told(clients, url)) == {200}, "service as before")


def test_the_health_of_vp_api_warns_while_who_tells_a_host_something_is_refused(rabbitmq, tmp_path):
    with served(Keystone()) as keystone_url:
        prepare(tmp_path, keystone_url)
        file = tmp_path / "nova-vp.conf"
        file.write_text(file.read_text().replace("fake:/", rabbitmq.url))
        with waitress(tmp_path) as process:
            url = url_of(process)

            def is_well():
                told = requests.get(f"{url}/health", timeout=DEADLINE_S).json()
                return told["status"] == "pass"

            wait_until(is_well, "it to be well")
            with frozen(rabbitmq.pid):
                assert tell(url, TOKEN).status_code == 503
                wait_until(lambda: not is_well(), "it to warn")
            wait_until(is_well, "it to be well")


def test_who_sends_gives_up_soon_while_the_bus_hangs(rabbitmq, clients):
    conf = configuration()
    options.register_all(conf)
    conf.set_override("transport_url", rabbitmq.url, "bus")
    bus = identities.agent_bus(conf)

    def send():
        rpcapi.DigestAPI(bus).digest("{}")

    wait_until(lambda: is_sent(send), "a first message to be sent")
    with frozen(rabbitmq.pid):
        for sending in [clients.submit(send) for _ in range(CLIENTS)]:
            with pytest.raises(
                oslo_messaging.MessageDeliveryFailure, match="the message bus hangs"
            ):
                sending.result(2 * SEND_TIMEOUT_S)
        assert bus.identity.sends.is_hanging
        with pytest.raises(oslo_messaging.MessageDeliveryFailure, match=r"hangs$"):
            send()
    wait_until(lambda: is_sent(send), "messages to be sent again")
    assert not bus.identity.sends.is_hanging


def test_the_health_of_an_agent_warns_once_nothing_can_be_sent(rabbitmq, tmp_path):
    """Its kernel still takes connections: to look for a broker is not enough."""
    conf, port = configuration(), free_port()
    options.register_all(conf)
    conf.set_override("transport_url", rabbitmq.url, "bus")
    about = {"host": "vp1", "metrics_port": port, "state_directory": str(tmp_path)}
    for name, value in about.items():
        conf.set_override(name, value, "agent")
    identity = identities.agent(conf)
    built = SimpleNamespace(
        agent=SimpleNamespace(interval_s=1.0),
        control=SimpleNamespace(last=lambda: None, calls=SimpleNamespace(totals=dict)),
        host_info=facts,
        identity=identity,
        publisher=SimpleNamespace(sent_at_s=None),
    )
    shown = serving.serve(conf, built, Tally(), lambda: True)

    def bus_is(status):
        told = requests.get(f"http://127.0.0.1:{port}/health", timeout=DEADLINE_S).json()
        return told["checks"]["bus:connection"][0]["status"] == status

    try:
        assert bus_is("pass")
        with frozen(rabbitmq.pid):
            with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="bus hangs"):
                rpcapi.DigestAPI(rpctransport.Bus(identity)).digest("{}")
            assert bus_is("warn")
        wait_until(lambda: bus_is("pass"), "it to be well")
    finally:
        shown.close()
