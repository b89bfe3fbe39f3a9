# SPDX-License-Identifier: Apache-2.0
"""What somebody can do who has broken into one compute host: its account, its key, its queues.

Everything over a real RabbitMQ, with accounts and keys as `vp-manage credentials` makes them.
"""

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import amqp
import oslo_messaging
import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.answers import open_asking_bus
from nova_vp.cmd import manage
from nova_vp.conf import database
from nova_vp.core.types.policy import Mode
from nova_vp.db.bus_keys import BusKeyStore, StoredKeys
from nova_vp.db.report_store import ReportStore
from nova_vp.queues import TO_HOSTS, TO_SERVICES, exchange_of
from nova_vp.service.broker_accounts import HOST_LIMITS
from nova_vp.signing.envelope import Sealed, Signer
from nova_vp.signing.identity import Identity, trusted_keys
from nova_vp.signing.keyring import (
    FirstKnown,
    ToldKeys,
    new_private_key,
    public_text,
    read_private_key,
)
from nova_vp.signing.senders import Process, Sender
from tests.messages import NothingToSay, digest_text, escalation_text, report_text
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.commands import UnknownAction
from vp_agent.loop.command_server import CommandServer
from vp_scheduler.ingest.service import Service
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.placement.listener import DigestListener

ESCALATION = "99999999-9999-5999-8999-999999999999"


class Site:
    """Controller ctl1 and hosts vp1 to vp3, each with its files and nothing else."""

    def __init__(self, folder: Path, rabbitmq: RabbitMQ, database_url: str) -> None:
        self._rabbitmq = rabbitmq
        self._made = folder / "made"
        file = folder / "nova-vp.conf"
        file.write_text(f"[database]\nconnection = {database_url}\n")
        hosts = ("--host=vp1", "--host=vp2", "--host=vp3", "--controller=ctl1")
        argv = (f"--broker={rabbitmq.url_of('')}".replace("@", ""), f"--directory={self._made}")
        arguments = [f"--config-file={file}", "credentials", "create", *argv, *hosts]
        assert manage.main(arguments) == 0
        rabbitmq.import_definitions(self._made / "rabbitmq.json")
        self.database_url = database_url

    def conf(self, process: Process, host: str) -> cfg.ConfigOpts:
        """What is in the files of that program."""
        conf = cfg.ConfigOpts()
        options.register_all(conf)
        database.register_opts(conf)
        conf(["--config-file", str(self._made / host / f"{process}.conf")])
        conf.set_override("keys_directory", str(self._made / host / "keys"), group="bus")
        if process in (Process.SCHEDULER, Process.API):
            conf.set_override("connection", self.database_url, group="database")
        return conf

    def identity(self, process: Process, host: str = "ctl1") -> Identity:
        conf = self.conf(process, host)
        if process in (Process.SCHEDULER, Process.API):
            return Identity(conf, process, lambda: StoredKeys(BusKeyStore(conf)), host)
        return Identity(conf, process, lambda: trusted_keys(conf), host)

    def account(self, process: Process, host: str) -> tuple[str, str]:
        url = oslo_messaging.TransportURL.parse(
            self.conf(process, host), self.conf(process, host).bus.transport_url
        )
        return url.hosts[0].username, url.hosts[0].password

    def connect(self, process: Process, host: str) -> amqp.Connection:
        user, password = self.account(process, host)
        connection = amqp.Connection(
            f"127.0.0.1:{self._rabbitmq.port}", userid=user, password=password
        )
        connection.connect()
        return connection


class Commands:
    """An agent's; it remembers what it obeyed."""

    def __init__(self) -> None:
        self.modes: list[Mode] = []

    def set_mode(self, mode: Mode) -> None:
        self.modes.append(mode)

    def accept(self, action_id: str) -> None:
        raise UnknownAction(f"no proposal {action_id}")


