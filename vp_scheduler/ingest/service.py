# SPDX-License-Identifier: Apache-2.0
"""The vp-scheduler's part that listens to hosts: takes in full reports, stores them in batches.

Any number may run: reports come over one work queue, and the store lets the newest win. The bus and
the database may go away and come back at any time.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from oslo_db import exception as db_exception

from nova_vp import rpcserver, rpctransport, wire
from nova_vp.db.bus_keys import BusKeyStore
from nova_vp.db.modes import ModeStore
from nova_vp.db.overlays import OverlayStore
from nova_vp.db.overrides import OverrideStore
from nova_vp.db.report_store import ERRORS, NewReport
from nova_vp.message_filter import KnownHosts, MessageFilter
from nova_vp.signing.envelope import Call
from nova_vp.signing.identity import Identity
from vp_scheduler.ingest.bus_agents import BusAgents
from vp_scheduler.ingest.deleted_servers import open_deleted_servers
from vp_scheduler.ingest.key_publisher import HostKeyPublisher
from vp_scheduler.ingest.mode_sync import ModeSync
from vp_scheduler.ingest.nova_facts import FactsSync
from vp_scheduler.ingest.overlay_sync import OverlaySync
from vp_scheduler.ingest.override_sync import OverrideSync
from vp_scheduler.ingest.profile_publisher import Counting, ProfilePublisher
from vp_scheduler.ingest.purger import Purger, Purging
from vp_scheduler.ingest.report_queue import ReportQueue
from vp_scheduler.ingest.republish import Listing, RepublishRequester
from vp_scheduler.ingest.same_name import SameName

LOG = logging.getLogger(__name__)
RETRY_S = (1.0, 4.0)
"""The longest soon enough that hosts are shown within seconds after the database is back."""
THREADS = 2
STORE_WITHIN_S = 60.0
"""At a stop, while the database answers: systemd kills after 90 s."""
GATHER_S = 0.2
"""A transaction costs what ten reports do: some are let come together before the next."""
UNSTORABLE = (db_exception.DBDataError, db_exception.DBInvalidUnicodeParameter, ValueError)


Hearer = Callable[[Mapping[str, Any]], None]
"""Of a valid report."""


class Part(Protocol):
    """Of the service, with a thread of its own."""

    def start(self) -> None: ...

    def close(self, timeout_s: float) -> None: ...


class Saving(Protocol):
    def save_reports(self, reports: Iterable[NewReport]) -> None: ...


class Storing(Saving, Counting, Purging, Listing, Protocol):
    """All that the service asks of the database."""


class ReportEndpoint:
    """`rpcapi.ReportAPI`, served."""

    def __init__(
        self,
        reports: ReportQueue,
        known_hosts: Iterable[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        teach: Callable[[], None] = lambda: None,
        ask_for_digests: Callable[[], None] = lambda: None,
        heard: Callable[[float], None] = lambda made_at: None,
        compare: Hearer = lambda report: None,
    ) -> None:
        """`heard`: of a report that its host made at that moment. `compare`: what the host was told
        with the overrides of its servers, and known of them."""
        self._reports = reports
        self._teach = teach
        self._ask_for_digests = ask_for_digests
        self._heard = heard
        self._compare = compare
        self.known_hosts = KnownHosts(known_hosts)
        self._clock = clock
        self.refusals = MessageFilter()
        self.taken = 0
        """Messages, good and bad."""

    def report(self, call: Call, text: Any) -> None:
        self.taken += 1
        try:
            message = self.refusals.take(
                wire.REPORT_TOPIC, text, call.sender.host, self.known_hosts
            )
        except wire.BadMessage:
            return
        self._heard(message["at"])
        self._compare(message)
        version = wire.version_of(message)
        self._reports.put(NewReport(message["host"], version, message["mode"], self._clock(), text))

    def scheduler_started(self, call: Call) -> None:
        self._teach()
        self._ask_for_digests()


def _all_of(*hearers: Hearer) -> Hearer:
    def hear(report: Mapping[str, Any]) -> None:
        for heard in hearers:
            heard(report)

    return hear


class Writer:
    """Takes batches of reports into the store, one transaction each, on its own thread."""

    def __init__(self, reports: ReportQueue, store: Saving, batch_size: int) -> None:
        self._reports = reports
        self._store = store
        self._batch_size = batch_size
        self._stop = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stores what is left, if the database is there."""
        self._reports.close()
        self._stop.set()
        self._thread.join(timeout_s)

    @property
    def is_done(self) -> bool:
        """Nothing waits, and nothing is on its way."""
        return not self._thread.is_alive() and not len(self._reports) and not self._is_failing

    def _run(self) -> None:
        while batch := self._reports.take(self._batch_size):
            if not self._save(batch):
                return
            if len(batch) < self._batch_size:
                self._stop.wait(GATHER_S)

    def _save(self, batch: list[NewReport]) -> bool:
        """Again until it succeeds; False: told to stop while the database was away."""
        retry_s, most_s = RETRY_S
        while True:
            try:
                self._store.save_reports(batch)
            except UNSTORABLE as exc:
                return self._save_apart(batch, exc)
            except ERRORS as exc:
                self._note_failure(exc)
            else:
                self._note_success()
                return True
            if self._stop.wait(retry_s):
                return False
            retry_s = min(2 * retry_s, most_s)

    def _save_apart(self, batch: list[NewReport], exc: Exception) -> bool:
        """One that can never be stored must not keep the others waiting."""
        if len(batch) == 1:
            LOG.error("host=%s a report that cannot be stored is dropped: %s", batch[0].host, exc)
            return True
        half = len(batch) // 2
        return self._save(batch[:half]) and self._save(batch[half:])

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
            LOG.info("reports are stored again; %d were dropped", self._reports.dropped)
        self._is_failing = False


