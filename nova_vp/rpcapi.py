# SPDX-License-Identifier: Apache-2.0
"""RPC clients of what crosses processes, with their version history; servers: `rpcserver.py`.

Every call is a cast of one signed text (`nova_vp.signing`); who waits for an answer gets it as a
cast too, so that no account needs the broker's default exchange. 1.x were unsigned calls, which
are refused; the methods below are those of 2.0.

Exchanges are named with every message (`nova_vp.queues`): the default one is what
`control_exchange` says, which Nova sets otherwise than we would, and messages would silently miss
each other.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import oslo_messaging
from amqp import AMQPError
from kombu import exceptions as kombu_exceptions
from oslo_config import cfg
from oslo_context import context as request_context

from nova_vp import queues, wire
from nova_vp.signing.identity import Identity
from nova_vp.signing.senders import Process, Sender

VERSION = "2.0"
CALL_TIMEOUT_S = 10
SEND_RETRIES = 1
"""Once more, since the first send after a broker restart finds the old connection dead."""

NO_LONGER_HURT = wire.NO_LONGER_HURT
"""Why a migration is not needed any more, from `prepare_migration`."""
MIGRATION_OUTCOMES = ("completed", "failed", "aborted", "timed-out", "refused", "withdrawn")

TRANSPORT_DEFAULTS = {
    # What a consumer has not begun with stays in the broker, where it expires.
    "rabbit_qos_prefetch_count": "100",
}
FLEETING_QUEUES = {
    # Deleted with the connection of who listens; quorum queues cannot be.
    "amqp_auto_delete": "true",
    "rabbit_quorum_queue": "false",
    # Somebody waits at the other end: a broker that is back is found within seconds, not 30.
    "rabbit_interval_max": "5",
}


def open_transport(
    conf: cfg.ConfigOpts, *, has_fleeting_queues: bool = False
) -> oslo_messaging.Transport:
    """Reads options only; connects when used. Never open one before a fork.

    `has_fleeting_queues`: those that are declared over it go with their listener. Raises cfg.Error
    for an URL that no driver understands.
    """
    _register_unlisted(conf)
    try:
        url = oslo_messaging.TransportURL.parse(conf, conf.bus.transport_url)
        if url.transport == "rabbit":
            fleeting = FLEETING_QUEUES if has_fleeting_queues else {}
            url.query = {**TRANSPORT_DEFAULTS, **url.query, **fleeting}
        return oslo_messaging.get_rpc_transport(conf, url=url)
    except (oslo_messaging.InvalidTransportURL, oslo_messaging.DriverLoadFailure) as exc:
        raise cfg.Error(
            f"{exc}; give [bus] transport_url, or [DEFAULT] transport_url without it, the form "
            "rabbit://user:password@host:5672/"
        ) from exc


def _register_unlisted(conf: cfg.ConfigOpts) -> None:
    """oslo.messaging reads these of any object, and registers them on the global one alone."""
    for name in ("metrics", "tracing"):
        try:
            module = importlib.import_module(f"oslo_messaging._{name}.client")
        except ImportError:
            continue  # an older release, without
        group = f"oslo_messaging_{name}"
        conf.register_opts(getattr(module, group), group=group)


def target(topic: str, server: str | None = None) -> oslo_messaging.Target:
    """All who listen to a topic, or the one that does as that server."""
    exchange = queues.exchange_of(topic, server)
    return oslo_messaging.Target(exchange=exchange, topic=topic, server=server, version=VERSION)


def reach(conf: cfg.ConfigOpts) -> None:
    """Says something that nobody listens to, and signs nothing; for agents. Raises oslo.messaging's
    exceptions if the broker does not take it, cfg.Error as `open_transport`."""
    transport = open_transport(conf)
    try:
        with _in_our_words():
            _oslo_client(transport, target(queues.STATUS_TOPIC)).cast({}, "reach")
    finally:
        transport.cleanup()


class NobodyListens(Exception):
    """The broker is there, but no queue for the message. The text says what to do."""


class Waiting(Protocol):
    """Where a process waits for answers to its calls: `nova_vp.answers.Answers`."""

    def ask(
        self,
        send: Callable[[str, str], None],
        may_answer: Callable[[Sender], bool],
        timeout_s: float,
    ) -> Any:
        """What was answered to what `send` sends with this id and this address of ours.

        Raises what the answer says, or MessagingTimeout."""

    def close(self) -> None: ...


class Bus:
    """What one process sends with: its connections and its signature. Connects when first used;
    never use one before a fork."""

    def __init__(
        self,
        identity: Identity,
        answers: Waiting | None = None,
        *,
        has_fleeting_queues: bool = False,
    ) -> None:
        """`answers`: of one that calls; others only cast. `has_fleeting_queues` as of
        `open_transport`. Raises cfg.Error for an URL of the bus that cannot be used."""
        self.identity = identity
        self.answers = answers
        self.transport = open_transport(identity.conf, has_fleeting_queues=has_fleeting_queues)

    def close(self) -> None:
        if self.answers:
            self.answers.close()
        self.transport.cleanup()


class DigestAPI:
    """To every scheduler process.

    digest(text), a cast of a `wire.DIGEST_TOPIC` message, from each agent.
    profiles(text), a cast of a `wire.PROFILES` message, from any vp-scheduler.
    host_keys(text), a cast of a `wire.HOST_KEYS` message, from any vp-scheduler.
    """

    def __init__(self, bus: Bus) -> None:
        self._all = _Client(bus, wire.DIGEST_TOPIC)

    def digest(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._all.cast("digest", text=text)

    def profiles(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._all.cast("profiles", text=text)

    def host_keys(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._all.cast("host_keys", text=text)


class ReportAPI:
    """To whichever vp-scheduler is free.

    report(text), a cast of a `wire.REPORT_TOPIC` message, from each agent.
    scheduler_started(), a cast from a scheduler process that has just started: whichever
    vp-scheduler gets it sends the hosts' keys and what it has learned to all (`DigestAPI`), and
    has all hosts repeat their digests (`AgentAPI.republish_digest`), as fast as their number
    allows.

    A cast rather than a notification: the notifier hides failures from the sender, logs the whole
    message then, and creates the queue where nobody may ever consume it.
    """

    def __init__(self, bus: Bus) -> None:
        # Otherwise a broker drops what no queue is there for, as after its restart, in silence.
        must_arrive = oslo_messaging.TransportOptions(at_least_once=True)
        self._client = _Client(bus, wire.REPORT_TOPIC, must_arrive)

    def report(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away, and NobodyListens."""
        self._cast("report", text=text)

    def scheduler_started(self) -> None:
        """Raises oslo.messaging's exceptions where the broker is away, and NobodyListens."""
        self._cast("scheduler_started")

    def _cast(self, method: str, **arguments: str) -> None:
        try:
            self._client.cast(method, **arguments)
        except oslo_messaging.MessageUndeliverable as exc:
            raise NobodyListens(
                "no vp-scheduler listens on this broker; hosts are placed by, but not shown: "
                "start one, or check that its [bus] transport_url is the same"
            ) from exc


