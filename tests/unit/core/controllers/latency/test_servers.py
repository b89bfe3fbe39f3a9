# SPDX-License-Identifier: Apache-2.0
"""Several servers of either class, and what becomes of limits when one of them goes."""

import pytest

from nova_vp.core.controllers.latency.declaration import LIMIT
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_CPU_WEIGHT, Knob, Quota
from tests.unit.core.build import Rates, uuid_of
from tests.unit.core.controllers.latency.hosts import (
    SHARES,
    a_host,
    best_effort,
    critical,
    figures,
    given_cores,
    report,
    run,
    without_counters,
)


def both(host, seconds: int, first_ms: float, second_ms: float) -> None:
    for _ in range(seconds):
        report(host, first_ms)
        report(host, second_ms, name="lc2")
        host.tick()


def is_untouched(host, name: str) -> bool:
    return host.guest(name).quota == Quota() and host.guest(name).cpu_weight == SHARES


def test_the_tightest_slack_rules() -> None:
    host = a_host()
    critical(host)
    critical(host, "lc2")
    best_effort(host)
    both(host, 40, 2.0, 2.0)
    assert given_cores(host) > 6.0
    both(host, 10, 2.0, 12.0)
    assert given_cores(host) < 2.0


STEPS = {"adaptive": 0.5, "cpi": 0.8, "latency": 1.0, "hybrid": 1.0, "hybrid-tuned": 1.0}
TIGHT_MS = {"adaptive": 9.6, "cpi": 9.6, "latency": 10.0, "hybrid": 10.1, "hybrid-tuned": 10.1}
DISTURBED = Rates(mips=4000, cpi=1.5, cores=4.0)


def beside_a_tight_one(loop: str, seconds: int = 900):
    """`lc` bears little for so many seconds, `lc2` all."""
    models = ", ".join(f"{uuid_of(name)}=1.2/16" for name in ("lc", "lc2"))
    host = a_host(loop, cpi_models=models, starve_s=1e6)
    critical(host)
    critical(host, "lc2")
    best_effort(host)
    both(host, 32, 2.0, 2.0)
    host.run("lc", DISTURBED)
    both(host, seconds, TIGHT_MS[loop], 2.0)
    return host


@pytest.mark.parametrize(("loop", "step"), STEPS.items())
@pytest.mark.parametrize("how", ["leaves", "stops", "refuses help"])
def test_when_the_tightest_goes_the_next_goes_up_step_by_step(loop, step, how) -> None:
    host = beside_a_tight_one(loop)
    before = given_cores(host)
    assert before < 3.0
    if how == "leaves":
        host.leave("lc")
        host.latency_reports.pop(uuid_of("lc"))
    elif how == "stops":
        host.change("lc", is_running=False)
    else:
        host.change("lc", refuses_help=True)
    for _ in range(600):
        report(host, 2.0, name="lc2")
        host.tick()
        assert given_cores(host) <= before + step + 0.09
        before = given_cores(host)
    assert before > 6.5


@pytest.mark.parametrize("loop", STEPS)
def test_no_level_goes_up_while_another_rules(loop) -> None:
    host = beside_a_tight_one(loop, seconds=60)
    given, left = given_cores(host), figures(host, "lc2")["best_effort_cores"]
    both(host, 300, TIGHT_MS[loop], 2.0)
    assert given_cores(host) <= given + 0.09
    assert figures(host, "lc2")["best_effort_cores"] <= max(left, given + STEPS[loop])


@pytest.mark.parametrize("loop", ["cpi", "latency", "hybrid", "hybrid-tuned"])
def test_a_best_effort_server_that_comes_later_gets_no_level_that_nobody_used(loop) -> None:
    host = a_host(loop)
    critical(host)
    best_effort(host, vcpus=1)
    run(host, 600, latency_ms=2.0)
    assert given_cores(host) == 1.0
    best_effort(host, "be2")
    run(host, 1, latency_ms=2.0)
    assert given_cores(host) + given_cores(host, "be2") <= 1.0 + STEPS[loop]


def test_whom_another_holds_back_takes_nothing_from_a_third() -> None:
    """`lc2` is beside both best-effort servers, `lc` beside one of them."""
    host = a_host("latency")
    critical(host)
    critical(host, "lc2", cpus=set(range(50)))
    best_effort(host)
    best_effort(host, "be2", cpus=set(range(25, 50)))
    both(host, 400, 10.0, 2.0)
    assert given_cores(host) < 0.1
    assert given_cores(host, "be2") > 7.9


def test_who_shares_no_cache_with_it_is_not_limited() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    best_effort(host, "far", cpus=set(range(25, 50)))
    run(host, 5, latency_ms=12.0)
    assert given_cores(host) < 1.0
    assert is_untouched(host, "far")


def test_several_best_effort_servers_share_by_priority() -> None:
    host = a_host("latency")
    critical(host)
    best_effort(host, priority=3.0)
    best_effort(host, "be2")
    run(host, 76, latency_ms=2.0)
    assert given_cores(host) == pytest.approx(3.0, abs=0.09)
    assert given_cores(host, "be2") == pytest.approx(1.0, abs=0.09)


