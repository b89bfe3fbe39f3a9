# SPDX-License-Identifier: Apache-2.0
"""Calls of monitors on this host: those for servers here are the agent's to answer, those for
servers elsewhere go to a vp-scheduler, which asks the agents there. No agent asks another one.

Import takes no oslo.messaging.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from nova_vp import wire
from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Overlay
from nova_vp.overlay_answers import combined
from nova_vp.overlay_message import CallMessage, call_text, read_answer
from nova_vp.printable import printable

SILENT_S = 10.0
"""So long after no vp-scheduler answered no monitor is made to wait for one."""
_SILENT = "no vp-scheduler answered a moment ago; servers of this host are served"


class MonitorCall(NamedTuple):
    call: Call
    is_everywhere: bool = False
    """Of all servers of the overlay, on all hosts."""


class NoAnswer(Exception):
    """Of a vp-scheduler. The text says why."""


class Elsewhere(Protocol):
    """Thread-safe."""

    def call_elsewhere(self, text: str) -> str:
        """As `rpcapi.OverlayAPI`. Raises NoAnswer and wire.BadMessage."""


class MonitorCalls:
    """Thread-safe."""

    def __init__(
        self,
        here: Callable[[Call], CallAnswer],
        overlays: Callable[[], Mapping[str, Overlay]],
        elsewhere: Elsewhere,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`here` answers for this host. `overlays`: those that this host was told of."""
        self._here = here
        self._overlays = overlays
        self._elsewhere = elsewhere
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._silent_until_s = float("-inf")

    def answer(self, asked: MonitorCall) -> CallAnswer:
        """Blocks until all who are concerned have answered, or are not waited for any more."""
        call = asked.call
        overlay = self._overlays().get(call.overlay_id)
        if overlay is None:
            return self._here(call)  # Which says so.
        if call.guest_uuid and call.guest_uuid not in overlay.members:
            return self._ask(call, overlay.project_id)
        if not asked.is_everywhere:
            return self._here(call)
        with ThreadPoolExecutor(1) as pool:  # At once: all begin together.
            there = pool.submit(self._ask, call, overlay.project_id)
            answers = {"here": self._here(call), "elsewhere": there.result()}
        return combined(call.id, answers)

    def _ask(self, call: Call, project_id: str) -> CallAnswer:
        if self._is_silent():
            return CallAnswer(call.id, Nack.UNREACHABLE, _SILENT)
        message = CallMessage(call, project_id, int(self._clock() * 1000))
        try:
            answer = read_answer(self._elsewhere.call_elsewhere(call_text(message)))
        except NoAnswer as exc:
            self._note_silent()
            return CallAnswer(call.id, Nack.UNREACHABLE, printable(str(exc), 300))
        except wire.BadMessage as exc:
            return CallAnswer(call.id, Nack.HOST_REFUSED, printable(str(exc), 300))
        if answer.call_id != call.id:
            return CallAnswer(call.id, Nack.HOST_REFUSED, "another call was answered")
        return answer

    def _is_silent(self) -> bool:
        with self._lock:
            return self._monotonic() < self._silent_until_s

    def _note_silent(self) -> None:
        with self._lock:
            self._silent_until_s = self._monotonic() + SILENT_S
