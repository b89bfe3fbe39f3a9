# SPDX-License-Identifier: Apache-2.0
"""What raising a server costs others is measured, and bounded."""

import pytest

from tests.unit.core.build import Host, uuid_of
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    HIGH,
    LOW,
    trigger,
    tune,
    two_shops,
    wait_for_cpu,
    weight,
)


def a_measured_host(**settings: object) -> Host:
    """All wait for a tenth of the CPU time that they want."""
    host = two_shops(**settings)
    for _ in range(12):
        second(host)
    return host


def second(host: Host, **ratios: float) -> None:
    for name in ("web", "db", "mill", "alone"):
        wait_for_cpu(host, name, ratios.get(name, 0.1))
    host.tick()


def credit_s(host: Host) -> float:
    return host.state.controllers["overlays"].accounts["shop"].credit_s


def test_a_weight_that_makes_others_wait_is_lowered_step_by_step() -> None:
    host = a_measured_host()
    tune(host)
    tune(host)
    assert weight(host, "web") == 156
    for _ in range(2):
        second(host, alone=0.2)
    assert weight(host, "web") == 156, "it is not judged yet"
    second(host, alone=0.2)
    assert weight(host, "web") == 125
    for _ in range(3):
        second(host, alone=0.2)
    assert weight(host, "web") == 100, "they still wait longer than before"
    second(host)
    assert host.state.controllers["overlays"].harms == {}


def test_a_weight_that_others_live_with_after_a_step_down_stays() -> None:
    host = a_measured_host()
    tune(host)
    tune(host)
    for _ in range(3):
        second(host, alone=0.2)
    for _ in range(10):
        second(host)
    assert weight(host, "web") == 125


def test_a_trigger_that_makes_others_wait_halves_the_credit() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    trigger(host, "web")
    assert credit_s(host) == pytest.approx(9.0)
    second(host, mill=0.15)
    assert credit_s(host) == pytest.approx(4.5)
    assert weight(host, "web") == 100


def test_who_lives_with_it_is_not_harmed() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    trigger(host, "web")
    second(host, mill=0.13)
    assert credit_s(host) == pytest.approx(9.0)
    host.answer()
    second(host)
    assert host.state.controllers["overlays"].harms == {}


def test_servers_of_its_own_overlay_and_on_other_cpus_are_no_others() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    for name in ("mill", "alone"):
        host.change(name, placement=frozenset(HIGH))
    second(host)
    trigger(host, "web")
    second(host, db=0.9, mill=0.9, alone=0.9)
    assert credit_s(host) == pytest.approx(9.0)


def test_where_nobody_measures_waiting_nothing_is_told() -> None:
    host = two_shops(credit_s=10.0, credit_per_s=0.0)
    tune(host)
    host.ticks(10)
    assert weight(host, "web") == 125


def test_who_is_not_raised_any_more_is_not_watched() -> None:
    host = a_measured_host()
    tune(host)
    host.leave("web")
    host.ticks(2)
    assert host.state.controllers["overlays"].harms == {}


def test_a_tuned_and_triggered_server_keeps_being_watched_as_tuned() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    tune(host)
    trigger(host, "web")
    second(host)
    second(host)
    assert uuid_of("web") in host.state.controllers["overlays"].harms
    assert weight(host, "web") == 125


def test_a_trigger_of_a_server_that_is_limited_by_its_own_overlay_is_judged_too() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    tune(host, "web", DOWN)
    trigger(host, "web")
    second(host, mill=0.2)
    assert credit_s(host) == pytest.approx(4.5)


def test_many_quiet_seconds_do_not_outweigh_what_others_lose_now() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    tune(host)
    for _ in range(60):
        second(host)
    for _ in range(3):
        second(host, alone=0.2)
    assert weight(host, "web") == 100
    assert credit_s(host) == pytest.approx(5.0)


def test_a_trigger_of_a_tuned_server_is_judged_by_its_own_sample() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    tune(host)
    for _ in range(10):
        second(host)
    trigger(host, "web")
    second(host, mill=0.2)
    assert credit_s(host) == pytest.approx(4.5)


def test_who_was_alone_when_it_was_raised_is_judged_once_others_are_there() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    for name in ("mill", "alone"):
        host.change(name, placement=frozenset(HIGH))
    second(host)
    trigger(host, "web")
    for _ in range(3):
        second(host)
    for name in ("mill", "alone"):
        host.change(name, placement=frozenset(LOW))
    second(host)
    trigger(host, "web")
    second(host, mill=0.2)
    assert credit_s(host) == pytest.approx(4.0)
