# SPDX-License-Identifier: Apache-2.0
"""What an agent makes of reports of latency: the newest of a server here is used, no other."""

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nova_vp import wire
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import NO_QUOTA
from nova_vp.core.types.service_level import LatencyReport, ServiceClass
from nova_vp.latency_message import (
    AHEAD_S,
    LATE_S,
    LEAST_INTERVAL_S,
    Ignored,
    LatencyMessage,
    latency_text,
)
from tests.decisions import a_guest as any_guest
from tests.policies import a_policy
from tests.unit.agent_host import World
from tests.unit.core.build import CHASE, COMPUTE
from vp_agent.latency.base import Asked
from vp_agent.loop.latency_reports import LatencyReports

WEB, DB = "11111111-2222-4333-8444-000000000001", "11111111-2222-4333-8444-000000000002"
NOW_MS = 1_800_000_000_000
MESSAGE = LatencyMessage(WEB, "p1", 8.5, 450_000.0, 95.0, NOW_MS - 200, NOW_MS)


def a_guest(uuid: str, project_id: str, **about: Any) -> Guest:
    critical = {"service_class": ServiceClass.LATENCY_CRITICAL, "latency_target_ms": 10.0}
    return any_guest(uuid=uuid, project_id=project_id, **(critical | about))


class Host:
    """Reports on a host with two servers, and two clocks that run alike."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.guests: tuple[Guest, ...] = (
            a_guest(WEB, "p1"),
            a_guest(DB, "p2"),
        )
        self.reports = LatencyReports(
            lambda: NOW_MS / 1000 + self.passed_s, lambda: 50.0 + self.passed_s
        )
        self.known()

    def known(self) -> Mapping[str, LatencyReport]:
        return self.reports.of(self.guests, 50.0 + self.passed_s)

    def take(self, **changes: Any) -> Ignored | None:
        return self.reports.take(latency_text(MESSAGE._replace(**changes)))

    def later(self, passed_s: float, **changes: Any) -> Ignored | None:
        """One that is measured and sent then."""
        self.passed_s += passed_s
        at_ms = NOW_MS + round(1000 * self.passed_s)
        return self.take(**{"measured_at_ms": at_ms, "sent_at_ms": at_ms, **changes})

    def latency_ms(self, uuid: str = WEB) -> float | None:
        found = self.known().get(uuid)
        return found and found.latency_ms


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_report_is_used_with_the_age_that_it_had_when_it_was_sent(host: Host) -> None:
    assert host.take() is None
    assert host.known() == {WEB: (8.5, 450_000.0, pytest.approx(0.2))}
    host.passed_s = 3.0
    assert host.known()[WEB].age_s == pytest.approx(3.2)


def test_what_the_bus_took_makes_it_older(host: Host) -> None:
    host.passed_s = 3.0
    assert host.take() is None
    assert host.known()[WEB].age_s == pytest.approx(3.2)


def test_a_clock_that_is_behind_makes_nothing_younger_than_new(host: Host) -> None:
    host.passed_s = -60.0
    assert host.take(measured_at_ms=NOW_MS) is None
    assert host.known()[WEB].age_s == 0.0


@pytest.mark.parametrize("ahead_s", [25.0, 3600.0, 1e9])
def test_a_clock_that_was_ahead_once_does_not_lock_out_what_comes_later(
    ahead_s: float, host: Host
) -> None:
    """Of vp-api's machine, before it was set right, or of one of several."""
    ahead_ms = NOW_MS + round(1000 * ahead_s)
    assert host.take(measured_at_ms=ahead_ms, sent_at_ms=ahead_ms) is None
    host.passed_s = 1.0
    assert host.take(measured_at_ms=ahead_ms, sent_at_ms=ahead_ms) is Ignored.REPEATED
    assert host.later(AHEAD_S - 2.0) is Ignored.REPEATED
    assert host.later(2.1, latency_ms=9.0) is None
    assert host.latency_ms() == 9.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"server": "11111111-2222-4333-8444-000000000009"}, Ignored.NOT_HERE),
        ({"server": DB}, Ignored.FOREIGN),
        ({"project_id": ""}, Ignored.FOREIGN),
        ({"percentile": 50.0}, Ignored.PERCENTILE),
        ({"measured_at_ms": NOW_MS - round(1000 * LATE_S) - 1}, Ignored.LATE),
    ],
)
def test_what_is_of_no_server_here_or_late_is_ignored(
    changes: dict[str, Any], why: Ignored, host: Host
) -> None:
    assert host.take(**changes) is why
    assert host.known() == {}