class Ledger:
    """Implements `rpcapi.EscalationAPI`'s other end, with the check that the real one has."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    def escalate(self, call: Any, text: str) -> None:
        self.hosts.append(call.sender.host)


@pytest.fixture(scope="module")
def site(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory, synced_file: Path) -> Site:
    folder = tmp_path_factory.mktemp("site")
    copy = folder / "store.sqlite"
    copy.write_bytes(synced_file.read_bytes())
    return Site(folder, rabbitmq, f"sqlite:///{copy}")


def digest_listener(site: Site, view: HostView) -> DigestListener:
    told, conf = ToldKeys(), site.conf(Process.NOVA_SCHEDULER, "ctl1")
    identity = Identity(
        conf, Process.NOVA_SCHEDULER, lambda: FirstKnown(trusted_keys(conf), told), "ctl1"
    )
    return DigestListener(identity, view, told)


@pytest.fixture(scope="module")
def cloud(site: Site) -> Iterator[SimpleNamespace]:
    """All that is there for an attacker to harm: everybody with their own account."""
    scheduler = site.identity(Process.SCHEDULER)
    store, ledger, commands = ReportStore(scheduler.conf), Ledger(), Commands()
    service = Service(scheduler, store)
    where = rpctransport.target(wire.ESCALATION_TOPIC, server="vp-scheduler")
    escalations = rpcserver.BackgroundServer(scheduler, where, [ledger])
    view = HostView(180.0)
    listener = digest_listener(site, view)
    agent = CommandServer(site.identity(Process.AGENT, "vp2"), commands, NothingToSay())
    for one in (service, escalations, listener, agent):
        one.start()
    wait_until(
        lambda: service.is_listening and escalations.is_ready and agent.is_listening, "all", 60
    )
    api = open_asking_bus(site.identity(Process.API))
    yield SimpleNamespace(
        store=store,
        ledger=ledger,
        modes=commands.modes,
        view=view,
        service=service,
        api=rpcapi.AgentAPI(api),
        refusals=lambda: listener._endpoint.refusals.counts.total(),
    )
    api.close()
    agent.close()
    listener.stop(0.1)
    escalations.stop(0.1)
    service.stop(0.1)


def as_host(site: Site, host: str = "vp1") -> rpctransport.Bus:
    return open_asking_bus(site.identity(Process.AGENT, host))


def test_everybody_can_do_their_work_with_their_account(site: Site, cloud: SimpleNamespace) -> None:
    """Otherwise what is refused below would show nothing."""
    with closing(as_host(site)) as bus:

        def is_known() -> bool:
            rpcapi.DigestAPI(bus).digest(digest_text("vp1", order=(1, time.monotonic_ns())))
            return cloud.view.get("vp1") is not None

        wait_until(is_known, "the digest of vp1")
        rpcapi.ReportAPI(bus).report(report_text("vp1"))
        wait_until(lambda: cloud.store.get_host("vp1"), "the report of vp1")
        rpcapi.EscalationAPI(bus).escalate(escalation_text(ESCALATION, "vp1"))
        assert cloud.ledger.hosts == ["vp1"]
    cloud.api.set_mode("vp2", "advise")
    assert cloud.modes == [Mode.ADVISE]
    with pytest.raises(UnknownAction, match="no proposal a9"):
        cloud.api.accept("vp2", "a9")


def publish(exchange: str, key: str) -> Callable[[amqp.Channel], object]:
    return lambda channel: channel.basic_publish(amqp.Message("{}"), exchange, key)


def consume(queue: str) -> Callable[[amqp.Channel], object]:
    return lambda channel: channel.basic_get(queue)


def declare(queue: str, **arguments: object) -> Callable[[amqp.Channel], object]:
    return lambda channel: channel.queue_declare(queue, auto_delete=False, arguments=arguments)


def bind(queue: str, exchange: str, key: str = "") -> Callable[[amqp.Channel], object]:
    def bound(channel: amqp.Channel) -> None:
        channel.queue_declare(queue, auto_delete=False)
        channel.queue_bind(queue, exchange, key)

    return bound


OWN = f"vp_answer.vp-agent.vp1.{'0' * 32}"
UNUSED = f"vp_answer.vp-agent.vp1.{'1' * 32}"
OWN_OF = {
    Process.API: (f"vp_answer.vp-api.ctl1.{'0' * 32}",) * 2,
    Process.NOVA_SCHEDULER: (f"vp_digest.ctl1.{'1' * 32}", wire.DIGEST_TOPIC),
}
"""A queue of a service's own, and what it hears there."""
NOT_ITS_QUEUE = r"access to (exchange|topic) "
"""Is refused: the queue with which it listens it may have."""
ORDERS = "vp_agent.vp2"
"""The queue of another host."""
TRIED_AT_THE_BROKER: dict[str, Callable[[amqp.Channel], object]] = {
    "order to another host": publish(TO_HOSTS, ORDERS),
    "order to all hosts": publish(TO_HOSTS, "vp_agent"),
    "message past the exchanges": publish("", ORDERS),
    "answer in the name of a host": publish(TO_HOSTS, "vp_answer.vp-agent.vp2.x"),
    "read another host's orders": consume(ORDERS),
    "read reports": consume("vp_report"),
    "read escalations": consume("vp_escalation"),
    "read usage": consume("vp_usage"),
    "read calls of overlays": consume("vp_overlay_call"),
    "listen to reports": bind(OWN, TO_SERVICES, "vp_report"),
    "listen to digests": bind(OWN, TO_SERVICES, "vp_digest"),
    "listen to another host's orders": bind(OWN, TO_HOSTS, ORDERS),
    "listen to all orders": bind(OWN, TO_HOSTS, "vp_agent.*"),
    "listen to everything": bind(OWN, TO_HOSTS, "#"),
    "listen to the broker's events": bind(OWN, "amq.rabbitmq.event", "#"),
    "listen to what the broker traces": bind(OWN, "amq.rabbitmq.trace", "#"),
    "a queue of no name of its own": bind("stolen", TO_HOSTS, "vp_agent.vp1"),
    "a queue that the broker names": declare(""),
    "the queue of a host to come": declare("vp_agent.vp9"),
    "the queue of a host whose name goes on": declare("vp_agent.vp1.example.org"),
    "another host's queue as it pleases": declare(ORDERS, **{"x-max-length": 0}),
    "the queue of all hosts": declare("vp_agent"),
    "the reports' queue as it pleases": declare("vp_report", **{"x-max-length": 0}),
    "a queue of a nova-scheduler": declare(f"vp_digest.ctl1.{'0' * 32}"),
    "delete another host's queue": lambda channel: channel.queue_delete(ORDERS),
    "empty another host's queue": lambda channel: channel.queue_purge(ORDERS),
    "cut another host off": lambda channel: channel.queue_unbind(ORDERS, TO_HOSTS, ORDERS),
    "delete the reports": lambda channel: channel.queue_delete("vp_report"),
    "empty the reports": lambda channel: channel.queue_purge("vp_report"),
    "cut the reports off": lambda channel: channel.queue_unbind(
        "vp_report", TO_SERVICES, "vp_report"
    ),
    "delete the exchange of orders": lambda channel: channel.exchange_delete(TO_HOSTS),
    "delete the exchange of reports": lambda channel: channel.exchange_delete(TO_SERVICES),
    "make an exchange anew": lambda channel: channel.exchange_declare(
        TO_HOSTS, "fanout", durable=True, auto_delete=False
    ),
    "an exchange of its own": lambda channel: channel.exchange_declare("vp_agent_fanout", "fanout"),
    "lead orders elsewhere": lambda channel: channel.exchange_bind(
        TO_SERVICES, TO_HOSTS, "vp_agent.vp2"
    ),
    "lead reports to hosts": lambda channel: channel.exchange_bind(
        TO_HOSTS, TO_SERVICES, "vp_report"
    ),
    "have its dead messages sent to any queue": declare(
        UNUSED, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": ORDERS}
    ),
    "have its dead messages sent to hosts": declare(
        UNUSED, **{"x-dead-letter-exchange": TO_HOSTS, "x-dead-letter-routing-key": ORDERS}
    ),
}


