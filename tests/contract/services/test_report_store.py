# SPDX-License-Identifier: Apache-2.0
"""The report store, the same on SQLite, MariaDB and PostgreSQL."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp import wire
from nova_vp.db import schema
from nova_vp.db.models import Base
from nova_vp.db.records import HostHead
from nova_vp.db.report_store import ERRORS, NewReport, ReportStore
from tests.messages import a_report

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def a_new_report(
    host: str = "vp1",
    order: tuple[int, int] = (1, 1),
    mode: str = "observe",
    received_at: datetime = NOW,
    actuator: str = "kernel",
) -> NewReport:
    text = wire.encode(wire.REPORT_TOPIC, a_report(host, order, mode, actuator=actuator))
    return NewReport(host, wire.MessageVersion(*order), mode, received_at, text)


def orders(store: ReportStore) -> dict[str, tuple[int, int]]:
    return {head.host: (head.version.epoch, head.version.sequence) for head in store.list_heads()}


def test_a_stored_report_is_read_back(store: ReportStore) -> None:
    store.save_reports([a_new_report(mode="advise")])
    record = store.get_host("vp1")
    assert record is not None
    assert record.received_at == NOW
    assert record.mode == "advise"
    assert record.report == a_report(mode="advise")
    assert (record.host, record.epoch, record.sequence) == ("vp1", 1, 1)
    assert store.list_heads() == [HostHead("vp1", wire.MessageVersion(1, 1), "advise", NOW)]


def test_an_empty_store(store: ReportStore) -> None:
    assert store.list_heads() == []
    assert store.get_host("vp1") is None
    store.save_reports([])


@pytest.mark.parametrize(
    ("label", "batches", "expected"),
    [
        ("in order", [[(1, 1)], [(1, 2)]], (1, 2)),
        ("late", [[(1, 2)], [(1, 1)]], (1, 2)),
        ("late within one batch", [[(1, 2), (1, 1)]], (1, 2)),
        ("duplicated", [[(1, 1)], [(1, 1)]], (1, 1)),
        ("restarted agent counts from one again", [[(1, 9)], [(2, 1)]], (2, 1)),
        ("late one of the agent before", [[(2, 1)], [(1, 10)]], (2, 1)),
    ],
)
def test_newest_wins(
    store: ReportStore, label: str, batches: list[list[tuple[int, int]]], expected: tuple[int, int]
) -> None:
    for batch in batches:
        store.save_reports(a_new_report(order=order) for order in batch)
    assert orders(store) == {"vp1": expected}, label


def test_what_is_no_news_any_more_gives_way_to_any_epoch(store: ReportStore) -> None:
    store.save_reports([a_new_report(order=(9, 9))])
    later = NOW + timedelta(seconds=wire.EXPIRE_S + 1)
    store.save_reports([a_new_report(order=(1, 1), received_at=later)])
    assert orders(store) == {"vp1": (1, 1)}


def test_a_batch_mixes_new_and_known_hosts(store: ReportStore) -> None:
    store.save_reports([a_new_report("vp2")])
    store.save_reports([a_new_report("vp3"), a_new_report("vp2", (1, 2)), a_new_report("vp1")])
    assert orders(store) == {"vp1": (1, 1), "vp2": (1, 2), "vp3": (1, 1)}


def test_two_hosts_whose_names_differ_in_case_alone(store: ReportStore) -> None:
    store.save_reports([a_new_report("vp1", (5, 1))])
    store.save_reports([a_new_report("VP1", (1, 1))])
    assert orders(store) == {"vp1": (5, 1), "VP1": (1, 1)}


def test_a_large_report(store: ReportStore) -> None:
    large = "x" * (wire.MAX_REPORT_BYTES - 1000)
    store.save_reports([a_new_report(actuator=large), a_new_report("vp2", actuator=large)])
    record = store.get_host("vp1")
    assert record is not None
    assert record.report["actuator"] == large


def test_two_services_storing_the_same_hosts_at_once(store: ReportStore) -> None:
    def save(first: int) -> None:
        for sequence in range(first, 20, 2):
            store.save_reports(a_new_report(f"vp{n}", (1, sequence)) for n in (3, 1, 2))

    threads = [threading.Thread(target=save, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert orders(store) == {f"vp{n}": (1, 19) for n in (1, 2, 3)}


def test_sync_again_changes_nothing_and_matches_the_models(
    database_conf: cfg.ConfigOpts, store: ReportStore
) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    store.save_reports([a_new_report()])
    engine = schema.open_engine(database_conf)
    schema.upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    assert schema.current_revision(engine) == "0021"
    assert orders(store) == {"vp1": (1, 1)}


def test_a_database_without_our_tables_raises_what_services_wait_for(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "no-tables.conf"
    file.write_text(f"[database]\nconnection = {database_url}\n")
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(file)])
    with pytest.raises(ERRORS):
        ReportStore(conf).save_reports([a_new_report()])