def test_what_one_cannot_use_goes_to_the_others() -> None:
    host = a_host("latency")
    critical(host)
    best_effort(host, priority=3.0, vcpus=1)
    best_effort(host, "be2")
    run(host, 94, latency_ms=2.0)
    assert host.guest("be").quota == Quota()
    assert given_cores(host, "be2") == pytest.approx(4.0, abs=0.09)


def test_without_a_latency_critical_server_nobody_is_limited() -> None:
    host = a_host()
    best_effort(host)
    host.ticks(5)
    assert is_untouched(host, "be")


def test_without_a_best_effort_server_nothing_is_changed() -> None:
    host = a_host()
    critical(host)
    run(host, 5, latency_ms=12.0)
    assert is_untouched(host, "lc")
    assert host.outcomes == []


@pytest.mark.parametrize("loop", ["adaptive", "cpi", "latency", "hybrid", "hybrid-tuned"])
def test_a_best_effort_server_that_comes_later_begins_at_the_least(loop) -> None:
    host = a_host(loop)
    critical(host)
    run(host, 600, latency_ms=2.0)
    best_effort(host)
    run(host, 2, latency_ms=2.0)
    assert given_cores(host) < 0.6


@pytest.mark.parametrize("how", ["stops", "leaves", "refuses help", "other class"])
def test_limits_end_with_the_server_that_they_are_for(how) -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    run(host, 5, latency_ms=12.0)
    assert not is_untouched(host, "be")
    if how == "leaves":
        host.leave("lc")
    elif how == "stops":
        host.change("lc", is_running=False)
    elif how == "refuses help":
        host.change("lc", refuses_help=True)
    else:
        host.change("lc", service_class=None)
    host.ticks(2)
    assert is_untouched(host, "be")
    assert how == "leaves" or is_untouched(host, "lc")


def test_limits_end_without_counters_too() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    host.rule = without_counters
    run(host, 5, latency_ms=12.0)
    assert not is_untouched(host, "be")
    host.leave("lc")
    host.ticks(2)
    assert is_untouched(host, "be")


def test_while_it_is_migrated_they_stay_but_it_is_not_touched() -> None:
    host = a_host()
    critical(host, unmanaged=Unmanaged.MIGRATING)
    best_effort(host)
    run(host, 5, latency_ms=12.0)
    assert not is_untouched(host, "be")
    assert is_untouched(host, "lc")


def test_who_was_resized_is_learned_anew() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    run(host, 40, latency_ms=2.0)
    assert given_cores(host) > 6.0
    host.change("lc", generation="2", vcpus=8)
    run(host, 2, latency_ms=2.0)
    assert given_cores(host) < 1.0


def test_a_new_target_counts_at_once() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    run(host, 40, latency_ms=5.0)
    before = given_cores(host)
    host.change("lc", latency_target_ms=4.0)
    run(host, 3, latency_ms=5.0)
    assert given_cores(host) < 0.6 * before


ABSENT = pytest.mark.parametrize(
    "fields",
    [{"unmanaged": Unmanaged.OPTED_OUT}, {"is_running": False}],
    ids=["unmanaged", "stopped"],
)


@ABSENT
def test_a_best_effort_server_that_may_not_be_touched_is_not(fields) -> None:
    host = a_host()
    critical(host)
    best_effort(host, **fields)
    run(host, 5, latency_ms=12.0)
    assert is_untouched(host, "be")
    assert is_untouched(host, "lc")


@ABSENT
def test_who_is_stopped_or_unmanaged_takes_no_share_from_others(fields) -> None:
    host = a_host("latency")
    critical(host)
    best_effort(host)
    best_effort(host, "be2", priority=3.0, **fields)
    run(host, 76, latency_ms=2.0)
    assert given_cores(host) == pytest.approx(4.0, abs=0.09)
    run(host, 100, latency_ms=2.0)
    assert figures(host)["best_effort_cores"] == 8.0


def test_who_may_not_be_capped_and_has_no_weight_is_left_alone() -> None:
    host = a_host()
    critical(host, cpu_weight=NO_CPU_WEIGHT)
    best_effort(host, cap_floor_ratio=None, cpu_weight=NO_CPU_WEIGHT)
    run(host, 5, latency_ms=12.0)
    assert host.outcomes == []


def test_a_floor_of_the_flavor_holds() -> None:
    host = a_host()
    critical(host)
    best_effort(host, cap_floor_ratio=0.25)
    run(host, 5, latency_ms=12.0)
    assert given_cores(host) == 2.0


def test_a_host_without_these_knobs_changes_nothing() -> None:
    host = a_host(knobs=frozenset({Knob.PLACEMENT}))
    critical(host)
    best_effort(host)
    run(host, 5, latency_ms=12.0)
    assert host.outcomes == []


def test_an_action_names_the_server_that_it_is_for_and_its_slack() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    run(host, 1, latency_ms=12.0)
    [action] = [one.action for one in host.outcomes if one.action.reason is LIMIT]
    assert action.on_behalf_of == uuid_of("lc")
    assert action.evidence["slack_ratio"] == pytest.approx(-0.2)
