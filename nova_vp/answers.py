# SPDX-License-Identifier: Apache-2.0
"""Answers to calls over the bus: casts to an address of the caller's, signed like everything else.

oslo.messaging's own replies go through the broker's default exchange, by which an account reaches
any queue; with these, an agent's account needs no right to it.
"""

import contextlib
import importlib
import logging
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple

import oslo_messaging

from nova_vp import wire
from nova_vp.rpcserver import BackgroundServer
from nova_vp.rpctransport import Bus, target
from nova_vp.signing.envelope import Call
from nova_vp.signing.identity import Identity
from nova_vp.signing.senders import Sender

LOG = logging.getLogger(__name__)
OPEN_TIMEOUT_S = 10
"""Before the first call of a process, to be let in by the broker."""
CLOSE_TIMEOUT_S = 1.0
REMOTE_EXCEPTIONS = ("nova_vp.wire", "vp_agent.commands")
"""Modules whose exceptions cross to their caller as what they are."""
BUILT_IN = {f"builtins.{kind.__name__}": kind for kind in (ValueError, OSError)}
"""As those do."""


class _Waiting(NamedTuple):
    may_answer: Callable[[Sender], bool]
    answer: "Future[Any]"


class Answers:
    """`nova_vp.rpctransport.Waiting`: listens from the first call of a process on. Thread-safe."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        # Several processes of one sender wait, each at an address of its own.
        self._address = f"{identity.sender.answer_prefix}{uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}
        self._server: BackgroundServer | None = None
        self._is_open = threading.Event()

    def ask(
        self,
        send: Callable[[str, str], None],
        may_answer: Callable[[Sender], bool],
        timeout_s: float,
    ) -> Any:
        self._open()
        id = uuid.uuid4().hex
        answer: Future[Any] = Future()
        with self._lock:
            self._waiting[id] = _Waiting(may_answer, answer)
        try:
            send(id, self._address)
            return answer.result(timeout_s)
        except TimeoutError as exc:
            raise oslo_messaging.MessagingTimeout(f"no answer within {timeout_s} s") from exc
        finally:
            with self._lock:
                del self._waiting[id]

    def answer(
        self, context: Call, of: Any, result: Any = None, error: Any = None, why: Any = ""
    ) -> None:
        """An answer has come in."""
        with self._lock:
            waiting = self._waiting.get(str(of))
        if waiting is None or not waiting.may_answer(context.sender):
            LOG.info("an answer of %s is ignored: nobody waits for it", context.sender)
        elif error is None:
            _settle(waiting.answer, result, None)
        else:
            _settle(waiting.answer, None, _exception(error, str(why)))

    def close(self) -> None:
        if self._server:
            self._server.stop(CLOSE_TIMEOUT_S)

    def _open(self) -> None:
        """Raises MessageDeliveryFailure where the broker is away."""
        with self._lock:
            if self._server is None:
                self._server = BackgroundServer(
                    self._identity,
                    target(wire.ANSWER_TOPIC, server=self._address),
                    [self],
                    on_ready=lambda bus: self._is_open.set(),
                )
                self._server.start()
        if not self._is_open.wait(OPEN_TIMEOUT_S):
            raise oslo_messaging.MessageDeliveryFailure(
                f"the broker is away: it has not let us in within {OPEN_TIMEOUT_S} s"
            )


def open_asking_bus(identity: Identity) -> Bus:
    """One that can also call. Raises cfg.Error for an URL of the bus that cannot be used."""
    return Bus(identity, Answers(identity))


def _settle(answer: "Future[Any]", result: Any, exc: Exception | None) -> None:
    """Of two answers the first one holds."""
    with contextlib.suppress(InvalidStateError):
        if exc is None:
            answer.set_result(result)
        else:
            answer.set_exception(exc)


def _exception(error: Any, why: str) -> Exception:
    """As it was raised at the other end, if it is one of ours: its cause is then the RemoteError
    that all others are."""
    remote: Exception = oslo_messaging.RemoteError(str(error), why)
    module, _, name = str(error).rpartition(".")
    kind: object = BUILT_IN.get(str(error))
    if module in REMOTE_EXCEPTIONS:
        with contextlib.suppress(ImportError):
            kind = getattr(importlib.import_module(module), name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(TypeError):  # One that is made of more than a text.
            raised = kind(why)
            raised.__cause__ = remote
            return raised
    return remote
