# SPDX-License-Identifier: Apache-2.0
"""What a vp-scheduler's /metrics and /health say, of a service without bus and database."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from oslo_db import exception as db_exception

from nova_vp.db.stats import HostKind, Stats
from nova_vp.escalation_status import FINAL, Status
from nova_vp.service.health import Status as HealthStatus
from tests.unit.scheduler.test_service import MemoryStore, a_new_report
from tests.waiting import wait_until
from vp_scheduler import metrics
from vp_scheduler.ingest.meters import MeteredStore, Meters
from vp_scheduler.ingest.stats_poller import HANGS_AFTER_S, StatsPoller
from vp_scheduler.metrics import Sources, registry_of

SURVEY = Stats(
    hosts={HostKind("enforce", True): 3, HostKind("observe", False): 1},
    standing={"migrating": 2},
    settled={"completed": 5},
)


class Books:
    """A database that is surveyed; it can be away."""

    def __init__(self):
        self.fault = None
        self.looks = 0

    def survey(self, now):
        self.looks += 1
        if self.fault:
            raise self.fault
        return SURVEY


@pytest.fixture
def books():
    return Books()


@pytest.fixture
def lookout(books):
    return StatsPoller(books)


def sources(**about):
    values = {
        "waiting": lambda: 7,
        "most_waiting": 20,
        "dropped": lambda: 4,
        "refused": lambda: {"malformed": 2},
        "listening": lambda: {"report": True, "escalation": True},
        "escalation_mode": lambda: "advise",
        "is_broker_reachable": lambda: True,
    }
    return Sources(**values | about)


def shown(lookout, meters=None, **about):
    return registry_of(meters or Meters(), sources(**about), lookout)


def test_the_cloud_is_told_in_counts_alone(lookout):
    lookout.look()
    told = shown(lookout).get_sample_value
    assert told("nova_vp_hosts", {"mode": "enforce", "heard": "yes"}) == 3
    assert told("nova_vp_hosts", {"mode": "observe", "heard": "no"}) == 1
    assert told("nova_vp_hosts", {"mode": "advise", "heard": "yes"}) == 0
    assert told("nova_vp_escalations", {"status": "migrating"}) == 2
    assert told("nova_vp_escalations_settled_last_day", {"status": "completed"}) == 5
    assert told("nova_vp_scheduler_reports_waiting") == 7
    assert told("nova_vp_scheduler_reports_dropped_total") == 4
    assert told("nova_vp_scheduler_reports_refused_total", {"reason": "malformed"}) == 2
    assert told("nova_vp_scheduler_reports_refused_total", {"reason": "unwelcome"}) == 0
    assert told("nova_vp_scheduler_bus_listening", {"topic": "report"}) == 1


def test_every_status_is_there_before_it_occurs(lookout):
    lookout.look()
    told = shown(lookout).get_sample_value
    assert all(told("nova_vp_escalations", {"status": s.value}) is not None for s in Status)
    settled = "nova_vp_escalations_settled_last_day"
    assert {s for s in Status if told(settled, {"status": s.value}) is not None} == FINAL


def test_the_number_of_series_does_not_grow_with_the_cloud(lookout):
    lookout.look()
    assert sum(len(metric.samples) for metric in shown(lookout).collect()) < 150


def test_what_is_stored_is_counted_with_its_lag():
    store, meters = MemoryStore(), Meters()
    metered = MeteredStore(store, meters)
    told = meters.registry.get_sample_value
    old = a_new_report("a")
    late = datetime.now(UTC) - timedelta(seconds=2)
    metered.save_reports(iter([old, type(old)("b", old.version, old.mode, late, "x")]))
    assert [len(batch) for batch in store.batches] == [2]
    assert told("nova_vp_scheduler_reports_stored_total") == 2
    assert told("nova_vp_scheduler_store_lag_seconds_bucket", {"le": "1.0"}) == 0
    store.fault = db_exception.DBConnectionError()
    with pytest.raises(db_exception.DBConnectionError):
        metered.save_reports([old])
    assert told("nova_vp_scheduler_store_failures_total") == 1
    assert told("nova_vp_scheduler_reports_stored_total") == 2


def test_a_report_is_as_old_as_its_host_says():
    meters = Meters()
    meters.heard(time.time() - 20.0)
    meters.heard(time.time() + 3600.0)  # A clock that is ahead makes nothing younger than now.
    told = meters.registry.get_sample_value
    assert told("nova_vp_scheduler_report_age_seconds_bucket", {"le": "0.05"}) == 1
    assert told("nova_vp_scheduler_report_age_seconds_bucket", {"le": "10.0"}) == 1
    assert told("nova_vp_scheduler_report_age_seconds_bucket", {"le": "30.0"}) == 2


def test_a_database_that_goes_is_seen_and_what_it_said_last_stays(lookout, books):
    lookout.look()
    books.fault = db_exception.DBConnectionError()
    lookout.look()
    told = shown(lookout).get_sample_value
    assert told("nova_vp_scheduler_database_up") == 0
    assert told("nova_vp_hosts", {"mode": "enforce", "heard": "yes"}) == 3
    books.fault = None
    lookout.look()
    assert shown(lookout).get_sample_value("nova_vp_scheduler_database_up") == 1


def test_a_database_that_hangs_is_not_well_while_it_does():
    now_s, is_asked, goes_on = [0.0], threading.Event(), threading.Event()

    class Hanging:
        def survey(self, now):
            is_asked.set()
            assert goes_on.wait(10)
            return SURVEY

    lookout = StatsPoller(Hanging(), clock=lambda: now_s[0])
    assert lookout.is_database_well()
    looking = threading.Thread(target=lookout.look)
    looking.start()
    assert is_asked.wait(10)
    assert lookout.is_database_well()
    now_s[0] = HANGS_AFTER_S
    assert not lookout.is_database_well()
    goes_on.set()
    looking.join()
    assert lookout.is_database_well()


def test_it_looks_again_and_again(books):
    lookout = StatsPoller(books, every_s=0.01)
    lookout.start()
    wait_until(lambda: books.looks > 2, "three looks")
    lookout.close()


ROWS = [
    ("well", {}, None, {}),
    (
        "no broker",
        {"is_broker_reachable": lambda: False},
        None,
        {"bus:connection": HealthStatus.WARN},
    ),
    (
        "deaf",
        {"listening": lambda: {"report": True, "escalation": False}},
        None,
        {"bus:connection": HealthStatus.WARN},
    ),
    ("full", {"waiting": lambda: 11}, None, {"reports:waiting": HealthStatus.WARN}),
    (
        "no database",
        {},
        db_exception.DBConnectionError(),
        {"database:connection": HealthStatus.FAIL},
    ),
]


@pytest.mark.parametrize(
    ("about", "fault", "bad"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_service_is_as_well_as_what_it_needs(lookout, books, about, fault, bad):
    books.fault = fault
    lookout.look()
    found = metrics.look(sources(**about), lookout)
    unwell = {c.name: c.status for c in found.checks if c.status is not HealthStatus.PASS}
    assert unwell == bad
