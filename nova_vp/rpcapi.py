# SPDX-License-Identifier: Apache-2.0
"""RPC clients of what crosses processes, with their version history; servers: `rpcserver.py`.

Everything goes through an exchange of our own: the default one is named by `control_exchange`,
which Nova sets otherwise than we would, and messages would silently miss each other.
"""

import importlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import oslo_messaging
from kombu import exceptions as kombu_exceptions
from oslo_config import cfg
from oslo_context import context as request_context

from nova_vp import wire

EXCHANGE = "nova_vp"
CALL_TIMEOUT_S = 10
OPEN_TIMEOUT_S = 10
"""Before the first call of a process, to be let in by the broker."""
NO_ANSWER_S = 0.05
"""For an answer that nobody gives."""
SEND_RETRIES = 1
"""Once more, since the first send after a broker restart finds the old connection dead."""

REMOTE_EXCEPTIONS = ("vp_agent.commands", "nova_vp.wire")
"""Modules whose exceptions cross to their caller as what they are."""

NO_LONGER_HURT = wire.NO_LONGER_HURT
"""Why a migration is not needed any more, from `prepare_migration`."""
MIGRATION_OUTCOMES = ("completed", "failed", "aborted", "timed-out", "refused", "withdrawn")

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


def reach(transport: oslo_messaging.Transport) -> None:
    """Says something that nobody listens to. Raises oslo.messaging's exceptions if the broker does
    not take it."""
    client = _client(transport, "vp_status")
    client.prepare(fanout=True).cast({}, "reach")


class NobodyListens(Exception):
    """The broker is there, but no queue for the message. The text says what to do."""


