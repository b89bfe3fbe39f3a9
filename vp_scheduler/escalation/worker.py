# SPDX-License-Identifier: Apache-2.0
"""Finds escalations that need somebody, claims them and takes them a step further.

Any number of workers, in any number of processes, and no leader. A claim is given back after every
step. One that was not is taken over by whoever has seen its row unchanged for the length of the
lease on its own monotonic clock: no two machines have to agree on the time.
"""

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Protocol

from nova_vp.db.escalations import Ledger, LostClaim, Waiting
from nova_vp.db.records import Escalation
from nova_vp.db.report_store import ERRORS
from vp_scheduler.escalation.clock import Clock

LOG = logging.getLogger(__name__)

THREADS = 4
MOST_TAKEN = 2 * THREADS
"""At once: what is taken comes before whatever another host sends meanwhile."""
PENALTY_S = 60.0
DATABASE_RETRY_S = (1.0, 4.0)


class Stepping(Protocol):
    def run(self, escalation: Escalation) -> None: ...


class Leases:
    """Which claims may be taken: free ones, our own, and those whose worker is silent."""

    def __init__(self, owner: str, lease_s: float, monotonic_s: Callable[[], float]) -> None:
        self._owner = owner
        self._lease_s = lease_s
        self._monotonic_s = monotonic_s
        self._seen: dict[str, tuple[int, float]] = {}

    def see(self, rows: list[Waiting]) -> None:
        now_s = self._monotonic_s()
        seen = {}
        for row in rows:
            version, since_s = self._seen.get(row.id, (row.version, now_s))
            seen[row.id] = (row.version, since_s if version == row.version else now_s)
        self._seen = seen

    def may_take(self, row: Waiting) -> bool:
        if row.owner is None or row.owner == self._owner:
            return True
        _, since_s = self._seen[row.id]
        return self._monotonic_s() - since_s >= self._lease_s


class Worker:
    def __init__(
        self, ledger: Ledger, steps: Stepping, clock: Clock, lease_s: float, poll_s: float
    ) -> None:
        self._ledger = ledger
        self._steps = steps
        self._clock = clock
        self._poll_s = poll_s
        # New with every process: what a former one of this machine left is not ours.
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._leases = Leases(self._owner, lease_s, clock.monotonic_s)
        self._busy: set[str] = set()
        self._is_more_due = False
        self._woken = threading.Event()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="escalation")
        self._thread = threading.Thread(target=self._run, name="escalations", daemon=True)
        self._is_failing = False

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There is news in the ledger."""
        self._woken.set()

    def stop(self, timeout_s: float) -> None:
        """What is being done is finished first, within the timeout; the rest is found later."""
        self._stop.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        ending = threading.Thread(target=self._pool.shutdown, name="end", daemon=True)
        ending.start()
        ending.join(timeout_s)

    def _run(self) -> None:
        retry_s, most_s = DATABASE_RETRY_S
        while not self._stop.is_set():
            try:
                self.look_for_work()
            except ERRORS as exc:
                self._note_failure(exc)
                self._stop.wait(retry_s)
                retry_s = min(2 * retry_s, most_s)
                continue
            self._is_failing, retry_s = False, DATABASE_RETRY_S[0]
            self._woken.wait(self._poll_s)
            self._woken.clear()

    def look_for_work(self) -> None:
        """Raises `ERRORS` of the database."""
        rows = self._ledger.list_waiting(self._clock.now())
        self._leases.see(rows)
        free = [row for row in rows if row.id not in self._busy and self._leases.may_take(row)]
        room = MOST_TAKEN - len(self._busy)
        self._is_more_due = len(free) > room
        for row in free[:room]:
            self._busy.add(row.id)
            self._pool.submit(self._work_on, row)

    def _work_on(self, row: Waiting) -> None:
        try:
            escalation = self._ledger.claim(row, self._owner)
            if escalation is not None:
                self._steps.run(escalation)
        except LostClaim:
            LOG.info("escalation=%s another vp-scheduler is at it", row.id)
        # Whatever it is, it must not stop the others, nor be repeated at once by anybody.
        except ERRORS as exc:
            self._note_failure(exc)
            self._postpone(row, DATABASE_RETRY_S[1])
        except Exception:
            LOG.exception("escalation=%s trying again in %.0f s", row.id, PENALTY_S)
            self._postpone(row, PENALTY_S)
        finally:
            self._busy.discard(row.id)
            if self._is_more_due:
                self.wake()

    def _postpone(self, row: Waiting, span_s: float) -> None:
        until = self._clock.now() + timedelta(seconds=span_s)
        try:
            self._ledger.postpone(row.id, self._owner, until)
        except ERRORS as exc:
            self._note_failure(exc)

    def _note_failure(self, exc: Exception) -> None:
        if not self._is_failing:
            LOG.error(
                "cannot reach the ledger of escalations, trying again; check [database] connection "
                "and that `vp-manage db sync` was run: %s",
                str(exc).partition("\n")[0],
            )
        self._is_failing = True