def attempt(connection: amqp.Connection, what: Callable[[amqp.Channel], object]) -> None:
    channel = connection.channel()
    what(channel)
    # A publish is answered with the next call.
    channel.queue_declare(OWN, passive=True)


@pytest.mark.parametrize("what", TRIED_AT_THE_BROKER)
def test_the_broker_refuses(site: Site, cloud: SimpleNamespace, what: str) -> None:
    connection = site.connect(Process.AGENT, "vp1")
    with contextlib.suppress(OSError, amqp.AMQPError):
        connection.channel()  # So that the refusal is not of the first channel.
    told = NOT_ITS_QUEUE if what.startswith("listen to") else "ACCESS_REFUSED"
    with pytest.raises(amqp.AccessRefused, match=told):
        attempt(connection, TRIED_AT_THE_BROKER[what])
    with contextlib.suppress(OSError, amqp.AMQPError):
        connection.close()


def test_the_broker_lets_everybody_listen_with_a_queue_of_its_own(
    site: Site, cloud: SimpleNamespace
) -> None:
    """Otherwise its queue would be what is refused below, and not that it listens to others."""
    for process, host, queue, exchange, key in (
        (Process.AGENT, "vp1", OWN, TO_HOSTS, OWN),
        *((process, "ctl1", queue, TO_SERVICES, key) for process, (queue, key) in OWN_OF.items()),
    ):
        with closing(site.connect(process, host)) as connection:
            attempt(connection, bind(queue, exchange, key))


