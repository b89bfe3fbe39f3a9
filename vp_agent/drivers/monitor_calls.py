# SPDX-License-Identifier: Apache-2.0
"""What libvirt must ask a guest's QEMU for, each call on a thread of its own, with a deadline.

libvirt has none for its QEMU monitor: of a QEMU that hangs it waits for ever, and would hold the
tick with it. One call per guest is under way at a time.
"""

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as TooLate
from typing import Any, NamedTuple, TypeVar

from vp_agent.drivers.base import ApplyFailed

Answer = TypeVar("Answer")
HANGS_AFTER_S = 1.0


class _Call(NamedTuple):
    future: Future[Any]
    hangs_from_s: float
    """When nobody waits for its end any more."""


class MonitorCalls:
    def __init__(self) -> None:
        self._under_way: dict[str, _Call] = {}
        self._begun: dict[str, Future[Any]] = {}

    def check(self, uuid: str) -> None:
        """Raises ApplyFailed where one has gone on for too long."""
        if self._is_busy(uuid) and time.monotonic() >= self._under_way[uuid].hangs_from_s:
            raise _hangs(uuid)

    def begin(self, uuid: str, ask: Callable[[], Any]) -> None:
        """Without waiting for it. Does nothing while an earlier one of that guest goes on."""
        if not self._is_busy(uuid):
            self._begun[uuid] = self._start(uuid, ask, HANGS_AFTER_S)

    def ended(self) -> dict[str, Future[Any]]:
        """Those that were begun and have ended since the last look, by guest."""
        ended = {uuid: one for uuid, one in self._begun.items() if one.done()}
        self._begun = {uuid: one for uuid, one in self._begun.items() if uuid not in ended}
        return ended

    def call(self, uuid: str, ask: Callable[[], Answer], within_s: float) -> Answer:
        """Raises what `ask` raises, and ApplyFailed for a QEMU that does not answer in time."""
        until_s = time.monotonic() + within_s
        if self._is_busy(uuid):
            wait([self._under_way[uuid].future], within_s)
            if self._is_busy(uuid):
                raise _hangs(uuid)
        try:
            left_s = max(0.0, until_s - time.monotonic())
            return self._start(uuid, ask, left_s).result(left_s)
        except TooLate:
            raise _hangs(uuid) from None

    def forget_others(self, present: Collection[str]) -> None:
        """Only these guests are there."""
        self._under_way = {u: call for u, call in self._under_way.items() if u in present}

    def _is_busy(self, uuid: str) -> bool:
        before = self._under_way.get(uuid)
        return before is not None and not before.future.done()

    def _start(self, uuid: str, ask: Callable[[], Answer], within_s: float) -> Future[Answer]:
        future: Future[Answer] = Future()
        self._under_way[uuid] = _Call(future, time.monotonic() + within_s)
        threading.Thread(
            target=_answer, args=(future, ask), name="qemu-monitor", daemon=True
        ).start()
        return future


def _answer(future: Future[Answer], ask: Callable[[], Answer]) -> None:
    try:
        future.set_result(ask())
    except Exception as exc:  # for whoever waits for it
        future.set_exception(exc)


def _hangs(uuid: str) -> ApplyFailed:
    return ApplyFailed(
        f"QEMU of server {uuid} does not answer its monitor: see `virsh qemu-monitor-command`, and "
        "libvirtd's log; it is tried again"
    )