@pytest.mark.parametrize("other", [None, ServiceClass.BEST_EFFORT])
def test_nothing_goes_by_the_latency_of_another_class(
    other: ServiceClass | None, host: Host
) -> None:
    host.guests = (a_guest(WEB, "p1", service_class=other),)
    host.known()
    assert host.take() is Ignored.NOT_CRITICAL
    assert host.known() == {}


def test_what_was_reported_for_another_percentile_says_nothing(host: Host) -> None:
    host.take()
    host.guests = (a_guest(WEB, "p1", latency_percentile=99.0),)
    assert host.known() == {}
    assert host.later(1.0) is Ignored.PERCENTILE
    assert host.later(1.0, percentile=99.0) is None


def test_a_report_that_comes_again_or_is_older_is_ignored(host: Host) -> None:
    host.take()
    host.passed_s = 2.0
    assert host.take() is Ignored.REPEATED
    assert host.take(measured_at_ms=NOW_MS - 300, latency_ms=900) is Ignored.REPEATED
    assert host.latency_ms() == 8.5


def test_a_report_that_waited_in_the_bus_is_late_for_an_agent_that_has_just_started(
    host: Host,
) -> None:
    host.passed_s = LATE_S
    assert host.take() is Ignored.LATE


def test_two_within_half_a_second_are_one(host: Host) -> None:
    host.later(0.0)
    assert host.later(LEAST_INTERVAL_S - 0.1, latency_ms=9) is Ignored.TOO_SOON
    assert host.later(0.1, latency_ms=10) is None
    assert host.latency_ms() == 10


def test_a_server_that_leaves_is_forgotten(host: Host) -> None:
    host.take()
    host.guests = host.guests[1:]
    host.known()
    assert host.later(1.0) is Ignored.NOT_HERE
    assert host.latency_ms() is None


def test_what_was_reported_stands_while_the_target_changes(host: Host) -> None:
    host.take()
    host.guests = (a_guest(WEB, "p1", latency_target_ms=20.0),)
    assert host.latency_ms() == 8.5
    assert host.reports.asked_of(WEB) == Asked(95.0, 20.0)


def test_a_uuid_of_another_project_begins_anew(host: Host) -> None:
    host.take()
    host.guests = (a_guest(WEB, "p9"),)
    assert host.latency_ms() is None
    assert host.later(1.0) is Ignored.FOREIGN


def test_operators_are_shown_what_came_of_each_project(host: Host) -> None:
    host.take()
    host.take()
    host.take(server=DB)
    known = host.reports.known()
    found = known.by_project
    assert known.by_server[WEB] == found["p1"] == (1, 1, {"not-newer": 1})
    assert found["p2"] == (1, 0, {"another-project": 1})


def test_projects_of_several_servers_are_summed(host: Host) -> None:
    host.guests = (host.guests[0], a_guest(DB, "p1"))
    host.known()
    host.take()
    host.take(server=DB)
    host.take(server=DB)
    assert host.reports.known().by_project == {"p1": (2, 2, {"not-newer": 1})}


def test_nobody_is_told_of_who_reports_nothing(host: Host) -> None:
    assert host.reports.known().by_project == {}


def test_names_of_servers_that_are_not_here_take_no_memory(host: Host) -> None:
    for number in range(100):
        host.take(server=f"11111111-2222-4333-8444-{number:012}")
    assert len(host.reports._accounts) == 2