@pytest.mark.parametrize("process", OWN_OF)
@pytest.mark.parametrize(
    "what",
    [
        "delete another host's queue",
        "read another host's orders",
        "read reports",
        "delete the reports",
        "read escalations",
        "an exchange of its own",
        "message past the exchanges",
        "answer in the name of a host",
    ],
)
def test_the_broker_refuses_a_service(
    site: Site, cloud: SimpleNamespace, process: Process, what: str
) -> None:
    connection = site.connect(process, "ctl1")
    with pytest.raises(amqp.AccessRefused):
        attempt(connection, TRIED_AT_THE_BROKER[what])
    with contextlib.suppress(OSError, amqp.AMQPError):
        connection.close()


@pytest.mark.parametrize("process", OWN_OF)
@pytest.mark.parametrize("key", [ORDERS, "vp_agent", "#"])
def test_the_broker_lets_no_service_listen_to_orders(
    site: Site, cloud: SimpleNamespace, process: Process, key: str
) -> None:
    connection = site.connect(process, "ctl1")
    with pytest.raises(amqp.AccessRefused, match=NOT_ITS_QUEUE):
        attempt(connection, bind(OWN_OF[process][0], TO_HOSTS, key))
    with contextlib.suppress(OSError, amqp.AMQPError):
        connection.close()


def send_with_copy(connection: amqp.Connection, exchange: str, key: str, copy: str) -> None:
    with closing(connection):
        channel = connection.channel()
        message = amqp.Message("{}", application_headers={"CC": [copy]})
        channel.basic_publish(message, exchange, key)
        channel.close()


def test_a_host_cannot_copy_to_hosts_what_it_may_send_to_services(
    site: Site, rabbitmq: RabbitMQ
) -> None:
    """RabbitMQ compares no right with a copy's key: what a service may not send, it can copy."""
    agent, api = site.connect(Process.AGENT, "vp1"), site.connect(Process.API, "ctl1")
    rabbitmq.bind("from-host", TO_HOSTS, "vp_agent.copied")
    rabbitmq.bind("from-service", TO_HOSTS, "vp_answer.vp-agent.copied")
    send_with_copy(agent, TO_SERVICES, "vp_report", "vp_agent.copied")
    send_with_copy(api, TO_HOSTS, "vp_agent.vp9", "vp_answer.vp-agent.copied")
    assert (rabbitmq.waiting("from-host"), rabbitmq.waiting("from-service")) == (0, 1)


