# SPDX-License-Identifier: Apache-2.0
"""How a process listens on the message bus: from before its broker is there until nothing is lost.

Endpoints live where they serve, what is sent in `rpcapi.py`. A call gets to an endpoint only if
its signature proves that its sender may make it: see `nova_vp.signing`.
"""

import inspect
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import oslo_messaging
from oslo_messaging._drivers.amqpdriver import AMQPDriverBase, RpcAMQPListener
from oslo_messaging._drivers.base import PollStyleListenerAdapter
from oslo_messaging._drivers.common import PURPOSE_LISTEN
from oslo_messaging.rpc.server import RPCServer

from nova_vp import queues
from nova_vp.message_filter import MessageFilter
from nova_vp.rpcapi import AnswerAPI
from nova_vp.rpctransport import VERSION, Bus, recipient
from nova_vp.signing.envelope import Call, Refused, Verifier
from nova_vp.signing.identity import Identity

LOG = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
AGAIN_S = 10.0
"""While there are no keys to sign or check with, or the broker does not let us listen."""
LEAST_PATIENCE_S = 0.5
"""A listener that is told to stop looks up within this time, or that of the next call."""
MOST_TEXT = 4096
"""Of why a call failed, as its answer tells it."""


class _Delivery:
    """The one method that is called over the bus: opens what was signed, has it done, answers."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(
        self,
        verifier: Verifier,
        recipients: Collection[str],
        endpoints: Sequence[object],
        answers: AnswerAPI,
    ) -> None:
        self._verifier = verifier
        self._recipients = recipients
        self._endpoints = endpoints
        self._answers = answers
        self._signatures: dict[str, inspect.Signature] = {}
        """Of methods that were called."""
        self._refusals = MessageFilter()

    def deliver(
        self, context: Any, sender: Any = None, packed: Any = None, signature: Any = None
    ) -> None:
        try:
            call = self._verifier.open(sender, packed, signature, self._recipients)
            answer = self._do(call)
        except Refused as exc:
            self._refusals.note("unproven", "calls", exc)
            return
        if call.answer_to:
            self._send(call, answer)

    def _do(self, call: Call) -> Mapping[str, Any]:
        """What is answered. Raises Refused for a method that nobody has here."""
        method = self._method(call)
        try:
            self._signatures[call.method].bind(call, **call.arguments)
        except TypeError as exc:
            raise Refused(f"{call.sender}: {call.method}: {exc}") from exc
        try:
            return {"of": call.id, "result": method(call, **call.arguments)}
        except oslo_messaging.ExpectedException as exc:
            return {"of": call.id, **_told(exc.exc_info[1])}
        except Exception as exc:
            LOG.exception("%s of %s failed", call.method, call.sender)
            return {"of": call.id, **_told(exc)}

    def _method(self, call: Call) -> Callable[..., Any]:
        """Its signature is read once. Raises Refused."""
        found = (getattr(one, call.method, None) for one in self._endpoints)
        method: Callable[..., Any] | None = next(filter(None, found), None)
        if method is None:
            raise Refused(f"{call.sender}: nothing here has a method {call.method}")
        if call.method not in self._signatures:
            self._signatures[call.method] = inspect.signature(method)
        return method

    def _send(self, call: Call, answer: Mapping[str, Any]) -> None:
        try:
            self._answers.answer(call.answer_to, answer)
        except oslo_messaging.MessagingException as exc:
            LOG.warning("%s gets no answer to %s: %s", call.sender, call.method, exc)


def _told(exc: BaseException) -> Mapping[str, Any]:
    kind = type(exc)
    return {"error": f"{kind.__module__}.{kind.__qualname__}", "why": str(exc)[:MOST_TEXT]}


class _QueueServer(RPCServer):  # type: ignore[misc]
    """Listens to one queue, whose name and bindings are ours.

    oslo.messaging (14.9 to 18.3) would declare three, of which one is named after the topic: any
    account that may listen to the topic could delete it, or declare it so that nobody else can.
    """

    def _create_listener(self) -> Any:
        driver = self.transport._driver
        if not isinstance(driver, AMQPDriverBase):  # Queues in memory, for tests.
            return super()._create_listener()
        inbox = queues.inbox(self._target.topic, self._target.server)
        connection = driver._get_connection(PURPOSE_LISTEN)
        listener = _PatientListener(driver, connection)
        for key in inbox.keys:
            connection.declare_topic_consumer(inbox.exchange, key, listener, inbox.queue)
        return PollStyleListenerAdapter(listener, 1, None)


class _PatientListener(RpcAMQPListener):  # type: ignore[misc]
    """Waits for the next call at least so long before it looks up.

    oslo.messaging (14.9 to 18.3) looks up 1 ms after each message, then after 2 ms, 4 ms, and so
    on, for messages that are acknowledged by another thread. Those of RPC never are. With a dozen
    calls per second that costs ten times as much as the calls.
    """

    @property
    def _current_timeout(self) -> float:
        return self._patience_s

    @_current_timeout.setter
    def _current_timeout(self, timeout_s: float) -> None:
        self._patience_s = max(timeout_s, LEAST_PATIENCE_S)


class BackgroundServer:
    """An RPC server that waits for its broker on a thread of its own, however long that takes."""

    def __init__(
        self,
        identity: Identity,
        where: oslo_messaging.Target,
        endpoints: Sequence[object],
        *,
        threads: int = 1,
        on_ready: Callable[[Bus], None] | None = None,
    ) -> None:
        """`endpoints`: their methods are given the Call that asks for them, then its arguments."""
        self._identity = identity
        self._where = where
        self._endpoints = endpoints
        self._threads = threads
        self._on_ready = on_ready
        self._ready: tuple[Any, oslo_messaging.Transport] | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._has_asked = threading.Event()
        self._ending: threading.Thread | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"open-{self._where.topic}", daemon=True).start()

    def _run(self) -> None:
        started = self._start()
        if started is None:
            return
        bus, server = started
        transport = bus.transport
        with self._lock:
            if self._stopped.is_set():
                _end(server, transport)
                return
            self._ready = (server, transport)
        try:
            if self._on_ready:
                self._on_ready(bus)
        finally:
            self._has_asked.set()

    def _start(self) -> tuple[Bus, oslo_messaging.MessageHandlingServer] | None:
        """When the keys are there and the broker lets us listen; None: stopped before."""
        is_told = False
        while not self._stopped.is_set():
            bus: Bus | None = None
            try:
                self._identity.check()
                inbox = queues.inbox(self._where.topic, self._where.server)
                bus = Bus(self._identity, has_fleeting_queues=not inbox.outlives_listener)
                server = oslo_messaging.get_rpc_server(
                    bus.transport, self._where, [self._delivery(bus)], server_cls=_QueueServer
                )
                server.start(override_pool_size=self._threads)
                return bus, server
            # Whatever oslo.messaging and kombu raise where the broker refuses to let us listen.
            except Exception as exc:
                if not is_told:
                    LOG.error(
                        "nothing is heard on %s, trying again; check RabbitMQ, [bus] transport_url "
                        "and the keys of this program: %s",
                        self._where.topic,
                        exc,
                    )
                is_told = True
                if bus is not None:
                    bus.transport.cleanup()
            self._stopped.wait(AGAIN_S)
        return None

    def _delivery(self, bus: Bus) -> _Delivery:
        topic = self._where.topic
        names = {recipient(topic), recipient(topic, self._where.server)}
        verifier = Verifier(self._identity.keys)
        return _Delivery(verifier, names, self._endpoints, AnswerAPI(bus))

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Takes in no more, and returns when what was taken in is done, or after the timeout.
        Whether it is done.

        With the broker away oslo.messaging goes on waiting for it; nobody shall wait for that.
        """
        with self._lock:
            self._stopped.set()
            ready, self._ready = self._ready, None
        if ready is not None:
            ending = threading.Thread(target=self._end_asked, args=ready, name="end", daemon=True)
            ending.start()
            self._ending = ending
        return self.wait(timeout_s)

    def wait(self, timeout_s: float) -> bool:
        """On, after a stop that has timed out. Whether all that was taken in is done."""
        if self._ending is None:
            return True
        self._ending.join(timeout_s)
        return not self._ending.is_alive()

    def _end_asked(self, *ready: Any) -> None:
        """Not while `on_ready` still sends over the transport."""
        self._has_asked.wait()
        _end(*ready)


def _end(server: oslo_messaging.MessageHandlingServer, transport: oslo_messaging.Transport) -> None:
    server.stop()
    server.wait()
    for message in _late(server):
        server._process_incoming([message])
    transport.cleanup()


def _late(server: oslo_messaging.MessageHandlingServer) -> list[Any]:
    """What came in while the connection was being closed. oslo.messaging (18) has acknowledged it
    by then and forgets it, so nobody else would ever see it; it has no public way to these."""
    listener = getattr(server.listener, "_poll_style_listener", None)
    return [*getattr(listener, "incoming", ())]
