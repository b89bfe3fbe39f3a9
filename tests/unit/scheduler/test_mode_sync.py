# SPDX-License-Identifier: Apache-2.0
"""Hosts are told the modes of the cloud and of aggregates, and told at once when these change."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import oslo_messaging
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from nova_vp.cloud_modes import NO_MODES, CloudModes, read_modes
from nova_vp.conf import database
from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.policy import Mode
from nova_vp.db import schema
from nova_vp.db.gate import NEVER_WRITTEN
from nova_vp.db.modes import ModeStore
from tests.messages import a_report
from tests.sqlite_copy import DatabaseCopy
from tests.waiting import wait_until
from vp_scheduler.ingest.mode_sync import FORGET_S, ModeSync

ENFORCING = CloudModes(Mode.ENFORCE)
OBSERVING = CloudModes(Mode.OBSERVE)


class Hosts:
    """Agents that obey whatever they are told, as far as it is not older than what they have."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[int, CloudModes]] = {}
        self.count = 0
        self.is_away = False
        self.now_s = 0.0
        self._lock = threading.Lock()

    def tell_modes(self, host: str, text: str) -> None:
        if self.is_away:
            raise oslo_messaging.MessageDeliveryFailure("the broker is away")
        version, modes = read_modes(text)
        with self._lock:
            self.count += 1
            if version >= self.told.get(host, (0, NO_MODES))[0]:
                self.told[host] = (version, modes)

    def report(self, host: str) -> dict:
        version, modes = self.told.get(host, (0, NO_MODES))
        return {**a_report(host), "modes": {"version": version, "checksum": modes.checksum}}


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf([], default_config_files=[])
    conf.set_override("connection", f"sqlite:///{tmp_path}/store.sqlite", group="database")
    schema.upgrade(schema.open_engine(conf))
    return conf


@pytest.fixture
def store(conf: cfg.ConfigOpts) -> ModeStore:
    return ModeStore(conf)


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


@contextmanager
def telling(store: ModeStore, hosts: Hosts) -> Iterator[ModeSync]:
    sync = ModeSync(store, hosts, every_s=0.05, clock=lambda: hosts.now_s)
    sync.start()
    try:
        yield sync
    finally:
        sync.close(5.0)


@pytest.fixture
def sync(store: ModeStore, hosts: Hosts) -> Iterator[ModeSync]:
    with telling(store, hosts) as sync:
        yield sync


def put(store: ModeStore, mode: Mode | None) -> None:
    store.put(ModeLevel.CLOUD, "", mode, by="u", at=datetime.now(UTC))


def obeys(sync: ModeSync, hosts: Hosts, host: str, modes: CloudModes) -> None:
    """It reports, as often as it takes, until it was told these."""

    def knows() -> bool:
        sync.heard(hosts.report(host))
        return hosts.told.get(host, (0, NO_MODES))[1] == modes

    wait_until(knows, f"{host} to obey {modes}")


def test_a_change_is_told_to_all_that_were_heard_without_another_report(store, hosts, sync) -> None:
    put(store, Mode.ENFORCE)
    for host in ("vp1", "vp2"):
        obeys(sync, hosts, host, ENFORCING)
    for mode, modes in ((Mode.OBSERVE, OBSERVING), (None, NO_MODES), (Mode.ENFORCE, ENFORCING)):
        put(store, mode)
        wait_until(lambda m=modes: [t[1] for t in hosts.told.values()] == [m, m], f"{modes}")


def test_who_was_told_is_left_in_peace(store, hosts, sync) -> None:
    put(store, Mode.ENFORCE)
    obeys(sync, hosts, "vp1", ENFORCING)
    for host in ("vp2", "vp3"):
        sync.heard(hosts.report("vp1"))
        obeys(sync, hosts, host, ENFORCING)
    assert hosts.count == 3


def test_a_host_that_was_silent_for_long_is_told_nothing_more(store, hosts, sync) -> None:
    obeys(sync, hosts, "vp1", NO_MODES)
    sync.heard(hosts.report("vp2"))
    hosts.now_s += FORGET_S + 1
    wait_until(lambda: not sync._held, "both to be forgotten")
    sync.heard(hosts.report("vp2"))
    put(store, Mode.ENFORCE)
    wait_until(lambda: "vp2" in hosts.told, "the other to be told")
    assert hosts.told.keys() == {"vp2"}
    obeys(sync, hosts, "vp1", ENFORCING)


def test_an_agent_of_an_earlier_release_is_told_nothing(store, hosts, sync) -> None:
    sync.heard(a_report("vp-old"))
    put(store, Mode.ENFORCE)
    obeys(sync, hosts, "vp1", ENFORCING)
    assert hosts.told.keys() == {"vp1"}


def test_a_broker_that_was_away_costs_no_change(store, hosts, sync, caplog) -> None:
    put(store, Mode.OBSERVE)
    hosts.is_away = True
    with caplog.at_level(logging.WARNING):
        sync.heard(hosts.report("vp1"))
        wait_until(lambda: "not told of modes, trying again" in caplog.text, "the failure")
    hosts.is_away = False
    wait_until(lambda: "vp1" in hosts.told, "the host to be told, without another report")
    assert hosts.told["vp1"][1] == OBSERVING


def test_after_a_restore_of_the_database_hosts_obey_it_again(
    conf, tmp_path, store, hosts, sync
) -> None:
    put(store, Mode.OBSERVE)
    backup = DatabaseCopy(conf, tmp_path)
    put(store, Mode.ENFORCE)
    obeys(sync, hosts, "vp1", ENFORCING)
    backup.restore()
    obeys(sync, hosts, "vp1", OBSERVING)


def test_a_version_that_nobody_gave_hides_no_host_that_has_to_be_outbid(
    store, hosts, sync, caplog
) -> None:
    put(store, Mode.OBSERVE)
    stands, _ = store.changed_since(NEVER_WRITTEN)
    hosts.told |= {"vp1": (stands + 60_000, ENFORCING), "vp2": (2**53, ENFORCING)}

    def is_told() -> bool:
        for host in hosts.told:
            sync.heard(hosts.report(host))
        return hosts.told["vp1"][1] == OBSERVING

    with caplog.at_level(logging.WARNING):
        wait_until(is_told, "vp1 to obey again")
    assert store.changed_since(NEVER_WRITTEN).version < 2**53
    assert caplog.text.count("vp2 obeys modes of version") == 1


def test_a_mode_that_a_later_release_wrote_is_told_as_the_tightest(conf, store, hosts, sync):
    put(store, Mode.ENFORCE)
    with schema.open_engine(conf).begin() as connection:
        connection.execute(sa.text("UPDATE modes SET mode = 'of-a-later-release'"))
    obeys(sync, hosts, "vp1", OBSERVING)
    assert [one.mode for one in store.list_modes()] == [Mode.OBSERVE]


def test_it_ends_while_nothing_happens(store, hosts) -> None:
    with telling(store, hosts) as sync:
        pass
    assert not sync._thread.is_alive()