class DigestAPI:
    """To every scheduler process.

    1.0: digest(text), a fanned-out cast of a `wire.DIGEST_TOPIC` message, from each agent.
    1.1: profiles(text), a fanned-out cast of a `wire.PROFILES` message, from any vp-scheduler.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._client = _client(transport, wire.DIGEST_TOPIC).prepare(fanout=True)

    def digest(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._client.cast({}, "digest", text=text)

    def profiles(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._client.prepare(version="1.1").cast({}, "profiles", text=text)


class ReportAPI:
    """From each agent to whichever vp-scheduler is free.

    1.0: report(text), a cast of a `wire.REPORT_TOPIC` message.
    1.1: republish_profiles(), a cast from a scheduler process that has just started: whichever
    vp-scheduler gets it sends what it has learned to all (`DigestAPI.profiles`).
    1.2: scheduler_started(), a cast from such a process: that, and all hosts are had to repeat
    their digests (`AgentAPI.republish_digest`), as fast as their number allows.

    A cast rather than a notification: the notifier hides failures from the sender, logs the whole
    message then, and creates the queue where nobody may ever consume it.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        # Otherwise a broker drops what no queue is there for, as after its restart, in silence.
        must_arrive = oslo_messaging.TransportOptions(at_least_once=True)
        self._client = _client(transport, wire.REPORT_TOPIC, must_arrive)

    def report(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away, and NobodyListens."""
        self._cast(self._client, "report", text=text)

    def scheduler_started(self) -> None:
        """Raises oslo.messaging's exceptions where the broker is away, and NobodyListens."""
        self._cast(self._client.prepare(version="1.2"), "scheduler_started")

    def _cast(self, client: Any, method: str, **arguments: str) -> None:
        try:
            client.cast({}, method, **arguments)
        except oslo_messaging.MessageUndeliverable as exc:
            raise NobodyListens(
                "no vp-scheduler listens on this broker; hosts are placed by, but not shown: "
                "start one, or check that its [bus] transport_url is the same"
            ) from exc


class EscalationAPI:
    """From an agent whose node has nothing left to whichever vp-scheduler is free.

    1.0: escalate(text), a call with a `wire.ESCALATION_TOPIC` message.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._client = _client(transport, wire.ESCALATION_TOPIC)

    def escalate(self, text: str) -> None:
        """Returns once the ledger has it: what raises may have arrived or not, and is sent again.

        Raises wire.BadMessage as the receiver's refusal, oslo.messaging's exceptions otherwise.
        """
        self._client.call({}, "escalate", text=text)


class AgentAPI:
    """To agents.

    1.0: set_mode(mode) and accept(action_id), calls to one host; republish(within_s), fanned out:
    every agent sends its digest and report again at a random moment within that time.
    1.1: prepare_migration and end_migration, calls to one host that may be repeated.
    1.2: set_orders(text), a call or a cast to one host with a `wire.ORDERS` message: all that is
    ordered of the servers it names; undo(action_id), a call to one host.
    1.3: republish_digest(within_s), fanned out: as `republish`, but nobody needs the reports.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._client = _client(transport, wire.AGENT_TOPIC)

    def set_mode(self, host: str, mode: str) -> None:
        """Returns once the agent has remembered it. Raises MessagingTimeout: no agent there."""
        self._one(host).call({}, "set_mode", mode=mode)

    def accept(self, host: str, action_id: str) -> None:
        """Raises the agent's UnknownAction or NotAdvising, or MessagingTimeout."""
        self._one(host).call({}, "accept", action_id=action_id)

    def prepare_migration(
        self, host: str, escalation_id: str, uuid: str, hold_s: float
    ) -> dict[str, Any]:
        """`ready`: nothing of ours is on that guest any more, and it is left alone until
        `end_migration`, or for `hold_s`; else `why` not. Raises MessagingTimeout."""
        answer = self._one(host, "1.1").call(
            {}, "prepare_migration", escalation_id=escalation_id, uuid=uuid, hold_s=hold_s
        )
        return dict(answer)

    def end_migration(
        self, host: str, escalation_id: str, uuid: str, outcome: str, detail: str
    ) -> None:
        """`outcome`: one of `MIGRATION_OUTCOMES`. Raises MessagingTimeout."""
        self._one(host, "1.1").call(
            {},
            "end_migration",
            escalation_id=escalation_id,
            uuid=uuid,
            outcome=outcome,
            detail=detail,
        )

    def set_orders(self, host: str, text: str) -> int | None:
        """Returns once the agent has remembered them: None. Or it has newer ones and ignores these:
        the version that holds there; an agent of an earlier release answers None then as well. May
        be repeated.

        Raises wire.BadMessage as the agent's refusal, or MessagingTimeout.
        """
        newer = self._one(host, "1.2").call({}, "set_orders", text=text)
        return newer if isinstance(newer, int) else None

    def tell_orders(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._one(host, "1.2").cast({}, "set_orders", text=text)

    def undo(self, host: str, action_id: str) -> None:
        """Returns once the agent has taken the order. Raises its UnknownAction or NotInForce, or
        MessagingTimeout."""
        self._one(host, "1.2").call({}, "undo", action_id=action_id)

    def republish(self, within_s: float) -> None:
        self._client.prepare(fanout=True).cast({}, "republish", within_s=within_s)

    def republish_digest(self, within_s: float) -> None:
        everybody = self._client.prepare(fanout=True, version="1.3")
        everybody.cast({}, "republish_digest", within_s=within_s)

    def _one(self, host: str, version: str = "1.0") -> Any:
        return self._client.prepare(server=host, version=version)


def _client(
    transport: oslo_messaging.Transport,
    topic: str,
    transport_options: oslo_messaging.TransportOptions | None = None,
) -> Any:
    return _Client(
        oslo_messaging.get_rpc_client(
            transport,
            target(topic),
            timeout=CALL_TIMEOUT_S,
            retry=SEND_RETRIES,
            transport_options=transport_options,
        ),
        _Replies(transport),
    )


class _Replies:
    """Where answers to calls will arrive. oslo.messaging opens it with the first call of a process,
    and then waits for a broker that was never there for ever, whatever the call's timeout."""

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._client = oslo_messaging.get_rpc_client(
            transport, target("vp_status", server="nobody"), timeout=NO_ANSWER_S, retry=SEND_RETRIES
        )
        self._lock = threading.Lock()
        self._opening: Future[None] | None = None

    def open(self) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        with self._lock:
            if self._opening is None or (self._opening.done() and self._opening.exception()):
                self._opening = Future()
                threading.Thread(
                    target=self._open, args=(self._opening,), name="open-replies", daemon=True
                ).start()
            opening = self._opening
        try:
            opening.result(OPEN_TIMEOUT_S)
        except TimeoutError as exc:
            raise oslo_messaging.MessageDeliveryFailure(
                f"the broker is away: it has not let us in within {OPEN_TIMEOUT_S} s"
            ) from exc

    def _open(self, opening: "Future[None]") -> None:
        """First what cannot wait for ever, then a call that nobody answers."""
        try:
            with _in_our_words():
                self._client.prepare(fanout=True, server=None).cast({}, "reach")
                with suppress(oslo_messaging.MessagingTimeout):
                    self._client.call({}, "reach")
        except Exception as exc:
            opening.set_exception(exc)
        else:
            opening.set_result(None)


class _Client:
    """oslo.messaging's, which lets an error of kombu's through where it was never connected."""

    def __init__(self, client: Any, replies: _Replies) -> None:
        self._client = client
        self._replies = replies

    def prepare(self, **where: Any) -> "_Client":
        return _Client(self._client.prepare(**where), self._replies)

    def cast(self, context: Mapping[str, Any], method: str, **arguments: Any) -> None:
        with _in_our_words():
            self._client.cast({**context, **_on_whose_request()}, method, **arguments)

    def call(self, context: Mapping[str, Any], method: str, **arguments: Any) -> Any:
        self._replies.open()
        with _in_our_words():
            return self._client.call({**context, **_on_whose_request()}, method, **arguments)


def _on_whose_request() -> dict[str, str]:
    """So that the logs of both ends can be put together."""
    current = request_context.get_current()
    return {"request_id": current.request_id} if current and current.request_id else {}


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except kombu_exceptions.OperationalError as exc:
        raise oslo_messaging.MessageDeliveryFailure(f"the broker is away: {exc}") from exc
