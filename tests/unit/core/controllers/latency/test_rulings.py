# SPDX-License-Identifier: Apache-2.0
"""What rules where an application is silent, has no target, or keeps others at their least."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.latency.controller import Latency
from nova_vp.core.controllers.latency.declaration import Loop, Ruling
from nova_vp.core.model.limits import SUSPENDED
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Quota
from tests.policies import a_policy
from tests.unit.core.build import Rates, uuid_of
from tests.unit.core.controllers.latency.hosts import (
    a_host,
    best_effort,
    critical,
    figures,
    given_cores,
    run,
    silent,
)


def a_grown_host(**settings):
    host = a_host(**settings)
    critical(host)
    best_effort(host)
    run(host, 20, latency_ms=2.0)
    return host


def test_silence_is_first_a_hold() -> None:
    host = a_grown_host()
    silent(host, 11)
    before = given_cores(host)
    silent(host, 28)
    assert given_cores(host) == before > 3.0
    assert figures(host)["ruled_by"] == Ruling.HOLD.value


def test_then_a_retreat_by_a_twentieth_every_2_seconds() -> None:
    host = a_grown_host()
    silent(host, 40)
    before = given_cores(host)
    silent(host, 6)
    assert figures(host)["ruled_by"] == Ruling.RETREAT.value
    assert given_cores(host) == pytest.approx(before - 3 * 8.0 / 20, abs=0.09)


def test_then_cpi_alone() -> None:
    host = a_grown_host()
    silent(host, 165)
    assert figures(host)["ruled_by"] == Ruling.CPI.value
    assert given_cores(host) < 1.0
    silent(host, 200)
    assert given_cores(host) > 5.0


def test_a_report_ends_the_silence() -> None:
    host = a_grown_host()
    silent(host, 170)
    run(host, 4, latency_ms=2.0)
    assert figures(host)["ruled_by"] == Ruling.LATENCY.value
    assert host.state.controllers["latency"].by_guest[uuid_of("lc")].loop is Loop.ADAPTIVE


@pytest.mark.parametrize("loop", ["adaptive", "latency", "hybrid", "hybrid-tuned"])
def test_a_report_after_a_retreat_gives_back_one_step(loop) -> None:
    host = a_host(loop)
    critical(host)
    best_effort(host)
    run(host, 200, latency_ms=2.0)
    silent(host, 120)
    assert figures(host)["ruled_by"] == Ruling.RETREAT.value
    run(host, 2, latency_ms=2.0)
    assert given_cores(host) <= 1.0


@pytest.mark.parametrize("loop", ["adaptive", "latency", "hybrid", "hybrid-tuned"])
def test_a_report_after_the_highest_level_of_cpi_begins_at_the_least(loop) -> None:
    host = a_host(loop, hold_s=0.0, retreat_s=0.0)
    critical(host)
    best_effort(host)
    run(host, 40, latency_ms=2.0)
    silent(host, 310)
    assert host.guest("be").quota == Quota()
    run(host, 2, latency_ms=2.0)
    assert given_cores(host) < 1.0
    watch = host.state.controllers["latency"].by_guest[uuid_of("lc")]
    assert [watch.is_unlimited, watch.is_enabled, watch.is_growing] == [False] * 3


def test_who_never_reported_is_ruled_by_cpi() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    host.ticks(3)
    assert figures(host)["ruled_by"] == Ruling.CPI.value


def test_who_has_no_target_is_ruled_by_cpi() -> None:
    host = a_host()
    critical(host, latency_target_ms=None)
    best_effort(host)
    run(host, 3, latency_ms=50.0)
    assert figures(host)["ruled_by"] == Ruling.CPI.value


def test_the_loop_cpi_needs_no_report() -> None:
    host = a_host("cpi")
    critical(host)
    best_effort(host)
    run(host, 30, latency_ms=50.0)
    assert figures(host)["ruled_by"] == Ruling.CPI.value
    assert given_cores(host) > 1.0


@pytest.mark.parametrize("loop", ["adaptive", "latency", "hybrid-tuned"])
def test_another_loop_in_the_options_begins_at_the_least(loop) -> None:
    host = a_host("hybrid")
    critical(host)
    best_effort(host, may_suspend=True)
    run(host, 17, latency_ms=2.0, load_ratio=0.9)
    assert host.guest("be").quota == SUSPENDED
    host.policy = a_policy(controllers=("latency",), control_loop=loop)
    run(host, 38, latency_ms=2.0)
    assert given_cores(host) > 0.9


def test_who_keeps_others_at_their_least_for_too_long_is_ruled_by_cpi() -> None:
    host = a_host(starve_s=100.0)
    critical(host)
    best_effort(host)
    run(host, 90, latency_ms=1e6)
    assert figures(host)["ruled_by"] == Ruling.LATENCY.value
    assert figures(host)["starve_left_s"] == pytest.approx(10.0, abs=5.0)
    run(host, 30, latency_ms=1e6)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value
    run(host, 150, latency_ms=1e6)
    assert given_cores(host) > 4.0


def test_one_second_is_regained_in_four_and_half_of_them_are_needed() -> None:
    host = a_host(starve_s=100.0)
    critical(host)
    best_effort(host)
    run(host, 120, latency_ms=1e6)
    run(host, 150, latency_ms=1e6)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value
    run(host, 60, latency_ms=2.0)
    assert figures(host)["ruled_by"] == Ruling.LATENCY.value
    run(host, 300, latency_ms=2.0)
    assert host.state.controllers["latency"].starved_s == {}


def test_a_project_may_starve_its_own_servers() -> None:
    host = a_host(starve_s=50.0)
    critical(host)
    best_effort(host, project_id="shop")
    run(host, 100, latency_ms=1e6)
    assert figures(host)["ruled_by"] == Ruling.LATENCY.value


def test_all_servers_of_a_project_spend_one_budget() -> None:
    host = a_host(starve_s=100.0)
    critical(host)
    critical(host, "lc2")
    best_effort(host)
    run(host, 120, latency_ms=1e6)
    assert figures(host, "lc2")["ruled_by"] == Ruling.STARVED.value
    assert figures(host)["starve_left_s"] == figures(host, "lc2")["starve_left_s"]


BURNING = Rates(mips=8000, cpi=1.0, cores=15.8)


@pytest.mark.parametrize("floor", [0.02, 0.5])
def test_a_lie_spends_the_budget_whatever_floor_others_have(floor) -> None:
    host = a_host(starve_s=60.0)
    critical(host)
    best_effort(host, cap_floor_ratio=floor)
    run(host, 50, latency_ms=1e6)
    assert given_cores(host) == pytest.approx(8.0 * floor)
    run(host, 15, latency_ms=1e6)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value


def test_whatever_rules_the_budget_is_spent() -> None:
    host = a_host("cpi", starve_s=60.0, starve_busy_s=60.0)
    critical(host, latency_target_ms=None)
    best_effort(host)
    host.run("lc", BURNING)
    host.ticks(55)
    assert given_cores(host) < 0.1
    host.ticks(15)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value
    assert figures(host)["best_effort_cores"] == 8.0
    assert host.guest("be").quota == Quota()


def test_once_it_is_spent_only_weights_stand_for_others_and_caps_for_its_own() -> None:
    host = a_host(starve_s=60.0)
    critical(host)
    best_effort(host)
    best_effort(host, "own", project_id="shop")
    run(host, 70, latency_ms=1e6)
    assert host.guest("be").quota == Quota()
    assert host.guest("be").cpu_weight.number == 2
    assert given_cores(host, "own") < 1.0


def test_a_share_far_above_the_least_is_starved_below_a_quarter() -> None:
    host = a_host("latency", starve_s=300.0)
    critical(host)
    best_effort(host)
    run(host, 60, latency_ms=2.0)
    spent_s = host.state.controllers["latency"].starved_s["shop"]
    assert 25.0 < spent_s < 35.0
    run(host, 10, latency_ms=2.0)
    assert host.state.controllers["latency"].starved_s["shop"] < spent_s


def test_a_share_below_a_floor_above_a_quarter_is_starved() -> None:
    host = a_host("latency", starve_s=300.0)
    critical(host)
    best_effort(host, cap_floor_ratio=0.5)
    run(host, 65, latency_ms=2.0)
    assert host.state.controllers["latency"].starved_s["shop"] > 60.0


@pytest.mark.parametrize(
    "fields",
    [{"unmanaged": Unmanaged.OPTED_OUT}, {"is_running": False}, {"cap_floor_ratio": None}],
    ids=["unmanaged", "stopped", "never capped"],
)
def test_who_is_not_limited_is_not_starved(fields) -> None:
    host = a_host()
    critical(host)
    best_effort(host, **fields)
    run(host, 20, latency_ms=1e6)
    assert host.state.controllers["latency"].starved_s == {}


def test_what_is_spent_outlives_the_agent() -> None:
    host = a_host(starve_s=60.0)
    critical(host)
    best_effort(host)
    run(host, 70, latency_ms=1e6)
    kept = Latency().kept(host.state.controllers["latency"])
    assert (kept.starving, kept.by_guest, kept.at_s) == ({"shop"}, {}, None)
    host.state = replace(host.state, controllers={"latency": kept})
    run(host, 5, latency_ms=1e6)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value


def test_a_silent_server_tells_no_slack() -> None:
    host = a_grown_host()
    assert figures(host)["slack_ratio"] == pytest.approx(0.8)
    silent(host, 20)
    assert "slack_ratio" not in figures(host)