class EscalationAPI:
    """From an agent whose node has nothing left to whichever vp-scheduler is free.

    escalate(text), a call with a `wire.ESCALATION_TOPIC` message.
    """

    def __init__(self, bus: Bus) -> None:
        """`bus`: one that waits for answers."""
        self._client = _Client(bus, wire.ESCALATION_TOPIC)

    def escalate(self, text: str) -> None:
        """Returns once the ledger has it: what raises may have arrived or not, and is sent again.

        Raises wire.BadMessage as the receiver's refusal, oslo.messaging's exceptions otherwise.
        """
        self._client.call("escalate", lambda who: who.process is Process.SCHEDULER, text=text)


class UsageAPI:
    """From an agent that has something to bill to whichever vp-scheduler is free.

    usage(text), a call with a `wire.USAGE_TOPIC` message.
    """

    def __init__(self, bus: Bus) -> None:
        """`bus`: one that waits for answers."""
        self._client = _Client(bus, wire.USAGE_TOPIC)

    def usage(self, text: str) -> Mapping[str, str]:
        """Returns once the database has it: by server that was left out, why. What raises may have
        arrived or not, and is sent again.

        Raises wire.BadMessage as the receiver's refusal, oslo.messaging's exceptions otherwise.
        """
        return dict(
            self._client.call("usage", lambda who: who.process is Process.SCHEDULER, text=text)
        )


