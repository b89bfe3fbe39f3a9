# SPDX-License-Identifier: Apache-2.0
"""What people have said of a server goes once Nova says that the server is gone: it leaves its
overlay, and its override is taken back."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp.conf import database
from nova_vp.core.types.overlay import ArbitrationClass
from nova_vp.db import schema
from nova_vp.db.overlays import Limits, OverlayStore
from nova_vp.db.overrides import OverrideStore
from nova_vp.db.purge import Before, Step, purge
from nova_vp.db.report_store import NewReport, ReportStore
from nova_vp.wire import MessageVersion
from tests.messages import report_text
from tests.unit.api import cloud
from tests.waiting import wait_until
from vp_scheduler.escalation.nova_client import (
    NotAllowed,
    NovaAway,
    NovaConflict,
    NovaRefused,
    Server,
    ServerGone,
)
from vp_scheduler.ingest import deleted_servers
from vp_scheduler.ingest.deleted_servers import DeletedServers, Kept, in_overlays, in_overrides

SERVERS = WEB, DB, CACHE = [f"{n}1111111-1111-4111-8111-111111111111" for n in "123"]
SHOP = "1aaaaaaa-2222-4333-8444-555555555555"
PROJECT = "p1"


class Nova:
    """Knows all servers of that project but those that are gone."""

    def __init__(self, *gone: str, fault: Exception | None = None) -> None:
        self.gone = gone
        self.fault = fault
        self.asked: list[str] = []

    def look(self, project_id: str, server: str) -> Server:
        self.asked.append(server)
        if self.fault:
            raise self.fault
        if server in self.gone or project_id != PROJECT:
            raise ServerGone(server)
        return Server("SHUTOFF", None, False, "vp1", False)


class Overlays:
    what = f"overlay={SHOP} "

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._store = OverlayStore(conf)
        self.kept = in_overlays(self._store)

    def say(self, servers: Iterable[str]) -> None:
        self._store.create(
            SHOP,
            PROJECT,
            "shop",
            list(servers),
            limits=Limits(overlays=9, servers=9),
            priority=2,
            arbitration=ArbitrationClass.PRIORITY,
            target=None,
            target_unit="",
            by="u",
            now=datetime.now(UTC),
        )

    def of(self) -> set[str]:
        found = self._store.get(SHOP)
        assert found is not None
        return set(found.servers)


class Overrides:
    what = ""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.store = OverrideStore(conf)
        self.kept = in_overrides(self.store)

    def say(self, servers: Iterable[str]) -> None:
        for server in servers:
            self.put(server)

    def put(self, server: str, *, exempt: bool = False) -> None:
        self.store.put(
            server,
            PROJECT,
            mode=None,
            opt_out=True,
            priority=None,
            exempt=exempt,
            by="u",
            now=datetime.now(UTC),
        )

    def of(self) -> set[str]:
        return set(self.store.list_of(SERVERS))


Said = Overlays | Overrides


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf([], default_config_files=[])
    conf.set_override("connection", f"sqlite:///{tmp_path}/store.sqlite", group="database")
    schema.upgrade(schema.open_engine(conf))
    return conf


@pytest.fixture(params=[Overlays, Overrides])
def said(request: pytest.FixtureRequest, conf: cfg.ConfigOpts) -> Said:
    made: Said = request.param(conf)
    return made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_servers, "PER_S", 1e6)


def later() -> datetime:
    return datetime.now(UTC) + 2 * deleted_servers.YOUNG


def watching(nova: Nova, *kept: Kept) -> DeletedServers:
    return DeletedServers(kept, nova, 60.0, later)


def test_nothing_is_kept_of_a_server_that_nova_has_no_more(
    said: Said, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is stopped keeps it, and one of whom it was said just now is not even asked for."""
    said.say([WEB, DB])
    nova = Nova(WEB)
    DeletedServers([said.kept], nova, 60.0).look()
    assert nova.asked == []
    with caplog.at_level(logging.INFO):
        watching(nova, said.kept).look()
    assert said.of() == {DB}
    assert f"{said.what}server={WEB} " in caplog.text


def test_nova_is_not_asked_for_servers_that_hosts_report(said: Said, conf: cfg.ConfigOpts) -> None:
    said.say([WEB])
    report = report_text("vp1", vps=[cloud.a_vp(uuid=WEB)])
    ReportStore(conf).save_reports(
        [NewReport("vp1", MessageVersion(1, 1), "observe", datetime.now(UTC), report)]
    )
    nova = Nova(WEB)
    watching(nova, said.kept).look()
    assert nova.asked == []


@pytest.mark.parametrize(
    "fault",
    [
        NovaAway("no answer"),
        NotAllowed("no role in p1"),
        NovaRefused("Nova answers 400"),
        NovaConflict("Nova answers 409"),
        ValueError("a proxy's page is no JSON"),
    ],
    ids=repr,
)
def test_where_nova_does_not_say_all_is_kept(
    said: Said, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    said.say([WEB])
    deleted = watching(Nova(WEB, fault=fault), said.kept)
    for _ in range(3):
        deleted.look()
    assert said.of() == {WEB}
    assert caplog.text.count("trying again") == 1


def test_all_have_their_turn(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_servers, "MOST_ASKED", 2)
    said.say(SERVERS)
    nova = Nova()
    deleted = watching(nova, said.kept)
    for _ in range(3):
        deleted.look()
    assert nova.asked == [WEB, DB, CACHE, WEB, DB]


def test_both_kinds_are_looked_at(conf: cfg.ConfigOpts) -> None:
    overlays, overrides = Overlays(conf), Overrides(conf)
    overlays.say([WEB])
    overrides.say([DB])
    watching(Nova(WEB, DB), overlays.kept, overrides.kept).look()
    assert (overlays.of(), overrides.of()) == (set(), set())


def test_an_override_that_is_set_meanwhile_stands(conf: cfg.ConfigOpts) -> None:
    overrides = Overrides(conf)
    overrides.say([WEB])
    [seen] = overrides.kept.unseen(later(), "", 9)
    overrides.put(WEB, exempt=True)
    overrides.kept.remove(seen, later())
    stands = overrides.store.get(WEB)
    assert stands is not None
    assert stands.exempt


def test_an_override_of_a_server_that_is_gone_is_purged_in_the_end(conf: cfg.ConfigOpts) -> None:
    overrides = Overrides(conf)
    overrides.say([WEB, DB])
    watching(Nova(WEB), overrides.kept).look()
    now = later() + timedelta(days=1)
    steps = list(purge(schema.open_engine(conf), Before(now, now, now), now))
    assert Step("vp_overrides", 1) in steps


def test_it_looks_by_itself_and_ends(said: Said) -> None:
    said.say([WEB])
    deleted = DeletedServers([said.kept], Nova(WEB), 0.01, lambda: later() + timedelta(seconds=1))
    deleted.start()
    wait_until(lambda: not said.of(), "the server to be forgotten")
    deleted.close(5.0)
    assert not deleted._thread.is_alive()
