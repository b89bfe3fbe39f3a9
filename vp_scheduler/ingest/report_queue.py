# SPDX-License-Identifier: Apache-2.0
"""Reports between the bus and the store: the newest of each host, the oldest host first.

Bounded by hosts and bytes, so that a database that is away costs history, not memory.
"""

import threading
from collections import OrderedDict

from nova_vp.db.report_store import NewReport

MAX_HOSTS = 20_000
MAX_BYTES = 256 * 1024 * 1024


class ReportQueue:
    def __init__(self, max_hosts: int = MAX_HOSTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_hosts = max_hosts
        self._max_bytes = max_bytes
        self._filled = threading.Condition()
        self._reports: OrderedDict[str, NewReport] = OrderedDict()
        self._bytes = 0
        self._is_closed = False
        self.dropped = 0
        """Reports that were never stored because of the bounds."""

    def __len__(self) -> int:
        """Hosts whose reports wait."""
        return len(self._reports)

    def put(self, report: NewReport) -> None:
        """A report that is older than the waiting one of its host is dropped in silence."""
        with self._filled:
            waiting = self._reports.get(report.host)
            if waiting and not report.version.is_newer_than(waiting.version):
                return
            self._bytes += len(report.text) - (len(waiting.text) if waiting else 0)
            self._reports[report.host] = report
            while len(self._reports) > self._max_hosts or self._bytes > self._max_bytes:
                _, oldest = self._reports.popitem(last=False)
                self._bytes -= len(oldest.text)
                self.dropped += 1
            self._filled.notify()

    def take(self, most: int) -> list[NewReport]:
        """Waits for reports; an empty list says that the inbox is closed and empty."""
        with self._filled:
            self._filled.wait_for(lambda: self._reports or self._is_closed)
            count = min(most, len(self._reports))
            batch = [self._reports.popitem(last=False)[1] for _ in range(count)]
            self._bytes -= sum(len(report.text) for report in batch)
            return batch

    def close(self) -> None:
        """What is in it can still be taken."""
        with self._filled:
            self._is_closed = True
            self._filled.notify_all()
