# SPDX-License-Identifier: Apache-2.0
"""The vp-scheduler: takes in full reports and stores the latest of each host.

Any number may run: reports come over one work queue, and the store lets the newest win. The bus and
the database may go away and come back at any time.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

import oslo_messaging
from oslo_config import cfg
from oslo_db import exception as db_exception

from nova_vp import rpcapi, wire
from nova_vp.db.queries import NewReport
from vp_scheduler.inbox import Inbox

LOG = logging.getLogger(__name__)
REPUBLISH_WITHIN_S = 5.0
RETRY_S = (1.0, 30.0)
THREADS = 2


class Saving(Protocol):
    def save_reports(self, reports: Iterable[NewReport]) -> None: ...


class ReportEndpoint:
    """`rpcapi.ReportAPI`, served."""

    target = oslo_messaging.Target(version="1.0")

    def __init__(
        self,
        inbox: Inbox,
        known_hosts: Collection[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._inbox = inbox
        self._known_hosts = frozenset(known_hosts)
        self._clock = clock
        self.refused: Counter[str] = Counter()

    def report(self, context: Any, text: Any) -> None:
        try:
            message = wire.decode(wire.REPORT_TOPIC, text)
        except wire.BadMessage as exc:
            self._note("malformed", str(exc))
            return
        host = message["host"]
        if self._known_hosts and host not in self._known_hosts:
            self._note("unknown-host", f"{host}: not among [vp_scheduler] known_hosts")
            return
        order = wire.order_of(message)
        self._inbox.put(NewReport(host, order, message["mode"], self._clock(), text))

    def _note(self, kind: str, text: str) -> None:
        self.refused[kind] += 1
        count = self.refused[kind]
        # At 1, 10, 100 ...: a flood of bad messages must not become a flood of log lines.
        if str(count).rstrip("0") == "1":
            LOG.warning("refused %d reports (%s), the latest: %s", count, kind, text)


class Writer:
    """Takes batches from the inbox into the store, one transaction each, on its own thread."""

    def __init__(self, inbox: Inbox, store: Saving, batch_size: int) -> None:
        self._inbox = inbox
        self._store = store
        self._batch_size = batch_size
        self._stop = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stores what is left, if the database is there."""
        self._inbox.close()
        self._stop.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while batch := self._inbox.take(self._batch_size):
            if not self._save(batch):
                return

    def _save(self, batch: list[NewReport]) -> bool:
        """Again until it succeeds; False: told to stop while the database was away."""
        retry_s, most_s = RETRY_S
        while True:
            try:
                self._store.save_reports(batch)
            except db_exception.DBError as exc:
                self._note_failure(exc)
            else:
                self._note_success()
                return True
            if self._stop.wait(retry_s):
                return False
            retry_s = min(2 * retry_s, most_s)

    def _note_failure(self, exc: Exception) -> None:
        if not self._is_failing:
            LOG.error(
                "cannot store reports, trying again; check [database] connection and that "
                "`vp-manage db sync` was run: %s",
                str(exc).partition("\n")[0],
            )
        self._is_failing = True

    def _note_success(self) -> None:
        if self._is_failing:
            LOG.info("reports are stored again")
        self._is_failing = False


class Service:
    def __init__(self, conf: cfg.ConfigOpts, store: Saving) -> None:
        settings = conf.vp_scheduler
        inbox = Inbox()
        self.endpoint = ReportEndpoint(inbox, settings.known_hosts)
        self._writer = Writer(inbox, store, settings.batch_size)
        # One queue for all vp-schedulers; a server name is needed, and it names one more.
        where = rpcapi.target(wire.REPORT_TOPIC, server="vp-scheduler")
        self._server = rpcapi.BackgroundServer(
            conf, where, [self.endpoint], threads=THREADS, on_ready=_ask_for_reports
        )

    @property
    def is_listening(self) -> bool:
        return self._server.is_ready

    def start(self) -> None:
        self._writer.start()
        self._server.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """First no more reports, then those that were taken in are stored."""
        self._server.stop(timeout_s)
        self._writer.close(timeout_s)


def _ask_for_reports(transport: oslo_messaging.Transport) -> None:
    try:
        rpcapi.AgentAPI(transport).republish(REPUBLISH_WITHIN_S)
    except oslo_messaging.MessagingException as exc:
        LOG.warning("could not ask the hosts for their reports, they come by and by: %s", exc)