class Service:
    def __init__(
        self,
        identity: Identity,
        store: Storing,
        heard: Callable[[float], None] = lambda made_at: None,
        facts: FactsSync | None = None,
    ) -> None:
        """`heard` as of `ReportEndpoint`. `facts`: None where Nova cannot be asked for them."""
        conf = identity.conf
        settings = conf.vp_scheduler
        self.reports = reports = ReportQueue()
        publisher = ProfilePublisher(identity, store)
        keys = HostKeyPublisher(identity, BusKeyStore(conf))
        republish = RepublishRequester(identity, store, keys.tell)
        overrides = OverrideSync(OverrideStore(conf), BusAgents(identity))
        overlays = OverlaySync(OverlayStore(conf), BusAgents(identity))
        modes = ModeSync(ModeStore(conf), BusAgents(identity))
        self.endpoint = ReportEndpoint(
            reports,
            settings.known_hosts,
            teach=publisher.ask,
            ask_for_digests=republish.ask_for_digests,
            heard=heard,
            compare=_all_of(
                overrides.heard,
                overlays.heard,
                modes.heard,
                SameName().heard,
                *([facts.heard] if facts else []),
            ),
        )
        self._writer = Writer(reports, store, settings.batch_size)
        self._threads: list[Part] = [publisher, keys, republish, overrides, overlays, modes]
        self._threads.append(Purger(conf, store))
        if facts:
            self._threads.append(facts)
        if (deleted := open_deleted_servers(conf)) is not None:
            self._threads.append(deleted)
        # One queue for all vp-schedulers; oslo.messaging wants a server's name nevertheless.
        where = rpctransport.target(wire.REPORT_TOPIC, server="vp-scheduler")
        self._server = rpcserver.BackgroundServer(
            identity, where, [self.endpoint], threads=THREADS, on_ready=republish.call_for_reports
        )

    @property
    def is_listening(self) -> bool:
        return self._server.is_ready

    def start(self) -> None:
        for thread in (self._writer, *self._threads):
            thread.start()
        self._server.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """First no more reports, then those that were taken in are stored. Whether all are: the
        broker forgot them as they were taken in."""
        taken = self.endpoint.taken
        is_over = self._server.stop(timeout_s)
        while not is_over and self.endpoint.taken != taken:
            taken = self.endpoint.taken
            is_over = self._server.wait(timeout_s)
        self._writer.close(STORE_WITHIN_S)
        for thread in self._threads:
            thread.close(timeout_s)
        return self._writer.is_done
