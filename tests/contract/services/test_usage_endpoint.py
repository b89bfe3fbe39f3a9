# SPDX-License-Identifier: Apache-2.0
"""Whose usage is billed: what a host says of its own servers, which Nova says are its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_db import exception as db_exception

from nova_vp import conf as options
from nova_vp import wire
from nova_vp.db.filters import UsageFilter
from nova_vp.db.paging import Page
from nova_vp.db.usage import UsageStore
from nova_vp.signing.senders import Process
from tests.escalations import World
from tests.identities import call_of
from tests.messages import AGGRESSOR, HOUR, VICTIM, a_usage_record, usage_text
from vp_scheduler.escalation import session
from vp_scheduler.escalation.nova_client import NO_CLOUD, NoCloud, NovaClient
from vp_scheduler.ingest.usage import AWAY_S, NO_TIME, NOT_ASKED, UsageEndpoint

NOON = datetime.fromtimestamp(HOUR, UTC)
A_MINUTE_PAST = NOON + timedelta(minutes=1)
H = wire.HOUR_S


class Scene:
    def __init__(self, conf: cfg.ConfigOpts, world: World) -> None:
        self.world = world
        self.now, self.now_s = A_MINUTE_PAST, 1000.0
        self.store = UsageStore(conf)
        nova = NovaClient(session.open_cloud(conf))
        self.endpoint = UsageEndpoint(self.store, nova, (), lambda: self.now, lambda: self.now_s)

    def send(self, *records: dict[str, Any], host: str = "vp1", sender: str = "vp1") -> Any:
        return self.endpoint.usage(call_of(Process.AGENT, sender), usage_text(host, *records))

    def pass_s(self, span_s: float) -> None:
        self.now += timedelta(seconds=span_s)
        self.now_s += span_s

    def booked(self) -> dict[str, float]:
        found = self.store.list_usage(UsageFilter(), Page("server_id")).items
        return {one.uuid: one.total.booked_s for one in found}


@contextmanager
def refused(kind: type[Exception] = wire.BadMessage) -> Iterator[list[Exception]]:
    """What its caller is told."""
    why: list[Exception] = []
    with pytest.raises(oslo_messaging.ExpectedException) as refusal:
        yield why
    why.append(refusal.value.exc_info[1])
    assert isinstance(why[0], kind)


@pytest.fixture
def scene(database_conf: cfg.ConfigOpts, tmp_path: Path, world: World) -> Scene:
    file = tmp_path / "nova-vp.conf"
    file.write_text(f"{file.read_text()}{world.configuration()}")
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf(["--config-file", str(file)])
    return Scene(conf, world)


def asked(scene: Scene) -> list[int]:
    """Grows with every question to Nova."""
    count: list[int] = []
    scene.world.nova.on_request = lambda: count.append(1)
    return count


def test_what_a_host_counts_of_its_server_is_billed(scene: Scene) -> None:
    assert scene.send(a_usage_record()) == {}
    assert scene.booked() == {VICTIM: 10.0}


def test_a_host_speaks_for_itself_only(scene: Scene) -> None:
    with refused() as why:
        scene.send(sender="vp2")
    assert "speaks for itself" in str(why[0])
    assert scene.booked() == {}
    assert scene.endpoint.refusals.counts["unwelcome"] == 1


def test_a_host_that_is_not_known(scene: Scene) -> None:
    scene.endpoint.known_hosts.apply_config(["vp9"])
    with refused() as why:
        scene.send()
    assert "known_hosts" in str(why[0])


def test_a_message_that_is_none(scene: Scene) -> None:
    with refused():
        scene.endpoint.usage(call_of(Process.AGENT, "vp1"), "{}")
    assert scene.endpoint.refusals.counts["malformed"] == 1


def test_a_server_of_another_host_is_left_out(scene: Scene) -> None:
    scene.world.nova.servers[AGGRESSOR].host = "vp2"
    told = scene.send(a_usage_record(), a_usage_record(AGGRESSOR))
    assert told == {AGGRESSOR: "Nova says that it is on vp2, not on vp1"}
    assert scene.booked() == {VICTIM: 10.0}


def test_a_server_of_another_project_is_left_out(scene: Scene) -> None:
    told = scene.send(a_usage_record(project_id="p2"))
    assert "no such server in project p2" in told[VICTIM]
    assert scene.booked() == {}


def test_a_project_that_changes_what_was_seen_is_left_out(scene: Scene) -> None:
    scene.send(a_usage_record())
    told = scene.send(a_usage_record(project_id="p2"))
    assert told[VICTIM] != ""
    assert scene.booked() == {VICTIM: 10.0}


def test_nova_is_asked_once_an_hour(scene: Scene) -> None:
    count = asked(scene)
    for _ in range(3):
        scene.send(a_usage_record())
    first = len(count)
    assert first
    scene.pass_s(H)
    scene.send(a_usage_record(hour=HOUR + H))
    second = len(count)
    assert second > first
    scene.send(a_usage_record(hour=HOUR + H), a_usage_record())
    assert len(count) == second


def test_what_was_counted_before_a_server_left_is_billed(scene: Scene) -> None:
    scene.send(a_usage_record())
    scene.world.nova.servers[VICTIM].host = "vp2"
    assert scene.send(a_usage_record(booked_s=12.0)) == {}
    assert scene.booked() == {VICTIM: 12.0}


def test_what_was_counted_around_the_hour_before_it_left_is_billed(scene: Scene) -> None:
    scene.send(a_usage_record())
    scene.pass_s(H)
    scene.world.nova.servers[VICTIM].host = "vp2"
    assert scene.send(a_usage_record(hour=HOUR + H)) == {}
    assert scene.booked() == {VICTIM: 20.0}


def test_a_host_cannot_go_on_billing_a_server_that_left(scene: Scene) -> None:
    scene.send(a_usage_record())
    scene.pass_s(2 * H)
    scene.world.nova.servers[VICTIM].host = "vp2"
    told = scene.send(a_usage_record(hour=HOUR + 2 * H))
    assert told == {VICTIM: "Nova says that it is on vp2, not on vp1"}
    assert scene.booked() == {VICTIM: 10.0}


def test_after_a_migration_both_hosts_count(scene: Scene) -> None:
    scene.send(a_usage_record())
    scene.world.nova.servers[VICTIM].host = "vp2"
    assert scene.send(a_usage_record(booked_s=7.0), host="vp2", sender="vp2") == {}
    assert scene.booked() == {VICTIM: 17.0}


def test_while_nova_is_away_who_is_known_is_billed(scene: Scene) -> None:
    scene.send(a_usage_record())
    scene.world.nova.away = 503
    told = scene.send(a_usage_record(booked_s=11.0), a_usage_record(AGGRESSOR))
    assert list(told) == [AGGRESSOR]
    assert "503" in told[AGGRESSOR]
    assert scene.booked() == {VICTIM: 11.0}


def test_nova_that_is_away_is_left_in_peace_for_a_while(scene: Scene) -> None:
    scene.world.nova.away = 503
    scene.send(a_usage_record())
    scene.world.nova.away = 0
    count = asked(scene)
    assert "503" in scene.send(a_usage_record())[VICTIM]
    assert not count
    scene.pass_s(AWAY_S)
    assert scene.send(a_usage_record()) == {}


def test_without_enough_time_the_rest_is_asked_for_with_the_next_message(scene: Scene) -> None:
    def takes_long() -> None:
        scene.now_s += 5.0

    scene.world.nova.on_request = takes_long
    records = [a_usage_record(), a_usage_record(AGGRESSOR)]
    [left] = scene.send(*records).items()
    assert left == (AGGRESSOR, NOT_ASKED)
    assert scene.send(*records) == {}


@pytest.mark.parametrize("hours", [-31 * 24 - 1, 2, 10**6])
def test_an_hour_that_nobody_can_have_counted_now(scene: Scene, hours: int) -> None:
    assert scene.send(a_usage_record(hour=HOUR + hours * H)) == {VICTIM: NO_TIME}
    assert scene.booked() == {}


def test_what_waited_for_a_week_is_billed(scene: Scene) -> None:
    assert scene.send(a_usage_record(hour=HOUR - 7 * 24 * H)) == {}
    assert scene.booked() == {VICTIM: 10.0}


def test_a_cloud_that_cannot_be_asked_bills_nobody(scene: Scene) -> None:
    scene.endpoint = UsageEndpoint(scene.store, NoCloud(), clock=lambda: scene.now)
    assert scene.send(a_usage_record()) == {VICTIM: NO_CLOUD}


def test_a_database_without_tables_is_no_acknowledgement(tmp_path: Path) -> None:
    file = tmp_path / "empty.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/empty.sqlite\n")
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(file)])
    endpoint = UsageEndpoint(UsageStore(conf), NoCloud())
    with refused(db_exception.DBError):
        endpoint.usage(call_of(Process.AGENT, "vp1"), usage_text())
