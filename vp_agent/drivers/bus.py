# SPDX-License-Identifier: Apache-2.0
"""The publisher over oslo.messaging: one thread, and a slot that holds the latest decision only.

The tick never waits for the broker: it replaces what lies in the slot. Messages are made and sent
on the thread, when `pacing` says so. A broker that is away costs the news, not the host.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from oslo_config import cfg

from nova_vp import wire
from nova_vp.core.model import Decision, Outcome
from vp_agent.digest import digest
from vp_agent.facts import HostFacts
from vp_agent.news import is_news
from vp_agent.pacing import Intervals, Pace
from vp_agent.report import report

LOG = logging.getLogger(__name__)
CLOSE_TIMEOUT_S = 2.0
HISTORY_STEPS = (16, 4, 1)


class Sender(Protocol):
    def send(self, digest_text: str, report_text: str) -> None:
        """May block, and may raise anything: the publisher tries again later."""


class BusSender:
    """The real one. Connects when first used, on the thread that uses it."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def send(self, digest_text: str, report_text: str) -> None:
        digests, reports = self._clients
        digests.digest(digest_text)
        reports.report(report_text)

    @cached_property
    def _clients(self) -> tuple[Any, Any]:
        # Late: memory that an agent which never publishes does not need.
        from nova_vp import rpcapi

        transport = rpcapi.open_transport(self._conf)
        return rpcapi.DigestAPI(transport), rpcapi.ReportAPI(transport)


@dataclass(frozen=True, slots=True)
class _Latest:
    decision: Decision
    facts: HostFacts


class BusPublisher:
    """`vp_agent.drivers.base.Publisher`."""

    def __init__(
        self,
        sender: Sender,
        facts: Callable[[], HostFacts],
        intervals: Intervals,
        epoch: int,
        *,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`facts` is asked in the tick, once per decision: it must be cheap."""
        self._sender = sender
        self._facts = facts
        self._epoch = epoch
        self._sequence = 0
        self._pace = Pace(intervals, dice)
        self._changed = threading.Condition()
        self._changes = 0
        self._latest: _Latest | None = None
        self._sent: _Latest | None = None
        self._is_closed = False
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="publish", daemon=True)
        self._thread.start()

    def publish(self, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        latest = _Latest(decision, self._facts())
        with self._changed:
            self._latest = latest
            self._note_change()

    def republish(self, within_s: float) -> None:
        """Send again at a random moment within that time, news or not. From any thread."""
        with self._changed:
            self._pace.asked(time.monotonic(), within_s)
            self._note_change()

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
            wait_s = self._until_due_s(latest) if latest else None
            if latest is None or wait_s is None or wait_s > 0:
                self._wait(changes, wait_s)
            else:
                self._try_to_send(latest)

    def _until_due_s(self, latest: _Latest) -> float:
        """Not under the lock: the tick must not wait for this comparison."""
        return self._pace.due_s(self._has_news(latest)) - time.monotonic()

    def _wait(self, changes: int, wait_s: float | None) -> None:
        with self._changed:
            if self._changes == changes:
                self._changed.wait(wait_s)

    def _try_to_send(self, latest: _Latest) -> None:
        try:
            self._send(latest)
        except Exception as exc:  # whatever the bus raises: the host goes on without it
            self._note_failure(exc)
        else:
            self._note_success(latest)

    def _has_news(self, latest: _Latest) -> bool:
        sent = self._sent
        return sent is not latest and (
            sent is None
            or sent.facts.is_homing is not latest.facts.is_homing
            or sent.facts.counters != latest.facts.counters
            or sent.facts.problems != latest.facts.problems
            or is_news(sent.decision, latest.decision)
        )

    def _send(self, latest: _Latest) -> None:
        self._sequence += 1
        order = wire.Order(self._epoch, self._sequence)
        small = digest(latest.decision, latest.facts, order, time.monotonic())
        full = _encode_report(latest, order)
        self._sender.send(wire.encode(wire.DIGEST_TOPIC, small), full)

    def _note_success(self, latest: _Latest) -> None:
        with self._changed:
            self._sent = latest
            self._pace.sent(time.monotonic())
        if self._is_failing:
            LOG.info("published again")
        self._is_failing = False

    def _note_failure(self, exc: Exception) -> None:
        with self._changed:
            self._pace.failed(time.monotonic())
        if not self._is_failing:
            LOG.warning("not published, trying again and again: %s", exc)
        self._is_failing = True


def _encode_report(latest: _Latest, order: wire.Order) -> str:
    """With as much history as fits: a host full of much-moved VPs must still be heard."""
    for actions_per_vp in HISTORY_STEPS:
        message = report(latest.decision, latest.facts, order, actions_per_vp)
        with suppress(wire.BadMessage):
            return wire.encode(wire.REPORT_TOPIC, message)
    return wire.encode(wire.REPORT_TOPIC, report(latest.decision, latest.facts, order, 0))
