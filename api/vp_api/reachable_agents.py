# SPDX-License-Identifier: Apache-2.0
"""Agents behind a message bus that may hang: then whoever tells them something is refused soon.

oslo.messaging gives a broker that hangs as long as an agent that does not answer, or longer. Here
the broker is greeted before an agent is told something, and again while an answer is awaited.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import oslo_messaging
from oslo_context import context as request_context

from nova_vp.service.outage import Outage
from vp_api.services import Agents

GREET_EVERY_S = 1.0

Told = TypeVar("Told")


class ReachableAgents:
    """`Agents`, of which every method raises MessageDeliveryFailure as well: the bus is away."""

    def __init__(
        self,
        agents: Agents,
        greet: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`greet`: `BrokerProbe.greet`."""
        self._agents = agents
        self._greet = greet
        self._monotonic = monotonic
        self._greeted_s = float("-inf")
        self._outage = Outage("the message bus")

    @property
    def is_refused(self) -> bool:
        """Whoever tells an agent something, since the bus hangs."""
        return self._outage.is_on

    def set_mode(self, host: str, mode: str) -> None:
        self._tell(lambda: self._agents.set_mode(host, mode))

    def accept(self, host: str, action_id: str) -> None:
        self._tell(lambda: self._agents.accept(host, action_id))

    def reject(self, host: str, action_id: str, by: str, why: str) -> None:
        self._tell(lambda: self._agents.reject(host, action_id, by, why))

    def undo(self, host: str, action_id: str) -> None:
        self._tell(lambda: self._agents.undo(host, action_id))

    def report_latency(self, host: str, text: str) -> None:
        self._tell_often(lambda: self._agents.report_latency(host, text))

    def tell_overlays(self, host: str, text: str) -> None:
        self._tell_often(lambda: self._agents.tell_overlays(host, text))

    def call_overlay(self, host: str, text: str) -> str:
        return self._tell_often(lambda: self._agents.call_overlay(host, text))

    def set_overrides(self, host: str, text: str) -> int | None:
        return self._tell(lambda: self._agents.set_overrides(host, text))

    def _tell(self, tell: Callable[[], Told]) -> Told:
        self._require_bus()
        return self._await(tell)

    def _tell_often(self, tell: Callable[[], Told]) -> Told:
        """There are many in a second: one greeting serves them all."""
        if self._outage.is_on or self._monotonic() - self._greeted_s >= GREET_EVERY_S:
            self._require_bus()
        return self._await(tell)

    def _await(self, tell: Callable[[], Told]) -> Told:
        telling: Future[Told] = Future()
        # Of the request: the agents are told its id.
        current = request_context.get_current()

        def run() -> None:
            if current is not None:
                current.update_store()
            try:
                telling.set_result(tell())
            except Exception as exc:
                telling.set_exception(exc)

        # It ends by oslo.messaging's own deadline, if nobody waits for it any more.
        threading.Thread(target=run, name="tell-agent", daemon=True).start()
        while not wait([telling], GREET_EVERY_S).done:
            self._require_bus()
        return telling.result()

    def _require_bus(self) -> None:
        if self._outage.is_on:
            raise oslo_messaging.MessageDeliveryFailure("the message bus hangs")
        begun_s = self._monotonic()
        try:
            self._greet()
            self._greeted_s = begun_s
        except OSError as exc:
            self._greeted_s = float("-inf")
            self._outage.note(exc, self._greet)
            raise oslo_messaging.MessageDeliveryFailure(f"no broker answers: {exc}") from exc