class AgentAPI:
    """To agents.

    set_mode(mode), accept(action_id), undo(action_id): calls to one host, from vp-api.
    set_orders(text): a call from vp-api or a cast from vp-scheduler to one host with a
    `wire.ORDERS` message: all that is ordered of the servers it names.
    set_facts(text): a cast from vp-scheduler to one host with a `wire.FACTS` message.
    report_latency(text): a cast from vp-api to one host with a `wire.LATENCY` message.
    prepare_migration and end_migration: calls to one host that may be repeated, from vp-scheduler.
    republish(within_s), a cast to all: every agent sends its digest and report again at a random
    moment within that time. republish_digest(within_s): nobody needs the reports.
    """

    def __init__(self, bus: Bus) -> None:
        """`bus`: one that waits for answers, for whoever calls."""
        self._client = _Client(bus, wire.AGENT_TOPIC)

    def set_mode(self, host: str, mode: str) -> None:
        """Returns once the agent has remembered it. Raises MessagingTimeout: no agent there."""
        self._call(host, "set_mode", mode=mode)

    def accept(self, host: str, action_id: str) -> None:
        """Raises the agent's UnknownAction or NotAdvising, or MessagingTimeout."""
        self._call(host, "accept", action_id=action_id)

    def prepare_migration(
        self, host: str, escalation_id: str, uuid: str, hold_s: float
    ) -> dict[str, Any]:
        """`ready`: nothing of ours is on that guest any more, and it is left alone until
        `end_migration`, or for `hold_s`; else `why` not. Raises MessagingTimeout."""
        asked = {"escalation_id": escalation_id, "uuid": uuid, "hold_s": hold_s}
        return dict(self._call(host, "prepare_migration", **asked))

    def end_migration(
        self, host: str, escalation_id: str, uuid: str, outcome: str, detail: str
    ) -> None:
        """`outcome`: one of `MIGRATION_OUTCOMES`. Raises MessagingTimeout."""
        self._call(
            host,
            "end_migration",
            escalation_id=escalation_id,
            uuid=uuid,
            outcome=outcome,
            detail=detail,
        )

    def set_orders(self, host: str, text: str) -> int | None:
        """Returns once the agent has remembered them: None. Or it has newer ones and ignores these:
        the version that holds there. May be repeated.

        Raises wire.BadMessage as the agent's refusal, or MessagingTimeout.
        """
        newer = self._call(host, "set_orders", text=text)
        return newer if isinstance(newer, int) else None

    def tell_orders(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._client.prepare(server=host).cast("set_orders", text=text)

    def tell_facts(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._client.prepare(server=host).cast("set_facts", text=text)

    def report_latency(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._client.prepare(server=host).cast("report_latency", text=text)

    def undo(self, host: str, action_id: str) -> None:
        """Returns once the agent has taken the order. Raises its UnknownAction or NotInForce, or
        MessagingTimeout."""
        self._call(host, "undo", action_id=action_id)

    def republish(self, within_s: float) -> None:
        self._client.cast("republish", within_s=within_s)

    def republish_digest(self, within_s: float) -> None:
        self._client.cast("republish_digest", within_s=within_s)

    def _call(self, host: str, method: str, **arguments: Any) -> Any:
        agent = Sender(Process.AGENT, host)
        return self._client.prepare(server=host).call(method, lambda who: who == agent, **arguments)


class AnswerAPI:
    """To whoever has called and waits: `nova_vp.answers`."""

    def __init__(self, bus: Bus) -> None:
        self._client = _Client(bus, wire.ANSWER_TOPIC)

    def answer(self, address: str, arguments: Mapping[str, Any]) -> None:
        """`address`: as the call gave it. Raises oslo.messaging's exceptions, wire.BadMessage."""
        self._client.prepare(server=address).cast("answer", **arguments)


def _oslo_client(
    transport: oslo_messaging.Transport,
    where: oslo_messaging.Target,
    options: oslo_messaging.TransportOptions | None = None,
) -> Any:
    return oslo_messaging.get_rpc_client(
        transport, where, retry=SEND_RETRIES, transport_options=options
    )


class _Client:
    """Signs and sends, to all who listen to a topic or to the one `server`."""

    def __init__(
        self,
        bus: Bus,
        topic: str,
        options: oslo_messaging.TransportOptions | None = None,
        server: str | None = None,
    ) -> None:
        self._bus = bus
        self._topic = topic
        self._options = options
        self._server = server
        self._client = _oslo_client(bus.transport, target(topic, server), options)

    def prepare(self, server: str) -> "_Client":
        return _Client(self._bus, self._topic, self._options, server)

    def cast(self, method: str, **arguments: Any) -> None:
        self._send(method, arguments)

    def call(self, method: str, may_answer: Callable[[Sender], bool], **arguments: Any) -> Any:
        if self._bus.answers is None:
            raise ValueError(f"{method}: this bus waits for no answers; use open_asking_bus")
        return self._bus.answers.ask(
            lambda id, address: self._send(method, arguments, id=id, answer_to=address),
            may_answer,
            CALL_TIMEOUT_S,
        )

    def _send(self, method: str, arguments: Mapping[str, Any], **about: str) -> None:
        sealed = self._bus.identity.signer.seal(
            recipient(self._topic, self._server),
            method,
            arguments,
            request_id=_on_whose_request(),
            **about,
        )
        with _in_our_words():
            self._bus.identity.sends.do(
                lambda: self._client.cast({}, "deliver", **sealed._asdict())
            )


def recipient(topic: str, server: str | None = None) -> str:
    """As signed: all who listen to a topic, or one of them."""
    return f"{topic}.{server}" if server else topic


def _on_whose_request() -> str:
    """So that the logs of both ends can be put together."""
    current = request_context.get_current()
    return str(current.request_id) if current and current.request_id else ""


@contextmanager
def _in_our_words() -> Iterator[None]:
    """oslo.messaging lets errors of kombu's and amqp's through where it was never connected."""
    try:
        yield
    except AMQPError as exc:
        raise oslo_messaging.MessageDeliveryFailure(f"the broker refuses: {exc}") from exc
    except kombu_exceptions.OperationalError as exc:
        raise oslo_messaging.MessageDeliveryFailure(f"the broker is away: {exc}") from exc
