# SPDX-License-Identifier: Apache-2.0
"""What the lab's broker, store and scheduler make of messages that nobody should have sent.

Everything goes through the real broker, to the very processes that the cloud runs on.
"""

import base64
import gc
import json
import random
import re
import socket
import warnings

import amqp
import pytest
from oslo_config import cfg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Nova and oslo.messaging warn about themselves.
    import oslo_messaging  # noqa: F401

from nova_vp import conf as options
from nova_vp import rpcapi, rpctransport, wire
from nova_vp.conf import database
from nova_vp.db.report_store import ReportStore
from nova_vp.queues import SHARED
from nova_vp.signing.identity import Identity
from nova_vp.signing.keyring import ToldKeys
from nova_vp.signing.senders import Process
from testbed.lab import cloud, controller, settings
from tests.lab.hosts import HOSTS
from tests.lab.operators import CONTROLLER_CONF, openstack, reconfigured
from tests.messages import a_domain, digest_text, report_text

CREDENTIALS = controller.CREDENTIALS
POLICIES = settings.ROOT / "etc" / "nova-vp" / "rabbitmq-policies.json"
AGENTS = tuple(f"vp-agent@{host}" for host in HOSTS)
SERVICES = ("vp-scheduler", "nova-scheduler", "vp-api", "rabbitmq", *AGENTS)
MIB = 1024 * 1024
TOO_MANY = 300
"""Reports of the largest size: more than the queue may hold."""
INCOMPRESSIBLE = base64.b64encode(random.Random(1).randbytes(3 * MIB // 4)).decode()
"""Calls cross the bus compressed."""
BAD = [None, 7, {"a": [1]}, "{", "[" * 100_000, "x" * (2 * MIB), '{"v": 1}', '{"v": 1e999}']
HURT = (a_domain(0, newcomer=0.9, cpus=1), a_domain(1, newcomer=0.9, cpus=1))


def a_conf(folder):
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[])
    conf.set_override("transport_url", settings.RABBIT_URL, group="bus")
    conf.set_override("keys_directory", str(folder / "keys"), group="bus")
    return conf


def a_bus(folder, process, host):
    return rpctransport.Bus(Identity(a_conf(folder), process, ToldKeys, host))


class Bus:
    """Somebody with credentials for the broker and the database, and everybody's keys."""

    def __init__(self):
        conf = a_conf(CREDENTIALS)
        database.register_opts(conf)
        conf.set_override("connection", settings.database_url("nova_vp"), group="database")
        self.store = ReportStore(conf)
        self.agents = rpcapi.AgentAPI(a_bus(CREDENTIALS, Process.SCHEDULER, socket.gethostname()))
        self._hosts = {
            host: a_bus(CREDENTIALS.parent / host, Process.AGENT, host) for host in HOSTS
        }
        # Who has a key signs in whatever name it likes.
        self._hosts["stranger"] = a_bus(CREDENTIALS.parent / HOSTS[0], Process.AGENT, "stranger")

    def digest(self, text, host=HOSTS[0]):
        rpcapi.DigestAPI(self._hosts[host]).digest(text)

    def report(self, text, host=HOSTS[0]):
        rpcapi.ReportAPI(self._hosts[host]).report(text)

    def order(self, host):
        """Of the newest report that is stored."""
        what = f"{host} to have reported"
        record = cloud.wait_for(lambda: self.store.get_host(host), what, deadline_s=60)
        return wire.MessageVersion(record.epoch, record.sequence)

    def wait_for_news(self, host, since):
        def is_new():
            self.agents.republish(0.0)
            return self.order(host).is_newer_than(since)

        what = f"a report of {host} to be stored"
        cloud.wait_for(is_new, what, deadline_s=60, interval_s=0.5)


@pytest.fixture(scope="module")
def bus(admin):
    yield Bus()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # oslo.messaging leaves its sockets to the collector.
        gc.collect()


def pids():
    return {service: cloud.service_pid(service) for service in SERVICES}


def hosts():
    """As the CLI lists them, without what only time changes."""
    told = json.loads(openstack("vp", "host", "list", "-f", "json").stdout)
    return [{key: host[key] for key in host if key not in ("Age", "Stale")} for host in told]


def modes():
    return {host["Mode"] for host in hosts() if host["Host"] in HOSTS}


def queues(*columns):
    text = controller.rabbitmqctl("-q", "list_queues", "name", *columns, "--formatter", "json")
    return {queue.pop("name"): queue for queue in json.loads(text)}


def limits_in_force():
    """Of every queue in one moment, says the broker: queues of clients come and go meanwhile."""
    named = "{element(4, amqqueue:get_name(Q)), rabbit_policy:effective_definition(Q)}"
    listed = f'maps:from_list([{named} || Q <- rabbit_amqqueue:list(<<"/">>)])'
    told = controller.rabbitmqctl("-q", "eval", f'io:format("~s", [rabbit_json:encode({listed})]).')
    return json.JSONDecoder().raw_decode(told)[0]


def shipped_limits(queue):
    policies = [entry["value"] for entry in json.loads(POLICIES.read_text())["parameters"]]
    [found] = [p["definition"] for p in policies if re.search(p["pattern"], queue)]
    return found


def test_the_limits_we_ship_are_in_force_on_all_our_queues(bus):
    ours = {name: told for name, told in limits_in_force().items() if name.startswith("vp_")}
    kinds = {name.split(".")[0] for name in ours}
    services = set(SHARED)
    topics = {*services, wire.DIGEST_TOPIC, wire.AGENT_TOPIC}
    assert topics <= kinds <= topics | {wire.ANSWER_TOPIC}, "answers come with the first call"
    for name in (
        *services,
        *(one for one in ours if one.startswith("vp_digest")),
    ):
        assert ours[name] == shipped_limits(name)


def test_a_stopped_vp_scheduler_does_not_fill_the_broker(bus):
    orders, before = {host: bus.order(host) for host in HOSTS}, hosts()
    most = shipped_limits("vp_report")["max-length-bytes"]
    assert most < TOO_MANY * MIB
    cloud.stop("vp-scheduler")
    try:
        for _ in range(TOO_MANY):
            bus.report(INCOMPRESSIBLE)
        held = queues("messages", "message_bytes")["vp_report"]
        assert 0 < held["messages"] < TOO_MANY
        assert held["message_bytes"] <= most
    finally:
        cloud.start("vp-scheduler")
    for host, order in orders.items():
        bus.wait_for_news(host, order)
    cloud.wait_for(is_drained, "the queue to be empty", deadline_s=120)
    assert hosts() == before


def is_drained():
    return queues("messages")["vp_report"]["messages"] == 0


def test_hostile_reports_leave_the_store_right(bus):
    before = hosts()
    known = f"[vp_scheduler]\nknown_hosts = {','.join(HOSTS)}"
    with reconfigured(CONTROLLER_CONF, known, "vp-scheduler"):
        alive, orders = pids(), {host: bus.order(host) for host in HOSTS}
        for text in BAD:
            bus.report(text)
        publish_raw("amq.direct", wire.REPORT_TOPIC)
        for host, order in orders.items():
            for old in (1, 1), (order.epoch, order.sequence - 1), (order.epoch, order.sequence):
                bus.report(report_text(host, order=old, mode="enforce"), host)
        bus.report(report_text("stranger", order=(2**50, 1)), "stranger")
        for host, order in orders.items():
            bus.wait_for_news(host, order)
        assert hosts() == before
        assert pids() == alive


def test_hostile_digests_leave_placement_right(bus, strict_is_placed):
    alive, orders = pids(), {host: bus.order(host) for host in HOSTS}
    for text in BAD:
        bus.digest(text)
    publish_raw("amq.direct", wire.DIGEST_TOPIC)
    for host, order in orders.items():
        for old in (1, 1), (order.epoch, order.sequence - 1), (order.epoch, order.sequence):
            bus.digest(digest_text(host, *HURT, order=old), host)
    bus.digest(digest_text("stranger", *HURT, order=(2**50, 1)), "stranger")
    reason = strict_is_placed()
    assert all(f"{host}: passed, domain" in reason for host in HOSTS)
    assert "stranger" not in reason
    assert pids() == alive


def test_a_restarted_agent_is_heard_however_few_its_messages(bus, strict_is_placed):
    """A forger was believed, with a sequence that the agent never reaches: now it is void."""
    orders = {host: bus.order(host) for host in HOSTS}
    for host, order in orders.items():
        far = (order.epoch, order.sequence + 1000)
        bus.digest(digest_text(host, *HURT, order=far), host)
        bus.report(report_text(host, order=far, mode="enforce"), host)
    with pytest.raises(cloud.LabError, match="No valid host"):
        strict_is_placed()
    assert modes() == {"enforce"}
    for agent in AGENTS:
        cloud.stop(agent)
        cloud.start(agent)
    for host, order in orders.items():
        bus.wait_for_news(host, wire.MessageVersion(order.epoch, order.sequence + 1000))
        assert bus.order(host).sequence < order.sequence + 1000
    assert modes() == {"advise"}
    strict_is_placed()


@pytest.fixture
def strict_is_placed(admin):
    """Boots a strict server; what our plugins said of the hosts. Raises LabError: refused."""
    flavor = cloud.put_flavor(admin, "t.strict", specs={"vp:isolation": "strict"})

    def boot():
        return cloud.placement_reason(cloud.boot(admin, "t-strict", flavor).id)

    yield boot
    cloud.delete(admin, *admin.compute.servers())


def publish_raw(exchange, routing_key):
    """Not even oslo.messaging's envelope."""
    with amqp.Connection(
        f"{settings.CONTROLLER_IP}:{settings.RABBIT_PORT}",
        userid="cloud",
        password=settings.PASSWORD,
    ) as connection:
        channel = connection.channel()
        for body in (b"\xff\xfe", b"[]", b"{}", b'{"oslo.version": "2.0", "oslo.message": "{}"}'):
            message = amqp.Message(body, content_type="application/json", content_encoding="utf-8")
            channel.basic_publish(message, exchange, routing_key)
