# SPDX-License-Identifier: Apache-2.0
"""Between bus and store: what is refused, what waits, and what happens while the store is away."""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from oslo_db import exception as db_exception

from nova_vp import wire
from nova_vp.db.report_store import NewReport
from nova_vp.signing.senders import Process
from tests.identities import call_of
from tests.messages import report_text
from tests.waiting import wait_until
from vp_scheduler.ingest import jitter, service
from vp_scheduler.ingest.report_queue import ReportQueue
from vp_scheduler.ingest.service import ReportEndpoint, Writer

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def a_new_report(host: str = "vp1", order: tuple[int, int] = (1, 1), size: int = 10) -> NewReport:
    return NewReport(host, wire.MessageVersion(*order), "observe", NOW, "x" * size)


def names(batch: Iterable[NewReport]) -> list[tuple[str, int]]:
    return [(report.host, report.version.sequence) for report in batch]


class MemoryStore:
    """What it is given, batch by batch; it can be away."""

    def __init__(self) -> None:
        self.batches: list[list[NewReport]] = []
        self.tries = 0
        self.fault: Exception | None = None

    def save_reports(self, reports: Iterable[NewReport]) -> None:
        self.tries += 1
        if self.fault:
            raise self.fault
        self.batches.append(list(reports))


def test_the_inbox_keeps_the_newest_of_each_host_oldest_host_first() -> None:
    inbox = ReportQueue()
    for host, order in [("vp1", (1, 1)), ("vp2", (1, 1)), ("vp1", (1, 3)), ("vp1", (1, 2))]:
        inbox.put(a_new_report(host, order))
    assert names(inbox.take(10)) == [("vp1", 3), ("vp2", 1)]


def test_batches_are_bounded() -> None:
    inbox = ReportQueue()
    for number in range(5):
        inbox.put(a_new_report(f"vp{number}"))
    assert [len(inbox.take(2)) for _ in range(3)] == [2, 2, 1]


@pytest.mark.parametrize("bounds", [{"max_hosts": 2}, {"max_bytes": 200}])
def test_the_oldest_are_dropped_beyond_the_bounds(bounds: dict[str, int]) -> None:
    inbox = ReportQueue(**bounds)
    for number in range(5):
        inbox.put(a_new_report(f"vp{number}", size=100))
    assert inbox.dropped == 3
    assert names(inbox.take(10)) == [("vp3", 1), ("vp4", 1)]
    inbox.put(a_new_report("vp5", size=100))
    assert inbox.dropped == 3


def test_a_closed_inbox_is_emptied_first() -> None:
    inbox = ReportQueue()
    inbox.put(a_new_report())
    inbox.close()
    assert len(inbox.take(10)) == 1
    assert inbox.take(10) == []


def test_reports_of_unknown_hosts_and_malformed_ones_are_counted_not_kept() -> None:
    inbox = ReportQueue()
    endpoint = ReportEndpoint(inbox, ["vp1"], clock=lambda: NOW)
    for text in (report_text("vp2"), "{", None, report_text("vp1")):
        endpoint.report(call_of(host="vp2" if text and "vp2" in text else "vp1"), text)
    assert endpoint.refusals.counts == {"unwelcome": 1, "malformed": 2}
    assert inbox.take(10) == [
        NewReport("vp1", wire.MessageVersion(1, 1), "observe", NOW, report_text("vp1"))
    ]


def test_what_comes_while_the_store_is_away_is_stored_afterwards(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "RETRY_S", (0.01, 0.02))
    inbox, store = ReportQueue(), MemoryStore()
    store.fault = db_exception.DBConnectionError(OSError("gone"))
    writer = Writer(inbox, store, batch_size=10)
    writer.start()
    inbox.put(a_new_report("vp1", (1, 1)))
    wait_until(lambda: store.tries >= 2, "the second try")
    for sequence in range(2, 50):
        inbox.put(a_new_report("vp1", (1, sequence)))
    store.fault = None
    wait_until(lambda: len(store.batches) == 2, "both batches")
    writer.close(5)
    assert [names(batch) for batch in store.batches] == [[("vp1", 1)], [("vp1", 49)]]
    errors = [r for r in caplog.records if r.levelname == "ERROR" and r.name == service.__name__]
    assert len(errors) == 1


def test_what_can_never_be_stored_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    class PickyStore(MemoryStore):
        def save_reports(self, reports: Iterable[NewReport]) -> None:
            batch = list(reports)
            if any(report.host == "vp3" for report in batch):
                raise db_exception.DBDataError(ValueError("not in this column"))
            super().save_reports(batch)

    inbox, store = ReportQueue(), PickyStore()
    for number in range(6):
        inbox.put(a_new_report(f"vp{number}"))
    writer = Writer(inbox, store, batch_size=10)
    writer.start()
    writer.close(5)
    saved = [host for batch in store.batches for host, _ in names(batch)]
    assert saved == ["vp0", "vp1", "vp2", "vp4", "vp5"]
    assert "vp3" in caplog.text


def test_closing_stores_what_is_left_and_does_not_wait_for_a_store_that_is_away() -> None:
    inbox, store = ReportQueue(), MemoryStore()
    inbox.put(a_new_report())
    writer = Writer(inbox, store, batch_size=10)
    writer.start()
    writer.close(5)
    assert [names(batch) for batch in store.batches] == [[("vp1", 1)]]

    away = MemoryStore()
    away.fault = db_exception.DBConnectionError(OSError("gone"))
    inbox = ReportQueue()
    inbox.put(a_new_report())
    writer = Writer(inbox, away, batch_size=10)
    writer.start()
    wait_until(lambda: away.tries, "a try")
    closing = threading.Thread(target=writer.close, args=(5,))
    closing.start()
    closing.join(5)
    assert not closing.is_alive()


def test_a_scheduler_that_starts_is_taught_and_told_of_the_hosts() -> None:
    asked: list[str] = []
    endpoint = ReportEndpoint(
        ReportQueue(),
        teach=lambda: asked.append("teach"),
        ask_for_digests=lambda: asked.append("ask"),
    )
    endpoint.scheduler_started(call_of(Process.NOVA_SCHEDULER, "ctl1"))
    assert asked == ["teach", "ask"]


@pytest.mark.parametrize(
    ("hosts", "within_s"), [(0, 5.0), (1000, 5.0), (4000, 20.0), (10**6, 60.0)]
)
def test_a_large_cloud_is_given_time_to_answer(hosts: int, within_s: float) -> None:
    assert jitter.spread_s(hosts, jitter.REPORTS_PER_S) == within_s
