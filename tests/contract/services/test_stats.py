# SPDX-License-Identifier: Apache-2.0
"""What /metrics of a vp-scheduler counts in the database, on each kind of it."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.db.escalations import Ledger
from nova_vp.db.report_store import ReportStore
from nova_vp.db.stats import HostKind, Stats, StatsReader
from nova_vp.escalation_status import Status
from tests.contract.services.test_history import Clock
from tests.messages import escalation_text

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def surveyor(database_conf: cfg.ConfigOpts) -> StatsReader:
    options.register_all(database_conf)
    return StatsReader(database_conf)


def settle(ledger: Ledger, status: Status, at: datetime | None) -> None:
    id = str(uuid.uuid4())
    ledger.add(id, "vp1", escalation_text(id=id), NOW)
    row = next(row for row in ledger.list_waiting(NOW) if row.id == id)
    claimed = ledger.claim(row, "w")
    assert claimed is not None
    ledger.save(claimed, {"status": status, "settled_at": at, "owner": None})


def test_an_empty_database(surveyor: StatsReader) -> None:
    assert surveyor.survey(NOW) == Stats({}, {}, {})


def test_hosts_and_escalations_are_counted(
    surveyor: StatsReader, store: ReportStore, database_conf: cfg.ConfigOpts
) -> None:
    reports, ledger = Clock(store), Ledger(database_conf)
    for host, age_s in (("vp1", 1), ("vp2", 179), ("vp3", 181), ("vp4", 86400)):
        reports.save(host=host, at=NOW - timedelta(seconds=age_s))
    settle(ledger, Status.REFUSED, NOW - timedelta(hours=1))
    settle(ledger, Status.OBSERVED, NOW - timedelta(hours=25))
    settle(ledger, Status.PROPOSED, None)
    settle(ledger, Status.RECEIVED, None)
    assert surveyor.survey(NOW) == Stats(
        hosts={HostKind("observe", True): 2, HostKind("observe", False): 2},
        standing={"proposed": 1, "received": 1},
        settled={"refused": 1},
    )
