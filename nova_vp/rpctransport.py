# SPDX-License-Identifier: Apache-2.0
"""What a process sends with: its connections to the message bus, and who signs there.

Every call is a cast of one signed text (`nova_vp.signing`); who waits for an answer gets it as a
cast too, so that no account needs the broker's default exchange.

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

from nova_vp import queues
from nova_vp.signing.identity import Identity
from nova_vp.signing.senders import Sender

VERSION = "2.0"
"""Its history: `rpcapi.py`."""
CALL_TIMEOUT_S = 10
SEND_RETRIES = 1
"""Once more, since the first send after a broker restart finds the old connection dead."""

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


def _oslo_client(
    transport: oslo_messaging.Transport,
    where: oslo_messaging.Target,
    options: oslo_messaging.TransportOptions | None = None,
) -> Any:
    return oslo_messaging.get_rpc_client(
        transport, where, retry=SEND_RETRIES, transport_options=options
    )


class Client:
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

    def prepare(self, server: str) -> "Client":
        return Client(self._bus, self._topic, self._options, server)

    def cast(self, method: str, **arguments: Any) -> None:
        self._send(method, arguments)

    def call(
        self,
        method: str,
        may_answer: Callable[[Sender], bool],
        timeout_s: float = CALL_TIMEOUT_S,
        /,
        **arguments: Any,
    ) -> Any:
        if self._bus.answers is None:
            raise ValueError(f"{method}: this bus waits for no answers; use open_asking_bus")
        return self._bus.answers.ask(
            lambda id, address: self._send(method, arguments, id=id, answer_to=address),
            may_answer,
            timeout_s,
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
