# SPDX-License-Identifier: Apache-2.0
"""The publisher over oslo.messaging: one thread, and a slot that holds the latest decision only.

The tick never waits for the broker: it replaces what lies in the slot. Messages are made and sent
on the thread, when `schedule` says so. A broker that is away costs the news, not the host.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from nova_vp import wire
from nova_vp.core.types.action import Outcome
from nova_vp.core.types.decision import Decision
from nova_vp.signing.identity import Identity
from vp_agent.publish.change_filter import is_material_change
from vp_agent.publish.digest import digest
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.report import report
from vp_agent.publish.schedule import Intervals, Schedule

LOG = logging.getLogger(__name__)
CLOSE_TIMEOUT_S = 2.0
HISTORY_STEPS = (16, 4, 1)


class Sender(Protocol):
    def send(self, digest_text: str, report_text: str) -> None:
        """May block, and may raise anything: the publisher tries again later."""

    def send_digest(self, text: str) -> None:
        """Alone; otherwise the same."""


class BusSender:
    """The real one. Connects when first used, on the thread that uses it."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def send(self, digest_text: str, report_text: str) -> None:
        digests, reports = self._clients
        digests.digest(digest_text)
        reports.report(report_text)

    def send_digest(self, text: str) -> None:
        self._clients[0].digest(text)

    @cached_property
    def _clients(self) -> tuple[Any, Any]:
        # Late: memory that an agent which never publishes does not need.
        from nova_vp import rpcapi, rpctransport

        bus = rpctransport.Bus(self._identity)
        return rpcapi.DigestAPI(bus), rpcapi.ReportAPI(bus)


@dataclass(frozen=True, slots=True)
class _Latest:
    decision: Decision
    host_info: HostInfo


class _Due(NamedTuple):
    at_s: float
    send: Callable[[_Latest], None]


class BusPublisher:
    """`vp_agent.drivers.base.Publisher`."""

    def __init__(
        self,
        sender: Sender,
        host_info: Callable[[], HostInfo],
        intervals: Intervals,
        epoch: int,
        *,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`host_info` is asked in the tick, once per decision: it must be cheap."""
        self._sender = sender
        self._host_info = host_info
        self._epoch = epoch
        self._sequence = 0
        self._schedule = Schedule(intervals, dice)
        self._changed = threading.Condition()
        self._changes = 0
        self._latest: _Latest | None = None
        self._sent: _Latest | None = None
        self._is_closed = False
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="publish", daemon=True)
        self._thread.start()

    def publish(self, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        latest = _Latest(decision, self._host_info())
        with self._changed:
            self._latest = latest
            self._note_change()

    def republish(self, within_s: float) -> None:
        """Send again at a random moment within that time, news or not. From any thread."""
        with self._changed:
            self._schedule.asked(time.monotonic(), within_s)
            self._note_change()

    def republish_digest(self, within_s: float) -> None:
        """The same, for those who are not told more than the digest."""
        with self._changed:
            self._schedule.asked_for_digest(time.monotonic(), within_s)
            self._note_change()

    def apply_config(self, intervals: Intervals) -> None:
        """From the next message on. From any thread."""
        with self._changed:
            self._schedule.intervals = intervals

    @property
    def sent_at_s(self) -> float | None:
        """Of the decision that the cloud was told last, monotonic; None: of none yet."""
        sent = self._sent
        return None if sent is None else sent.decision.at_s

    def close(self) -> None:
        """What is not sent in time is not sent: the next agent start tells it anew."""
        with self._changed:
            self._is_closed = True
            self._note_change()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _note_change(self) -> None:
        self._changes += 1
        self._changed.notify()

    def _run(self) -> None:
        while not self._is_closed:
            changes, latest = self._changes, self._latest
            if latest is None:
                self._wait(changes, None)
                continue
            due = self._next(latest)
            wait_s = due.at_s - time.monotonic()
            if wait_s > 0:
                self._wait(changes, wait_s)
            else:
                self._try_to_send(latest, due.send)

    def _next(self, latest: _Latest) -> _Due:
        """Not under the lock: the tick must not wait for this comparison."""
        has_news = self._has_news(latest)
        all_s, digest_s = self._schedule.due_s(has_news), self._schedule.digest_due_s()
        # News never go in a digest alone: what it says must be what the next comparison is with.
        if has_news or all_s <= digest_s:
            return _Due(all_s, self._send)
        return _Due(digest_s, self._send_digest)

    def _wait(self, changes: int, wait_s: float | None) -> None:
        with self._changed:
            if self._changes == changes:
                self._changed.wait(wait_s)

    def _try_to_send(self, latest: _Latest, send: Callable[[_Latest], None]) -> None:
        try:
            send(latest)
        except Exception as exc:  # whatever the bus raises: the host goes on without it
            self._note_failure(exc)
        else:
            self._note_success()

    def _has_news(self, latest: _Latest) -> bool:
        sent = self._sent
        return sent is not latest and (
            sent is None
            or sent.host_info.is_homing is not latest.host_info.is_homing
            or sent.host_info.counters != latest.host_info.counters
            or sent.host_info.problems != latest.host_info.problems
            or sent.host_info.told is not latest.host_info.told
            or sent.host_info.facts is not latest.host_info.facts
            or is_material_change(sent.decision, latest.decision)
        )

    def _send(self, latest: _Latest) -> None:
        version = self._begin()
        full = _encode_report(latest, version)
        self._sender.send(_encode_digest(latest, version), full)
        with self._changed:
            self._sent = latest
            self._schedule.sent(time.monotonic())

    def _send_digest(self, latest: _Latest) -> None:
        self._sender.send_digest(_encode_digest(latest, self._begin()))

    def _begin(self) -> wire.MessageVersion:
        with self._changed:
            self._schedule.begun()
        self._sequence += 1
        return wire.MessageVersion(self._epoch, self._sequence)

    def _note_success(self) -> None:
        if self._is_failing:
            LOG.info("published again")
        self._is_failing = False

    def _note_failure(self, exc: Exception) -> None:
        with self._changed:
            self._schedule.failed(time.monotonic())
        if not self._is_failing:
            LOG.warning(
                "not published, trying again; check RabbitMQ and [bus] transport_url with "
                "`vp-agent check`: %s",
                exc,
            )
        self._is_failing = True


def _encode_digest(latest: _Latest, version: wire.MessageVersion) -> str:
    message = digest(latest.decision, latest.host_info, version, time.monotonic())
    return wire.encode(wire.DIGEST_TOPIC, message)


def _encode_report(latest: _Latest, version: wire.MessageVersion) -> str:
    """With as much history as fits: a host full of much-moved VPs must still be heard."""
    for actions_per_vp in HISTORY_STEPS:
        message = report(latest.decision, latest.host_info, version, actions_per_vp)
        with suppress(wire.BadMessage):
            return wire.encode(wire.REPORT_TOPIC, message)
    return wire.encode(wire.REPORT_TOPIC, report(latest.decision, latest.host_info, version, 0))
