# SPDX-License-Identifier: Apache-2.0
"""Hosts are told the overlays of their servers until their reports say that they have them."""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_vp import wire
from nova_vp.conf import database
from nova_vp.core.types.overlay import ArbitrationClass, Overlay
from nova_vp.db import schema
from nova_vp.db.overlays import Limits, OverlayStore
from nova_vp.overlay_message import checksum, read_overlays
from nova_vp.registered_overlay import group_overlay
from tests.messages import a_report
from tests.waiting import wait_until
from vp_scheduler.ingest.overlay_sync import OverlaySync

WEB, DB, CACHE = (f"{n}1111111-1111-4111-8111-111111111111" for n in "123")
SHOP, BLOG = (f"{n}aaaaaaa-2222-4333-8444-555555555555" for n in "12")
FIELDS: Mapping[str, Any] = {
    "priority": 2,
    "arbitration": ArbitrationClass.PRIORITY,
    "target": None,
    "target_unit": "",
}


class Hosts:
    """Agents that take whatever they are told, as far as it is not older than what they have."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[int, tuple[Overlay, ...]]] = {}
        self.count = 0
        self.is_away = False
        self._lock = threading.Lock()

    def tell_overlays(self, host: str, text: str) -> None:
        if self.is_away:
            raise oslo_messaging.MessageDeliveryFailure("the broker is away")
        version, overlays = read_overlays(text)
        with self._lock:
            self.count += 1
            if version >= self.told.get(host, (0,))[0]:
                self.told[host] = (version, overlays)

    def report(self, host: str, *servers: tuple[str, str, str]) -> Mapping[str, Any]:
        version, overlays = self.told.get(host, (0, ()))
        vps = [{"uuid": uuid, "project_id": of, "group": group} for uuid, of, group in servers]
        told = {"version": version, "checksum": checksum(overlays)}
        return {**a_report(host), "vps": vps, "overlays_told": told}


@pytest.fixture
def store(tmp_path: Path) -> OverlayStore:
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf([], default_config_files=[])
    conf.set_override("connection", f"sqlite:///{tmp_path}/store.sqlite", group="database")
    schema.upgrade(schema.open_engine(conf))
    return OverlayStore(conf)


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


@contextmanager
def telling(store: OverlayStore, hosts: Hosts) -> Iterator[OverlaySync]:
    sync = OverlaySync(store, hosts, every_s=0.05)
    sync.start()
    try:
        yield sync
    finally:
        sync.close(5.0)


@pytest.fixture
def sync(store: OverlayStore, hosts: Hosts) -> Iterator[OverlaySync]:
    with telling(store, hosts) as sync:
        yield sync


def write() -> dict[str, Any]:
    return {"by": "u", "now": datetime.now(UTC)}


def create(store: OverlayStore, id: str, name: str, *servers: str) -> None:
    limits = Limits(overlays=99, servers=99)
    store.create(id, "p1", name, servers, limits=limits, **FIELDS, **write())


def knows(
    sync: OverlaySync,
    hosts: Hosts,
    host: str,
    servers: list[tuple[str, str, str]],
    expected: Mapping[str, set[str]],
) -> None:
    """It reports, as often as it takes, until it has these members by name of overlay."""

    def is_told() -> bool:
        sync.heard(hosts.report(host, *servers))
        told = hosts.told.get(host, (0, ()))[1]
        return {one.name: set(one.members) for one in told} == expected

    wait_until(is_told, f"{host} to know {expected}")


def test_a_host_is_told_the_overlays_of_its_servers(store, hosts, sync) -> None:
    create(store, SHOP, "shop", WEB, DB)
    here = [(WEB, "p1", ""), (CACHE, "p1", "tiers")]
    knows(sync, hosts, "vp1", here, {"shop": {WEB}, "tiers": {CACHE}})
    version, overlays = hosts.told["vp1"]
    assert version == store.changed_since(0).version
    assert group_overlay("p1", "tiers", [CACHE]) in overlays
    assert next(one.priority for one in overlays if one.id == SHOP) == 2.0


def test_a_host_that_has_them_is_left_in_peace(store, hosts, sync) -> None:
    create(store, SHOP, "shop", WEB)
    here = [(WEB, "p1", "")]
    knows(sync, hosts, "vp1", here, {"shop": {WEB}})
    knows(sync, hosts, "vp1", here, {"shop": {WEB}})
    count = hosts.count
    for _ in range(5):
        sync.heard(hosts.report("vp1", *here))
        sync.heard(hosts.report("vp3", (CACHE, "p1", "")))
    knows(sync, hosts, "vp2", here, {"shop": {WEB}})
    assert hosts.count == count + 1
    assert "vp3" not in hosts.told


def test_changes_and_moves_reach_the_host(store, hosts, sync) -> None:
    create(store, SHOP, "shop", WEB, DB)
    here = [(WEB, "p1", "tiers"), (DB, "p1", "")]
    knows(sync, hosts, "vp1", here, {"shop": {WEB, DB}})
    store.remove_servers(SHOP, [WEB], **write())
    create(store, BLOG, "blog", WEB)
    knows(sync, hosts, "vp1", here, {"shop": {DB}, "blog": {WEB}})
    store.delete(BLOG, **write())
    knows(sync, hosts, "vp1", here, {"shop": {DB}, "tiers": {WEB}})
    knows(sync, hosts, "vp2", here[:1], {"tiers": {WEB}})
    knows(sync, hosts, "vp1", here[1:], {"shop": {DB}})


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_a_server_that_goes_from_one_overlay_into_another_is_not_lost(
    store, hosts, sync, first, second
) -> None:
    """Whichever of the two is read first."""
    ids = {"a": SHOP, "b": BLOG}
    create(store, ids[first], first, WEB)
    create(store, ids[second], second)
    knows(sync, hosts, "vp1", [(WEB, "p1", "")], {first: {WEB}})
    store.remove_servers(ids[first], [WEB], **write())
    store.add_servers(ids[second], [WEB], most=9, **write())
    knows(sync, hosts, "vp1", [(WEB, "p1", "")], {second: {WEB}})


def test_an_agent_that_lost_its_state_is_told_again(store, hosts, sync) -> None:
    create(store, SHOP, "shop", WEB)
    knows(sync, hosts, "vp1", [(WEB, "p1", "")], {"shop": {WEB}})
    hosts.told.clear()
    knows(sync, hosts, "vp1", [(WEB, "p1", "")], {"shop": {WEB}})


def test_a_host_that_lies_about_the_project_is_told_nothing(store, hosts, sync) -> None:
    create(store, SHOP, "shop", WEB)
    sync.heard(hosts.report("vp9", (WEB, "p9", "")))
    knows(sync, hosts, "vp1", [(WEB, "p1", "")], {"shop": {WEB}})
    assert "vp9" not in hosts.told


def test_an_agent_of_an_earlier_release_is_told_nothing(store, hosts, sync) -> None:
    create(store, SHOP, "shop", WEB)
    old = dict(hosts.report("vp-old", (WEB, "p1", "")))
    del old["overlays_told"]
    sync.heard(old)
    knows(sync, hosts, "vp1", [(WEB, "p1", "")], {"shop": {WEB}})
    assert hosts.told.keys() == {"vp1"}


def test_a_broker_that_was_away_costs_nothing(store, hosts, sync, caplog) -> None:
    create(store, SHOP, "shop", WEB)
    hosts.is_away = True
    with caplog.at_level(logging.WARNING):
        sync.heard(hosts.report("vp1", (WEB, "p1", "")))
        wait_until(lambda: "hosts were not told of overlays" in caplog.text, "the failure")
    hosts.is_away = False
    wait_until(lambda: "vp1" in hosts.told, "the host to be told, without another report")


def test_one_host_that_cannot_be_told_keeps_no_other_waiting(store, hosts, sync, caplog) -> None:
    """An agent may report what it likes."""
    names = (f"{number:064d}" for number in range(wire.MAX_SERVERS))
    many = [(f"{number:036d}", "p" * 64, name) for number, name in enumerate(names)]
    with caplog.at_level(logging.ERROR):
        sync.heard(hosts.report("vp9", *many))
        knows(sync, hosts, "vp1", [(WEB, "p1", "tiers")], {"tiers": {WEB}})
        wait_until(lambda: "host=vp9 cannot be told of overlays" in caplog.text, "the error")
    assert "vp9" not in hosts.told


def test_after_a_restore_of_the_database_hosts_take_overlays_again(store, hosts, sync) -> None:
    create(store, SHOP, "shop", WEB)
    version = store.changed_since(0).version
    hosts.told["vp1"] = (version + 60_000, (group_overlay("p1", "lost", [WEB]),))
    knows(sync, hosts, "vp1", [(WEB, "p1", "")], {"shop": {WEB}})
    assert hosts.told["vp1"][0] > version + 60_000