MALFORMED = {
    "no JSON": amqp.Message("{", content_type="application/json", content_encoding="utf-8"),
    "no type": amqp.Message("{}"),
    "not UTF-8": amqp.Message(
        b"\xff\xfe", content_type="application/json", content_encoding="utf-8"
    ),
    "a type that Python executes": amqp.Message(
        b"cos\nsystem\n.", content_type="application/x-python-serialize", content_encoding="binary"
    ),
    "no envelope": amqp.Message("[]", content_type="application/json", content_encoding="utf-8"),
    "an encoding of no name": amqp.Message(
        b"{}", content_type="application/json", content_encoding="x"
    ),
    "compressed badly": amqp.Message(
        b"{}", application_headers={"compression": "application/x-gzip"}
    ),
    "compressed in no known way": amqp.Message(b"{}", application_headers={"compression": "x"}),
    "headers of no meaning": amqp.Message("{}", application_headers={"a": {"b": [1, {}]}}),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_no_message_stops_a_listener(
    site: Site, cloud: SimpleNamespace, rabbitmq: RabbitMQ, what: str
) -> None:
    """As many as a listener takes before it has acknowledged one, and more."""
    with closing(site.connect(Process.AGENT, "vp1")) as connection:
        channel = connection.channel()
        for _ in range(150):
            channel.basic_publish(MALFORMED[what], TO_SERVICES, "vp_report")
    with closing(as_host(site, "vp2")) as bus:
        moment = time.monotonic_ns()
        rpcapi.ReportAPI(bus).report(report_text("vp2", (5, moment)))

        def is_stored() -> bool:
            stored = cloud.store.get_host("vp2")
            return stored is not None and stored.sequence == moment

        wait_until(is_stored, "a report after them", 30)


def test_a_host_has_a_limited_number_of_connections(site: Site) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(HOST_LIMITS["max-connections"]):
            opened.enter_context(closing(site.connect(Process.AGENT, "vp3")))
        with pytest.raises(amqp.AMQPError, match="connection limit"):
            site.connect(Process.AGENT, "vp3")


def test_an_account_of_nobody_is_not_let_in(site: Site, rabbitmq: RabbitMQ) -> None:
    connection = amqp.Connection(f"127.0.0.1:{rabbitmq.port}", userid="nova-vp", password="x")
    with pytest.raises(amqp.AMQPError):
        connection.connect()


def all_as_before(cloud: SimpleNamespace, send: Callable[[], None]) -> None:
    """What is sent has no effect by the time at which what is sent after it has had its."""
    before = cloud.modes[:], cloud.ledger.hosts[:], cloud.view.get("vp2"), cloud.store.list_heads()
    send()
    after = cloud.modes[:], cloud.ledger.hosts[:], cloud.view.get("vp2"), cloud.store.list_heads()
    assert [head.host for head in after[3]] == [head.host for head in before[3]]
    assert after[:3] == before[:3]


def test_a_host_speaks_for_itself_only(site: Site, cloud: SimpleNamespace) -> None:
    def lie() -> None:
        with closing(as_host(site)) as bus:
            refused, seen = cloud.service.endpoint.refusals.counts, cloud.refusals()
            before = refused["unwelcome"]
            rpcapi.DigestAPI(bus).digest(digest_text("vp2"))
            rpcapi.ReportAPI(bus).report(report_text("vp2"))
            wait_until(lambda: refused["unwelcome"] > before, "the report to be refused")
            wait_until(lambda: cloud.refusals() > seen, "the digest to be refused")

    all_as_before(cloud, lie)


class Sent:
    """What is put on the bus without oslo.messaging, with the account of that program."""

    def __init__(self, site: Site, process: Process, host: str) -> None:
        self._site, self._process, self._host = site, process, host

    def __call__(self, topic: str, server: str, sealed: Sealed) -> None:
        message = {
            "method": "deliver",
            "version": rpctransport.VERSION,
            "args": sealed._asdict(),
            "_unique_id": f"{time.monotonic_ns():032x}",
            "_timeout": None,
        }
        body = json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)})
        with closing(self._site.connect(self._process, self._host)) as connection:
            connection.channel().basic_publish(
                amqp.Message(body, content_type="application/json", content_encoding="utf-8"),
                exchange_of(topic, server),
                f"{topic}.{server}" if server else topic,
            )


def refused_as(caplog: pytest.LogCaptureFixture, words: str) -> None:
    wait_until(lambda: words in caplog.text, words)


