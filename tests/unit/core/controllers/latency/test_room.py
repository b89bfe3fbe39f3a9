# SPDX-License-Identifier: Apache-2.0
"""What a newcomer of either class would find: the CPU that others leave to it."""

import pytest

from nova_vp.core.types.policy import Mode
from nova_vp.core.types.service_level import ClassRoom
from tests.unit.core.build import Host, Rates
from tests.unit.core.controllers.latency.hosts import (
    IDLE,
    WORKING,
    a_host,
    best_effort,
    critical,
    report,
    run,
)

BUSY = Rates(mips=12000, cpi=1.0, cores=12.0)


def room(host: Host, latency_ms: float = 2.0) -> ClassRoom:
    report(host, latency_ms)
    found = host.tick().class_room
    assert found is not None
    return found


def test_an_empty_host_is_open_to_both() -> None:
    assert room(a_host()) == ClassRoom(50.0, 0, 50.0)


def test_best_effort_servers_use_what_latency_critical_ones_may_have() -> None:
    host = a_host()
    critical(host)
    best_effort(host, cpus=set(range(25, 50)))
    run(host, 3, latency_ms=2.0)
    found = room(host)
    assert found.latency_critical_cores == pytest.approx(46.0)
    assert found.best_effort_cores == pytest.approx(46.0)
    assert found.best_effort_vcpus == 8


def test_what_is_neither_takes_from_both() -> None:
    host = a_host()
    critical(host)
    host.add("other", WORKING, vcpus=8)
    run(host, 3, latency_ms=2.0)
    assert room(host) == ClassRoom(pytest.approx(38.0), 0, pytest.approx(38.0))


def test_a_quiet_minute_says_nothing_of_the_next() -> None:
    host = a_host()
    critical(host)
    host.run("lc", BUSY)
    run(host, 30, latency_ms=2.0)
    host.run("lc", IDLE)
    run(host, 5, latency_ms=2.0)
    assert room(host).latency_critical_cores < 39.0


def test_best_effort_servers_that_use_up_what_is_left_have_no_more() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    run(host, 20, latency_ms=20.0)
    assert room(host, latency_ms=20.0).best_effort_cores < 1.0


def test_of_those_that_use_little_nobody_knows_what_would_be_left() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    run(host, 20, latency_ms=2.0)
    host.run("be", IDLE)
    run(host, 20, latency_ms=2.0)
    assert room(host).best_effort_cores == pytest.approx(46.0, abs=0.1)


def test_where_nobody_can_say_what_they_use_they_have_what_is_left() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    run(host, 5, latency_ms=20.0)
    host.counts[host.guest("be").uuid] = host.counts[host.guest("be").uuid]._replace(
        generation="another"
    )
    assert room(host, latency_ms=20.0).best_effort_cores < 1.0


def test_those_without_a_latency_critical_server_beside_them_count_whole() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    best_effort(host, "far", cpus=set(range(25, 50)))
    run(host, 20, latency_ms=20.0)
    found = room(host, latency_ms=20.0)
    assert found.best_effort_cores == pytest.approx(8.0, abs=1.0)
    assert found.best_effort_vcpus == 16


@pytest.mark.parametrize("mode", [Mode.ADVISE, Mode.OBSERVE])
def test_in_a_mode_that_limits_nobody_none_is_held_back(mode) -> None:
    host = a_host()
    host.mode = mode
    critical(host)
    best_effort(host)
    run(host, 20, latency_ms=20.0)
    assert room(host, latency_ms=20.0).best_effort_cores == pytest.approx(46.0)


def test_stopped_servers_take_nothing() -> None:
    host = a_host()
    critical(host, is_running=False)
    best_effort(host, is_running=False)
    run(host, 3, latency_ms=2.0)
    assert room(host) == ClassRoom(50.0, 0, 50.0)


def test_it_says_whose_latency_critical_servers_are_not_protected() -> None:
    host = a_host(starve_s=20.0)
    critical(host)
    best_effort(host)
    run(host, 30, latency_ms=1e6)
    assert room(host).starved == {"shop"}
