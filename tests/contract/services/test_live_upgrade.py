# SPDX-License-Identifier: Apache-2.0
"""`vp-manage db sync` of a later release, while vp-api answers and vp-scheduler's writer stores.

The later release is a revision that adds to every table what a revision may add. With the processes
of two releases: `tests/upgrade`.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
import sqlalchemy as sa
from oslo_config import cfg

from nova_vp import wire
from nova_vp.conf import database
from nova_vp.db import schema
from nova_vp.db.models import Base
from nova_vp.db.modes import ModeStore
from nova_vp.db.report_store import NewReport, ReportStore
from tests.loopback import served
from tests.messages import report_text
from tests.unit.api.client import Persona, as_persona, configuration
from tests.waiting import wait_until
from vp_api import deploy
from vp_api.services import Stored
from vp_api.testing import MemoryAgents
from vp_scheduler.ingest.report_queue import ReportQueue
from vp_scheduler.ingest.service import Writer

HOSTS = [f"vp{number}" for number in range(8)]
MORE = 10
"""Writes of each kind that are seen before something else is done."""
V1_3 = {"OpenStack-API-Version": "performance-isolation 1.3"}
LATER = """
import sqlalchemy as sa
from alembic import op
from nova_vp.db.migrations.columns import add_missing_columns, add_missing_index

revision, down_revision = "later", "{newest}"


def upgrade():
    for table in {tables}:
        add_missing_columns(
            table,
            sa.Column("later_text", sa.Text),
            sa.Column("later_name", sa.String(16), nullable=False, server_default="none"),
        )
        add_missing_index("ix_later_" + table, table, "later_name")
    op.execute("DROP TABLE IF EXISTS of_later_release")
    op.create_table("of_later_release", sa.Column("id", sa.String(36), primary_key=True))
"""


@pytest.fixture(params=["mariadb", "postgresql"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """Those that several machines share."""
    return str(request.param)


@pytest.fixture
def conf(database_url: str) -> cfg.ConfigOpts:
    """Of a database of this release."""
    conf = configuration()
    database.register_opts(conf)
    conf.set_override("connection", database_url, database.GROUP)
    schema.upgrade(schema.open_engine(conf))
    return conf


@pytest.fixture
def api(database_url: str) -> Iterator[str]:
    conf = configuration()
    database.register_opts(conf)
    conf.set_override("connection", database_url, database.GROUP)
    application = deploy.loadapp(
        conf, Stored.open(conf), MemoryAgents(), authenticate=as_persona(Persona("admin"))
    )
    with served(application, 8) as url:
        yield url


@pytest.fixture
def reports(conf: cfg.ConfigOpts) -> Iterator[ReportQueue]:
    """What comes in is stored."""
    queue = ReportQueue()
    writer = Writer(queue, ReportStore(conf), batch_size=50)
    writer.start()
    yield queue
    writer.close(60.0)
    assert queue.dropped == 0


@pytest.fixture
def later_release(conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its vp-manage is this one's, with one revision more; the database is there by then."""
    text = LATER.format(newest=schema.newest_revision(), tables=list(Base.metadata.tables))
    (tmp_path / "later.py").write_text(text)
    config_of = schema._config

    def config() -> schema.Config:
        config = config_of()
        config.set_main_option("path_separator", "space")
        config.set_main_option("version_locations", f"nova_vp.db:migrations/versions {tmp_path}")
        return config

    monkeypatch.setattr(schema, "_config", config)


class Writers:
    """Operators who set modes and list hosts, and hosts that report; each in a loop until `stop`.
    What fails cleanly is tried again."""

    def __init__(self, api: str, reports: ReportQueue) -> None:
        self._api, self._reports = api, reports
        self.statuses: Counter[int] = Counter()
        self.unclean: list[str] = []
        self.slowest_s = 0.0
        self.modes: dict[str, str] = {}
        """By aggregate, as acknowledged last."""
        self.reported: dict[str, int] = {}
        """The sequence number of each host's last report."""
        self.writes: Counter[str] = Counter()
        self._is_over = threading.Event()
        loops = (self._set_modes, self._list_hosts, self._report)
        self._threads = [threading.Thread(target=self._loop, args=(one,)) for one in loops]

    @contextmanager
    def busy(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join(60.0)

    def go_on(self) -> None:
        """Each has done some more."""
        before = self.writes.copy()
        wait_until(
            lambda: self.unclean or all(self.writes[k] >= before[k] + MORE for k in "mhr"),
            "all to go on",
            120.0,
        )
        assert not self.unclean

    def _loop(self, one: Callable[[int], str]) -> None:
        number = 0
        while not self._is_over.is_set():
            number += 1
            try:
                self.writes[one(number)] += 1
            except Exception as exc:
                self.unclean.append(repr(exc))
                raise

    def _ask(self, method: str, path: str, body: object = None) -> None:
        while True:
            began_s = time.monotonic()
            answer = requests.request(method, self._api + path, json=body, headers=V1_3, timeout=60)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            self.statuses[answer.status_code] += 1
            if answer.status_code == 200:
                return
            if answer.status_code != 503 or int(answer.headers["Retry-After"]) <= 0:
                self.unclean.append(f"{method} {path}: {answer.status_code} {answer.text}")
            if self._is_over.wait(0.1):
                return

    def _set_modes(self, number: int) -> str:
        name, mode = f"rack {number % 5}", ("observe", "advise", "enforce")[number % 3]
        self._ask("PUT", "/v1/modes/aggregates", {"aggregate": name, "mode": mode})
        self.modes[name] = mode
        return "m"

    def _list_hosts(self, number: int) -> str:
        self._ask("GET", ("/v1/hosts", "/v1/vps", "/v1/modes", "/v1/actions")[number % 4])
        return "h"

    def _report(self, number: int) -> str:
        host = HOSTS[number % len(HOSTS)]
        version, text = wire.MessageVersion(1, number), report_text(host, (1, number))
        self._reports.put(NewReport(host, version, "observe", datetime.now(UTC), text))
        self.reported[host] = number
        self._is_over.wait(0.02)
        return "r"


@pytest.mark.usefixtures("later_release")
def test_services_of_this_release_serve_while_a_later_one_changes_the_schema(
    api: str, conf: cfg.ConfigOpts, reports: ReportQueue, caplog: pytest.LogCaptureFixture
) -> None:
    store, writers = ReportStore(conf), Writers(api, reports)
    engine = sa.create_engine(conf.database.connection)
    sync = threading.Thread(target=schema.upgrade, args=(schema.open_engine(conf),))
    with writers.busy():
        writers.go_on()
        # As a backup does, which has all tables open for as long as it takes.
        with engine.connect() as backup:
            backup.execute(sa.text("SELECT count(*) FROM hosts"))
            sync.start()
            wait_until(lambda: "revision later waits" in caplog.text, "it to give way", 120.0)
            writers.go_on()
            assert schema.current_revision(engine) != "later"
        sync.join(60.0)
        assert schema.current_revision(engine) == "later"
        writers.go_on()
    print(f"{engine.dialect.name}: {dict(writers.statuses)}, slowest {writers.slowest_s:.2f} s")
    engine.dispose()
    assert set(writers.statuses) <= {200, 503}
    modes = {one.name: one.mode.value for one in ModeStore(conf).list_modes()}
    assert modes == writers.modes
    wait_until(lambda: stored(store) == writers.reported, "the last reports to be stored", 60.0)


def stored(store: ReportStore) -> dict[str, int]:
    hosts = ((host, store.get_host(host)) for host in HOSTS)
    return {host: one.sequence for host, one in hosts if one}