@pytest.fixture
def every_refusal(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Also those between the first, the tenth and the hundredth are told."""
    monkeypatch.setattr(
        "nova_vp.message_filter.MessageFilter.note",
        lambda self, kind, what, exc, level=0: logging.getLogger("refused").warning("%s", exc),
    )


@pytest.mark.usefixtures("every_refusal")
def test_orders_with_stolen_broker_rights_are_not_believed(
    site: Site, cloud: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Even who has vp-api's account, but not its key, is not obeyed; nor is an order of vp-api to
    another host, nor one that has come before, nor one under a key that is not in use."""
    send = Sent(site, Process.API, "ctl1")
    api = Signer(Sender(Process.API, "ctl1"), site.identity(Process.API).signer._key)
    host = site.identity(Process.AGENT, "vp1").signer
    order = ("set_mode", {"mode": "enforce"})

    def try_it(words: str, sealed: Sealed) -> None:
        all_as_before(cloud, lambda: (send("vp_agent", "vp2", sealed), refused_as(caplog, words)))

    thief = Signer(api.sender, host._key)
    try_it("fits none of its keys", thief.seal("vp_agent.vp2", *order))
    scheduler = site.identity(Process.SCHEDULER).signer
    try_it("may not call set_mode", scheduler.seal("vp_agent.vp2", *order))
    try_it("no key of vp-agent/vp1 is in use", host.seal("vp_agent.vp2", *order))
    try_it("is for vp_agent.vp1", api.seal("vp_agent.vp1", *order))
    unknown = Signer(Sender(Process.API, "ctl9"), new_private_key())
    try_it("no key of vp-api/ctl9 is in use", unknown.seal("vp_agent.vp2", *order))
    late = Signer(api.sender, api._key, lambda: time.time() - 181)
    try_it("is that clock right", late.seal("vp_agent.vp2", *order))
    good = api.seal("vp_agent.vp2", *order)
    obeyed = len(cloud.modes)
    send("vp_agent", "vp2", good)
    wait_until(lambda: len(cloud.modes) == obeyed + 1, "a true order to be obeyed")
    try_it("has come before", good)


@pytest.mark.usefixtures("every_refusal")
def test_a_removed_host_and_its_retired_key_change_nothing(
    site: Site, cloud: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    keys = BusKeyStore(site.conf(Process.SCHEDULER, "ctl1"))
    with closing(as_host(site, "vp3")) as removed, closing(as_host(site, "vp1")) as ours:
        report = rpcapi.ReportAPI(removed).report
        report(report_text("vp3"))
        wait_until(lambda: cloud.store.get_host("vp3"), "its report, while it is one of ours")
        assert keys.retire(Sender(Process.AGENT, "vp3"), datetime.now(UTC)) == 1

        def is_refused() -> bool:
            report(report_text("vp3", (1, 1)))
            return "no key of vp-agent/vp3 is in use" in caplog.text

        wait_until(is_refused, "its reports to be refused", 40)
        all_reports_are_in(cloud, ours, 1)
        cloud.store.forget_host("vp3")
        report(report_text("vp3", (9, 9)))
        all_reports_are_in(cloud, ours, 2)
        assert cloud.store.get_host("vp3") is None
        # A nova-scheduler that runs is told of it within a minute, one that starts at once.
        view = HostView(180.0)
        listener = digest_listener(site, view)
        listener.start()

        def is_known() -> bool:
            for bus, host in ((removed, "vp3"), (ours, "vp1")):
                order = (1, time.monotonic_ns())
                rpcapi.DigestAPI(bus).digest(digest_text(host, order=order))
            return view.get("vp1") is not None

        wait_until(is_known, "the digest of vp1")
        assert view.get("vp3") is None
        listener.stop(0.1)


def all_reports_are_in(cloud: SimpleNamespace, ours: Any, sequence: int) -> None:
    """Those sent before this one of another host: one queue has them all."""
    epoch = 10
    rpcapi.ReportAPI(ours).report(report_text("vp1", (epoch, sequence)))

    def is_in() -> bool:
        host = cloud.store.get_host("vp1")
        return host is not None and (host.epoch, host.sequence) == (epoch, sequence)

    wait_until(is_in, "the report of a host that is ours")


def test_the_key_of_a_host_is_its_own(site: Site) -> None:
    texts = {public_text(read_private_key(path).public_key()) for path in site._made.rglob("*.pem")}
    assert len(texts) == 6
