# SPDX-License-Identifier: Apache-2.0
"""Hosts are told what is overridden of their servers until their reports say that they know it."""

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

from nova_vp.conf import database
from nova_vp.core.types.policy import Mode
from nova_vp.db import schema
from nova_vp.db.overrides import OverrideStore
from nova_vp.server_override import NO_OVERRIDE, ServerOverride, read_overrides
from tests.messages import a_report
from tests.sqlite_copy import DatabaseCopy
from tests.waiting import wait_until
from vp_scheduler.ingest.override_sync import OverrideSync

WEB = "11111111-1111-4111-8111-111111111111"
DB = "22222222-2222-4222-8222-222222222222"
OUT = ServerOverride(opt_out=True)


class Hosts:
    """Agents that obey whatever they are told, as far as it is not older than what they have."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[int, dict[str, ServerOverride]]] = {}
        self.count = 0
        self.is_away = False
        self._lock = threading.Lock()

    def tell_overrides(self, host: str, text: str) -> None:
        if self.is_away:
            raise oslo_messaging.MessageDeliveryFailure("the broker is away")
        version, servers = read_overrides(text)
        with self._lock:
            self.count += 1
            before, known = self.told.get(host, (0, {}))
            if version >= before:
                self.told[host] = (version, {**known, **servers})

    def report(self, host: str, *uuids: str) -> Mapping[str, Any]:
        version, servers = self.told.get(host, (0, {}))
        vps = [
            {"uuid": uuid, **({"override": servers[uuid].as_message()} if uuid in servers else {})}
            for uuid in uuids
        ]
        return {**a_report(host), "vps": vps, "overrides_version": version}


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf([], default_config_files=[])
    (tmp_path / "database").mkdir()
    file = tmp_path / "database/store.sqlite"
    conf.set_override("connection", f"sqlite:///{file}", group="database")
    schema.upgrade(schema.open_engine(conf))
    return conf


@pytest.fixture
def book(conf: cfg.ConfigOpts) -> OverrideStore:
    return OverrideStore(conf)


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


@contextmanager
def telling(book: OverrideStore, hosts: Hosts) -> Iterator[OverrideSync]:
    teller = OverrideSync(book, hosts, every_s=0.05)
    teller.start()
    try:
        yield teller
    finally:
        teller.close(5.0)


@pytest.fixture
def teller(book: OverrideStore, hosts: Hosts) -> Iterator[OverrideSync]:
    with telling(book, hosts) as teller:
        yield teller


def order(book: OverrideStore, uuid: str, ordered: ServerOverride) -> int:
    asked = ordered._asdict()
    return book.put(uuid, "p", by="u", now=datetime.now(UTC), **asked).version


def obeys(teller: OverrideSync, hosts: Hosts, host: str, **ordered: ServerOverride) -> None:
    """It reports, as often as it takes, until it knows this of these servers."""

    def knows() -> bool:
        teller.heard(hosts.report(host, *ordered))
        return hosts.told.get(host, (0, {}))[1] == ordered

    wait_until(knows, f"{host} to obey {ordered}")


def test_a_host_is_told_what_stands_ordered(book, hosts, teller) -> None:
    order(book, WEB, ServerOverride(Mode.ADVISE, True, 3))
    obeys(teller, hosts, "vp1", **{WEB: ServerOverride(Mode.ADVISE, True, 3), DB: NO_OVERRIDE})
    assert hosts.told["vp1"][0] == book.version()


def test_a_host_that_knows_it_all_is_left_in_peace(book, hosts, teller) -> None:
    order(book, WEB, OUT)
    obeys(teller, hosts, "vp1", **{WEB: OUT})
    teller.heard(hosts.report("vp1", WEB))
    count = hosts.count
    obeys(teller, hosts, "vp2", **{WEB: OUT})
    for _ in range(5):
        teller.heard(hosts.report("vp1", WEB))
    obeys(teller, hosts, "vp3", **{WEB: OUT})
    assert hosts.count == count + 2


def test_an_empty_host_is_told_once_so_that_it_waits_for_the_orders_of_arrivals(
    book, hosts, teller
) -> None:
    order(book, WEB, OUT)

    def is_told() -> bool:
        teller.heard(hosts.report("vp2"))
        return hosts.told.get("vp2") == (book.version(), {})

    wait_until(is_told, "vp2 to be told")
    count = hosts.count
    for _ in range(5):
        teller.heard(hosts.report("vp2"))
    obeys(teller, hosts, "vp3", **{WEB: OUT})
    assert hosts.count == count + 1


def test_what_changes_and_what_is_taken_back_reaches_the_host(book, hosts, teller) -> None:
    order(book, WEB, OUT)
    obeys(teller, hosts, "vp1", **{WEB: OUT})
    order(book, WEB, ServerOverride(priority=0))
    obeys(teller, hosts, "vp1", **{WEB: ServerOverride(priority=0)})
    book.clear(WEB, by="u", now=datetime.now(UTC))
    obeys(teller, hosts, "vp1", **{WEB: NO_OVERRIDE})


def test_an_order_follows_its_server_to_another_host(book, hosts, teller) -> None:
    order(book, WEB, OUT)
    obeys(teller, hosts, "vp1", **{WEB: OUT})
    obeys(teller, hosts, "vp2", **{DB: NO_OVERRIDE})
    obeys(teller, hosts, "vp2", **{DB: NO_OVERRIDE, WEB: OUT})


def test_an_agent_that_lost_its_state_is_told_again(book, hosts, teller) -> None:
    order(book, WEB, OUT)
    obeys(teller, hosts, "vp1", **{WEB: OUT})
    hosts.told.clear()
    obeys(teller, hosts, "vp1", **{WEB: OUT})


def test_another_vp_scheduler_that_starts_later_knows_it_all(book, hosts, teller) -> None:
    order(book, WEB, OUT)
    obeys(teller, hosts, "vp1", **{WEB: OUT})
    with telling(book, hosts) as other:
        obeys(other, hosts, "vp1", **{WEB: OUT})
        order(book, WEB, ServerOverride(Mode.OBSERVE))
        obeys(other, hosts, "vp1", **{WEB: ServerOverride(Mode.OBSERVE)})
        obeys(teller, hosts, "vp1", **{WEB: ServerOverride(Mode.OBSERVE)})


def test_an_agent_of_an_earlier_release_is_told_nothing(book, hosts, teller) -> None:
    order(book, WEB, OUT)
    old = dict(hosts.report("vp-old", WEB))
    del old["overrides_version"]
    teller.heard(old)
    obeys(teller, hosts, "vp1", **{WEB: OUT})
    assert hosts.told.keys() == {"vp1"}


def test_an_agent_that_went_back_to_an_earlier_release_is_told_nothing_more(
    book, hosts, teller, caplog
) -> None:
    order(book, WEB, OUT)
    hosts.is_away = True
    report = dict(hosts.report("vp-old", WEB))
    with caplog.at_level(logging.WARNING):
        teller.heard(report)
        wait_until(lambda: "trying again" in caplog.text, "the failure to be told")
    del report["overrides_version"]
    teller.heard(report)
    hosts.is_away = False
    obeys(teller, hosts, "vp1", **{WEB: OUT})
    assert hosts.told.keys() == {"vp1"}


def test_a_broker_that_was_away_costs_no_order(book, hosts, teller, caplog) -> None:
    order(book, WEB, OUT)
    hosts.is_away = True
    with caplog.at_level(logging.WARNING):
        teller.heard(hosts.report("vp1", WEB))
        wait_until(lambda: "trying again" in caplog.text, "the failure to be told")
    hosts.is_away = False
    wait_until(lambda: "vp1" in hosts.told, "the host to be told, without another report")
    assert hosts.told["vp1"][1] == {WEB: OUT}


def test_a_database_that_is_away_costs_no_order(conf, tmp_path, book, hosts, caplog) -> None:
    order(book, WEB, OUT)
    folder = tmp_path / "database"
    away = folder.rename(tmp_path / "away")
    with telling(OverrideStore(conf), hosts) as teller, caplog.at_level(logging.WARNING):
        teller.heard(hosts.report("vp1", WEB))
        wait_until(lambda: "trying again" in caplog.text, "the failure to be told")
        away.rename(folder)
        wait_until(lambda: "vp1" in hosts.told, "the host to be told")
    assert hosts.told["vp1"][1] == {WEB: OUT}


def test_after_a_restore_of_the_database_hosts_obey_it_again(book, hosts, teller, caplog) -> None:
    """The host obeys overrides of a day that the database does not know any more."""
    stands = order(book, WEB, OUT)
    hosts.told["vp1"] = (stands + 60_000, {WEB: ServerOverride(priority=9)})
    with caplog.at_level(logging.WARNING):
        obeys(teller, hosts, "vp1", **{WEB: OUT})
    assert hosts.told["vp1"][0] > stands + 60_000
    assert "was it restored?" in caplog.text


def test_after_a_restore_orders_that_the_database_has_lost_are_no_longer_told(
    conf, tmp_path, book, hosts, teller
) -> None:
    order(book, DB, OUT)
    backup = DatabaseCopy(conf, tmp_path)
    order(book, WEB, OUT)
    obeys(teller, hosts, "vp1", **{WEB: OUT, DB: OUT})
    backup.restore()
    obeys(teller, hosts, "vp1", **{WEB: NO_OVERRIDE, DB: OUT})


@pytest.mark.parametrize("absurd", [2**53, 2**52])
def test_a_version_that_nobody_gave_hides_no_host_that_has_to_be_outbid(
    book, hosts, teller, caplog, absurd
) -> None:
    stands = order(book, WEB, OUT)
    hosts.told["vp1"] = (stands + 60_000, {WEB: ServerOverride(priority=9)})
    hosts.told["vp2"] = (absurd, {DB: OUT})

    def is_told() -> bool:
        teller.heard(hosts.report("vp2", DB))
        teller.heard(hosts.report("vp1", WEB))
        return hosts.told["vp1"][1] == {WEB: OUT}

    with caplog.at_level(logging.WARNING):
        wait_until(is_told, "vp1 to obey again")
    assert book.version() < absurd
    told = [one for one in caplog.messages if "further ahead than any" in one]
    assert len(told) == 1
    assert f"vp2 obeys overrides of version {absurd}" in told[0]


def test_it_ends_while_nothing_happens(book, hosts) -> None:
    with telling(book, hosts) as teller:
        pass
    assert not teller._thread.is_alive()
