# SPDX-License-Identifier: Apache-2.0
"""What is counted as reports come in and are stored, for /metrics. Import late: it brings
prometheus_client.
"""

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Histogram

from nova_vp.db.purge import Before, Step
from nova_vp.db.records import ClassCount, HostHead
from nova_vp.db.report_store import NewReport
from vp_scheduler.ingest.service import Storing

LAG_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0)
STORE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Meters:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.stored = Counter(
            "nova_vp_scheduler_reports_stored",
            "Reports that were committed to the database",
            registry=self.registry,
        )
        self.store_failures = Counter(
            "nova_vp_scheduler_store_failures",
            "Transactions with reports that failed; they are tried again",
            registry=self.registry,
        )
        self.store_s = Histogram(
            "nova_vp_scheduler_store_seconds",
            "Duration of a transaction with reports",
            buckets=STORE_BUCKETS_S,
            registry=self.registry,
        )
        self.store_lag_s = Histogram(
            "nova_vp_scheduler_store_lag_seconds",
            "Time from when a report was received to its commit",
            buckets=LAG_BUCKETS_S,
            registry=self.registry,
        )
        self.report_age_s = Histogram(
            "nova_vp_scheduler_report_age_seconds",
            "Age of the reports as they were received, by the clock of their hosts: with clocks "
            "that agree, what the queue held them up",
            buckets=LAG_BUCKETS_S,
            registry=self.registry,
        )

    def heard(self, made_at: float) -> None:
        """A report whose host made it at that moment, since 1970."""
        self.report_age_s.observe(max(0.0, time.time() - made_at))


class MeteredStore:
    """`vp_scheduler.ingest.service.Storing`, and what it costs."""

    def __init__(self, store: Storing, meters: Meters) -> None:
        self._store = store
        self._meters = meters

    def save_reports(self, reports: Iterable[NewReport]) -> None:
        batch = list(reports)
        try:
            with self._meters.store_s.time():
                self._store.save_reports(batch)
        except Exception:
            self._meters.store_failures.inc()
            raise
        now = datetime.now(UTC)
        self._meters.stored.inc(len(batch))
        for report in batch:
            self._meters.store_lag_s.observe(max(0.0, (now - report.received_at).total_seconds()))

    def list_heads(self) -> list[HostHead]:
        return self._store.list_heads()

    def count_classes(self) -> list[ClassCount]:
        return self._store.count_classes()

    def purge(self, before: Before, now: datetime) -> Iterator[Step]:
        return self._store.purge(before, now)
