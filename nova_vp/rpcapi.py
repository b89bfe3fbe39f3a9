# SPDX-License-Identifier: Apache-2.0
"""RPC clients of what crosses processes, with their version history; servers live where they serve.

Everything goes through an exchange of our own: the default one is named by `control_exchange`,
which Nova sets otherwise than we would, and messages would silently miss each other.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg

from nova_vp import wire

LOG = logging.getLogger(__name__)

EXCHANGE = "nova_vp"
CALL_TIMEOUT_S = 10
STOP_TIMEOUT_S = 5.0
SEND_RETRIES = 1
"""Once more, since the first send after a broker restart finds the old connection dead."""

REMOTE_EXCEPTIONS = ("vp_agent.commands",)
"""Modules whose exceptions cross from an agent to its caller as what they are."""

TRANSPORT_DEFAULTS = {
    # The queue of a scheduler process that is gone is deleted when its last message is void.
    "rabbit_transient_queues_ttl": str(wire.EXPIRE_S),
    # What a consumer has not begun with stays in the broker, where it expires.
    "rabbit_qos_prefetch_count": "100",
}


def open_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Reads options only; connects when used. Never open one before a fork.

    Raises cfg.Error for an URL that no driver understands.
    """
    _register_unlisted(conf)
    try:
        url = oslo_messaging.TransportURL.parse(conf, conf.bus.transport_url)
        if url.transport == "rabbit":
            url.query = {**TRANSPORT_DEFAULTS, **url.query}
        return oslo_messaging.get_rpc_transport(
            conf, url=url, allowed_remote_exmods=list(REMOTE_EXCEPTIONS)
        )
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


def target(topic: str, **where: Any) -> oslo_messaging.Target:
    return oslo_messaging.Target(exchange=EXCHANGE, topic=topic, version="1.0", **where)


class NobodyListens(Exception):
    """The broker is there, but no queue for the message. The text says what to do."""


class DigestAPI:
    """From each agent to every scheduler process.

    1.0: digest(text), a fanned-out cast of a `wire.DIGEST_TOPIC` message.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._client = _client(transport, wire.DIGEST_TOPIC).prepare(fanout=True)

    def digest(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._client.cast({}, "digest", text=text)


class ReportAPI:
    """From each agent to whichever vp-scheduler is free.

    1.0: report(text), a cast of a `wire.REPORT_TOPIC` message.

    A cast rather than a notification: the notifier hides failures from the sender, logs the whole
    message then, and creates the queue where nobody may ever consume it.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        # Otherwise a broker drops what no queue is there for, as after its restart, in silence.
        must_arrive = oslo_messaging.TransportOptions(at_least_once=True)
        self._client = _client(transport, wire.REPORT_TOPIC, must_arrive)

    def report(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away, and NobodyListens."""
        try:
            self._client.cast({}, "report", text=text)
        except oslo_messaging.MessageUndeliverable as exc:
            raise NobodyListens(
                "no vp-scheduler listens on this broker; hosts are placed by, but not shown: "
                "start one, or check that its [bus] transport_url is the same"
            ) from exc


class AgentAPI:
    """To agents.

    1.0: set_mode(mode) and accept(action_id), calls to one host; republish(within_s), fanned out:
    every agent sends its digest and report again at a random moment within that time.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._client = _client(transport, wire.AGENT_TOPIC)

    def set_mode(self, host: str, mode: str) -> None:
        """Returns once the agent has remembered it. Raises MessagingTimeout: no agent there."""
        self._one(host).call({}, "set_mode", mode=mode)

    def accept(self, host: str, action_id: str) -> None:
        """Raises the agent's UnknownAction or NotAdvising, or MessagingTimeout."""
        self._one(host).call({}, "accept", action_id=action_id)

    def republish(self, within_s: float) -> None:
        self._client.prepare(fanout=True).cast({}, "republish", within_s=within_s)

    def _one(self, host: str) -> Any:
        return self._client.prepare(server=host)


def _client(
    transport: oslo_messaging.Transport,
    topic: str,
    transport_options: oslo_messaging.TransportOptions | None = None,
) -> Any:
    return oslo_messaging.get_rpc_client(
        transport,
        target(topic),
        timeout=CALL_TIMEOUT_S,
        retry=SEND_RETRIES,
        transport_options=transport_options,
    )


class BackgroundServer:
    """An RPC server that waits for its broker on a thread of its own, however long that takes."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        where: oslo_messaging.Target,
        endpoints: Sequence[object],
        *,
        threads: int = 1,
        on_ready: Callable[[oslo_messaging.Transport], None] | None = None,
    ) -> None:
        self._conf = conf
        self._where = where
        self._endpoints = endpoints
        self._threads = threads
        self._on_ready = on_ready
        self._ready: tuple[Any, oslo_messaging.Transport] | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"listen-{self._where.topic}", daemon=True).start()

    def _run(self) -> None:
        try:
            transport = open_transport(self._conf)
        except cfg.Error as exc:
            LOG.error("nothing will be heard on %s: %s", self._where.topic, exc)
            return
        server = oslo_messaging.get_rpc_server(transport, self._where, self._endpoints)
        server.start(override_pool_size=self._threads)
        self._ready = (server, transport)
        if self._on_ready:
            self._on_ready(transport)

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Takes in no more, and returns when what was taken in is done, or after the timeout.

        With the broker away oslo.messaging goes on waiting for it; nobody shall wait for that.
        """
        if self._ready is None:
            return
        ending = threading.Thread(target=_end, args=self._ready, name="end", daemon=True)
        self._ready = None
        ending.start()
        ending.join(timeout_s)


def _end(server: oslo_messaging.MessageHandlingServer, transport: oslo_messaging.Transport) -> None:
    server.stop()
    server.wait()
    transport.cleanup()