def test_a_flood_is_some_lines_of_the_log(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(1000):
            host.take(server=DB, project_id="p\n9")
    assert len(caplog.records) == 4
    assert "project p?9: another-project" in caplog.text


def a_text(**changes: Any) -> str:
    return json.dumps({**json.loads(latency_text(MESSAGE)), **changes})


REFUSED = {
    "no text": None,
    "no JSON": "{",
    "nothing": "{}",
    "another version": a_text(v=2),
    "no UUID": a_text(server="../etc"),
    "zero": a_text(latency_ms=0),
    "less than a clock tells": a_text(latency_ms=1e-300),
    "negative": a_text(latency_ms=-1),
    "NaN": a_text().replace("8.5", "NaN"),
    "infinite": a_text().replace("8.5", "Infinity"),
    "too large a number": a_text().replace("8.5", "1e999"),
    "absurd": a_text(latency_ms=wire.MOST_LATENCY_MS + 1),
    "a text": a_text(latency_ms="8.5"),
    "yes": a_text(latency_ms=True),
    "none": a_text(latency_ms=None),
    "a negative load": a_text(load=-1),
    "an absurd load": a_text(load=1e13),
    "a low percentile": a_text(percentile=49),
    "all": a_text(percentile=100),
    "no moment": a_text(measured_at_ms="now"),
    "a moment before 1970": a_text(measured_at_ms=-1),
    "too large": " " * wire.MAX_LATENCY_BYTES + a_text(),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_report_is_refused(text: object, host: Host) -> None:
    with pytest.raises(wire.BadMessage):
        host.reports.take(text)
    assert host.reports.known().by_project == {}


def test_nan_is_never_sent() -> None:
    with pytest.raises(wire.BadMessage):
        latency_text(MESSAGE._replace(latency_ms=float("nan")))


def test_a_load_and_a_percentile_need_not_be_given(host: Host) -> None:
    assert host.take(load=None, percentile=None) is None
    assert host.known()[WEB].load is None


def test_the_next_tick_sees_what_was_reported(tmp_path: Path) -> None:
    world = World(tmp_path)
    uuid = world.boot(CHASE, service_class=ServiceClass.LATENCY_CRITICAL, project_id="p1")
    agent = world.start_agent()
    world.tick()
    now_ms = round(time.time() * 1000)
    told = MESSAGE._replace(server=uuid, measured_at_ms=now_ms, sent_at_ms=now_ms)
    world.control.take_latency(latency_text(told))
    reports = agent.picture(time.monotonic()).latency_reports
    assert reports[uuid].latency_ms == 8.5
    world.host.guests.clear()
    assert agent.picture(time.monotonic()).latency_reports == {}


@pytest.mark.needs_controllers("latency")
@pytest.mark.parametrize(
    ("project_id", "latency_ms", "is_limited"),
    [("p1", 30.0, True), ("p1", wire.MOST_LATENCY_MS, True), ("p2", 30.0, False)],
    ids=["its own", "absurd", "another project"],
)
def test_a_report_over_the_target_costs_best_effort_servers_no_more_than_their_floor(
    project_id: str, latency_ms: float, is_limited: bool, tmp_path: Path
) -> None:
    world = World(tmp_path, policy=a_policy(["latency"]))
    critical = {"service_class": ServiceClass.LATENCY_CRITICAL, "latency_target_ms": 10.0}
    web = world.boot(COMPUTE, project_id="p1", cap_floor_ratio=0.5, **critical)
    batch = world.boot(
        COMPUTE, project_id="p2", cap_floor_ratio=0.01, service_class=ServiceClass.BEST_EFFORT
    )
    other = world.boot(COMPUTE, project_id="p2", cap_floor_ratio=0.01)
    world.start_agent()
    reports = world.control.latency = LatencyReports(
        lambda: NOW_MS / 1000 + world.now_s, lambda: world.now_s
    )
    world.tick()
    least = 1.0
    for _ in range(60):
        at_ms = NOW_MS + round(1000 * world.now_s)
        told = MESSAGE._replace(server=web, project_id=project_id, latency_ms=latency_ms)
        reports.take(latency_text(told._replace(measured_at_ms=at_ms, sent_at_ms=at_ms)))
        world.tick()
        quota = world.host.guests[batch].guest.quota
        ratio = 1.0 if quota == NO_QUOTA else quota.quota_us / quota.period_us
        least = min(least, ratio)
    assert least >= 0.01
    assert world.host.guests[web].guest.quota == NO_QUOTA
    assert world.host.guests[other].guest.quota == NO_QUOTA
    ignored = reports.known().by_server[web].ignored
    assert bool(ignored) is not is_limited
    if is_limited:
        assert least < 0.2
