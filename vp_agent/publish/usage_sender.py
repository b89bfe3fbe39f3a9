# SPDX-License-Identifier: Apache-2.0
"""Usage on its way to the database: one thread that writes it down often and sends it now and then.

The tick never waits for disk or broker. What the cluster has not acknowledged is sent again, later
and later while it is away.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from nova_vp import wire
from nova_vp.core.types.decision import Decision
from nova_vp.service import failpoints
from vp_agent.publish.schedule import Intervals, Schedule
from vp_agent.publish.usage_log import UsageLog, message

LOG = logging.getLogger(__name__)
CLOSE_TIMEOUT_S = 2.0


class Sender(Protocol):
    def usage(self, text: str) -> Mapping[str, str]:
        """Returns once the database has it: by server that was left out, why. May block, and may
        raise anything: it is tried again. Raises wire.BadMessage: whoever got it takes none."""

    def close(self) -> None: ...


class UsageSender:
    def __init__(
        self,
        usage: UsageLog,
        sender: Sender,
        host: str,
        flush_s: float,
        interval_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`wall_clock`: seconds of the Unix epoch."""
        self._usage = usage
        self._sender = sender
        self._host = host
        self._flush_s = flush_s
        self._schedule = Schedule(Intervals(interval_s, 0.0), dice)
        # Hosts that started together do not send together.
        self._due_s = clock() + interval_s * dice()
        self._clock = clock
        self._wall_clock = wall_clock
        self._is_failing = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        self._thread.start()

    def submit(self, decision: Decision) -> None:
        """From the tick."""
        self._usage.add(decision, self._wall_clock())

    def close(self) -> None:
        """What is not acknowledged is in the file: the next run goes on with it."""
        self._stop.set()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._flush_s):
                self._usage.save(self._wall_clock())
                if self._clock() >= self._due_s:
                    self._send()
            self._usage.save(self._wall_clock())
            self._send()
        finally:
            self._sender.close()

    def _send(self) -> None:
        for batch in self._usage.unsent():
            failpoints.reach("before-usage-sent")
            try:
                left_out: Mapping[str, str] = self._sender.usage(message(self._host, batch))
            except wire.BadMessage as exc:
                # A vp-scheduler of another release may take what this one does not.
                LOG.error("the cluster rejects usage, which is sent again for two hours: %s", exc)
                left_out = dict.fromkeys((key.uuid for key in batch), str(exc))
            except Exception as exc:  # whatever the bus raises: the host goes on without it
                self._note_failure(exc)
                return
            failpoints.reach("after-usage-sent")
            self._usage.note_taken(batch, left_out)
        self._is_failing = False
        self._schedule.sent(self._clock())
        self._due_s = self._schedule.due_s(False)

    def _note_failure(self, exc: Exception) -> None:
        self._schedule.failed(self._clock())
        self._due_s = self._schedule.due_s(False)
        if not self._is_failing:
            LOG.warning("usage cannot be sent to the cluster, trying again: %r", exc)
        self._is_failing = True
