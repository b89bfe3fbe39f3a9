# SPDX-License-Identifier: Apache-2.0
"""What is learned of measured servers: one vote per project, of running servers alone; the same on
SQLite, MariaDB and PostgreSQL.
"""

from datetime import UTC, datetime
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp import wire
from nova_vp.core.types.sample import Sensitivity
from nova_vp.db import schema
from nova_vp.db.report_store import NewReport, ReportStore
from tests import stored_cloud
from tests.decisions import a_decision, a_guest, a_view, facts
from tests.plans import asked, count_rows, whole_reads
from vp_agent.publish.report import report
from vp_scheduler.ingest.profile_publisher import learn

NOW = datetime(2026, 11, 21, 23, 58, 30, tzinfo=UTC)
ONE = "one-project"
QUIET, STREAM = 0, 8
IMAGE = "77777777-0000-4000-8000-{:012d}"


class Hosts:
    """Hosts report what runs there; servers are numbered."""

    def __init__(self, store: ReportStore) -> None:
        self._store = store
        self._servers = 0
        self._reports = 0

    def server(self, project_id: str, vp_class: int, image: str = IMAGE.format(0)) -> Any:
        self._servers += 1
        guest = a_guest(self._servers, project_id=project_id, image=image)
        return a_view(self._servers, vp_class, guest=guest, sensitivity=Sensitivity())

    def run(self, host: str, *servers: Any) -> None:
        """From now on these, and no others."""
        self._reports += 1
        order = wire.MessageVersion(1, self._reports)
        text = wire.encode(wire.REPORT_TOPIC, report(a_decision(vps=servers), facts(host), order))
        self._store.save_reports([NewReport(host, order, "observe", NOW, text)])

    def run_honest(self, projects: int, vp_class: int = QUIET) -> None:
        """A server of each project."""
        for number in range(projects):
            self.run(f"honest-{number}", self.server(f"project-{number}", vp_class))


@pytest.fixture
def hosts(store: ReportStore) -> Hosts:
    return Hosts(store)


def learned_classes(store: ReportStore) -> set[int]:
    return {vp_class for _, _, vp_class in learn(store.count_classes(), 3)}


def test_servers_that_one_project_creates_again_and_again_do_not_outvote_others(
    hosts: Hosts, store: ReportStore
) -> None:
    hosts.run_honest(20)
    for _ in range(21):
        hosts.run("vp1", hosts.server(ONE, STREAM))
    assert learned_classes(store) == {QUIET}


def test_a_project_has_one_vote_however_many_servers_it_runs(
    hosts: Hosts, store: ReportStore
) -> None:
    hosts.run_honest(3)
    hosts.run("vp1", *(hosts.server(ONE, STREAM) for _ in range(100)))
    assert learned_classes(store) == {QUIET}


def test_servers_of_fewer_than_three_projects_teach_nothing(
    hosts: Hosts, store: ReportStore
) -> None:
    hosts.run_honest(2)
    hosts.run("vp1", *(hosts.server("project-0", QUIET) for _ in range(10)))
    assert learned_classes(store) == set()
    hosts.run_honest(3)
    assert learned_classes(store) == {QUIET}


def test_many_images_of_one_project_do_not_make_its_flavor(
    hosts: Hosts, store: ReportStore
) -> None:
    hosts.run_honest(3)
    hosts.run("vp1", *(hosts.server(ONE, STREAM, IMAGE.format(n)) for n in range(1, 22)))
    assert learn(store.count_classes(), 3) == [
        ("m1.small", None, QUIET),
        ("m1.small", IMAGE.format(0), QUIET),
    ]


def test_deleted_servers_do_not_vote(hosts: Hosts, store: ReportStore) -> None:
    hosts.run_honest(4, STREAM)
    assert learned_classes(store) == {STREAM}
    for number in range(4):
        hosts.run(f"honest-{number}")
    assert store.count_classes() == []


def test_a_server_that_two_hosts_claim_counts_once(hosts: Hosts, store: ReportStore) -> None:
    moving = hosts.server(ONE, QUIET)
    hosts.run("vp1", moving)
    hosts.run("vp2", moving)
    assert {(one.image, one.vps, one.projects) for one in store.count_classes()} == {
        (IMAGE.format(0), 1, 1),
        (None, 1, 1),
    }


@pytest.mark.parametrize(
    ("label", "classes", "vote"),
    [
        ("the middle one by cache pressure", [0, 0, 2, 2, 8], 8),
        ("most of them", [0, 0, 0, 2, 2], 0),
        ("of two middle ones the more pressing", [0, 2], 2),
        ("of middle ones that are alike, that", [0, 5, 5, 2], 5),
        ("one", [6], 6),
    ],
)
def test_a_project_votes_for_the_median_of_its_servers(
    hosts: Hosts, store: ReportStore, label: str, classes: list[int], vote: int
) -> None:
    hosts.run("vp1", *(hosts.server(ONE, vp_class) for vp_class in classes))
    counts = [one for one in store.count_classes() if one.image is not None]
    assert {one.vp_class: one.vps for one in counts} == {c: classes.count(c) for c in classes}
    assert {one.vp_class: one.projects for one in counts if one.projects} == {vote: 1}, label


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_counting_reads_an_index_and_what_it_returns_does_not_grow_with_servers(
    store: ReportStore, database_conf: cfg.ConfigOpts
) -> None:
    engine = schema.open_engine(database_conf)
    size = stored_cloud.Size(hosts=150, vps_per_host=10, minutes=1)
    stored_cloud.fill(engine, size, NOW)
    count_rows(engine)
    with asked() as told:
        counts = store.count_classes()
    assert len(told) == 2
    assert whole_reads(engine, told) == []
    flavors, classes = size.vps_per_host, 9
    assert len(counts) <= 2 * flavors * classes
    voters = sum(one.projects for one in counts if one.flavor == "m1.1" and one.image is None)
    assert 0 < voters <= size.projects
