# SPDX-License-Identifier: Apache-2.0
"""The source's four loops (Padala, 2020): every constant and every step of them."""

import pytest

from nova_vp.core.controllers.latency import source_loops
from nova_vp.core.controllers.latency.cpi_models import CpiModel, cpi_models_of
from nova_vp.core.controllers.latency.declaration import Loop, Ruling
from nova_vp.core.controllers.latency.source_loops import begun
from nova_vp.core.types.knob import CpuWeight, Quota, WeightUnit
from tests.unit.core.build import Rates, uuid_of
from tests.unit.core.controllers.latency.hosts import (
    IDLE,
    a_host,
    a_sample,
    a_watch,
    best_effort,
    critical,
    figures,
    given_cores,
    report,
    run,
    watched,
    without_counters,
)
from vp_agent.cli import learn_cpi

BOTH_HYBRIDS = [
    (Loop.HYBRID, 0.85, 0.80, 300.0, 1.0),
    (Loop.HYBRID_TUNED, 0.95, 0.90, 180.0, 1.0),
]


def test_best_effort_begins_at_the_least_quota() -> None:
    host = a_host("latency")
    critical(host)
    best_effort(host)
    run(host, 2, latency_ms=5.0)
    assert host.guest("be").quota == Quota(1000, 100_000)


def test_shares_are_200000_and_2() -> None:
    host = a_host("latency")
    critical(host)
    best_effort(host)
    run(host, 2, latency_ms=5.0)
    assert host.guest("lc").cpu_weight == CpuWeight(200_000, WeightUnit.SHARES)
    assert host.guest("be").cpu_weight == CpuWeight(2, WeightUnit.SHARES)


def test_weights_of_cgroup_version_2_are_alike() -> None:
    host = a_host("latency")
    critical(host, cpu_weight=CpuWeight(100, WeightUnit.WEIGHT))
    best_effort(host, cpu_weight=CpuWeight(100, WeightUnit.WEIGHT))
    run(host, 2, latency_ms=5.0)
    assert host.guest("lc").cpu_weight == CpuWeight(7629, WeightUnit.WEIGHT)
    assert host.guest("be").cpu_weight == CpuWeight(2, WeightUnit.WEIGHT)


def test_cpi_goes_one_of_20_levels_up_after_7_quiet_looks() -> None:
    assert watched(Loop.CPI, 13).level == 0
    up = watched(Loop.CPI, 14)
    assert (up.level, up.cores) == (1, 16.0 / 20)
    assert watched(Loop.CPI, 28).level == 2


def test_cpi_goes_to_the_least_where_half_a_cpu_is_not_left() -> None:
    up = watched(Loop.CPI, 28)
    sample = a_sample(cores=12.0)
    full = watched(Loop.CPI, 2, up, 28, sample=sample, best_effort_cores=3.6)
    assert (full.level, full.cores) == (0, 0.0)
    assert watched(Loop.CPI, 2, up, 28, sample=sample, best_effort_cores=3.4).level == 2


def test_cpi_starts_counting_again_where_cpu_was_short() -> None:
    up = watched(Loop.CPI, 12)
    full = watched(Loop.CPI, 2, up, 12, sample=a_sample(cores=16.0))
    assert watched(Loop.CPI, 12, full, 14).level == 0
    assert watched(Loop.CPI, 14, full, 14).level == 1


def test_cpi_above_the_threshold_goes_to_the_least_every_18_and_a_half_seconds() -> None:
    disturbed = a_sample(cpi=1.3)
    assert watched(Loop.CPI, 18, sample=disturbed).level == 1
    assert watched(Loop.CPI, 19, sample=disturbed).level == 0
    assert watched(Loop.CPI, 19, sample=a_sample(cpi=1.19)).level == 1


def test_cpi_counts_quiet_looks_anew_after_a_disturbance() -> None:
    disturbed = watched(Loop.CPI, 19, sample=a_sample(cpi=1.3))
    assert disturbed.quiet_cycles == 0


def test_cpi_is_the_mean_since_the_last_look() -> None:
    half = watched(Loop.CPI, 10, sample=a_sample(cpi=1.3))
    assert watched(Loop.CPI, 9, half, 10, sample=a_sample(cpi=1.0)).level == 1
    later = watched(Loop.CPI, 9, half, 10, sample=a_sample(cpi=1.3))
    assert watched(Loop.CPI, 18, later, 19, sample=a_sample(cpi=1.0)).level == 1


def test_cpi_level_20_is_no_quota() -> None:
    assert not watched(Loop.CPI, 14 * 19).is_unlimited
    top = watched(Loop.CPI, 14 * 21)
    assert (top.level, top.is_unlimited) == (20, True)


def test_level_20_takes_the_quota_away() -> None:
    host = a_host("cpi", cpi_models=f"{uuid_of('lc')}=1.2/10")
    critical(host)
    best_effort(host, vcpus=16)
    host.run("be", IDLE)
    host.ticks(275)
    assert host.guest("be").quota != Quota()
    host.ticks(20)
    assert host.guest("be").quota == Quota()


def test_who_is_not_measured_is_neither_quiet_nor_disturbed() -> None:
    assert watched(Loop.CPI, 40, sample=None).level == 0
    up = watched(Loop.CPI, 14)
    assert watched(Loop.CPI, 40, up, 14, sample=None).level == 1
    assert watched(Loop.CPI, 16, up, 14, best_effort_cores=None).level == 1
    disturbed = a_sample(cpi=1.3)
    assert watched(Loop.CPI, 40, up, 14, best_effort_cores=None, sample=disturbed).level == 0


def test_cpu_use_is_seen_without_counters() -> None:
    assert watched(Loop.CPI, 14, sample=None, own_cores=4.0).level == 1
    up = watched(Loop.CPI, 40, sample=None, own_cores=4.0)
    assert (up.level, up.is_blind) == (2, True)
    assert watched(Loop.CPI, 2, up, 40, sample=None, own_cores=15.6).level == 0
    seen_again = watched(Loop.CPI, 16, up, 40)
    assert not seen_again.is_blind


def a_host_without_counters(**settings):
    host = a_host("cpi", **settings)
    critical(host)
    best_effort(host)
    host.rule = without_counters
    return host


def test_without_counters_best_effort_gets_a_quarter_for_ever() -> None:
    host = a_host_without_counters(starve_s=100.0)
    host.ticks(90)
    for _ in range(400):
        host.tick()
        assert given_cores(host) == pytest.approx(2.0)
    assert host.state.controllers["latency"].starved_s == {}
    assert figures(host)["ruled_by"] == Ruling.CPU.value


def test_without_counters_two_of_unequal_size_get_a_quarter_each() -> None:
    host = a_host_without_counters()
    best_effort(host, "be2", vcpus=4, priority=5.0)
    host.ticks(400)
    assert given_cores(host) == pytest.approx(2.0)
    assert given_cores(host, "be2") == pytest.approx(1.0)


def test_without_counters_a_floor_above_a_quarter_is_the_bound() -> None:
    host = a_host_without_counters(starve_s=100.0)
    host.change("be", cap_floor_ratio=0.5)
    host.ticks(400)
    assert figures(host)["best_effort_cores"] == 4.0


def test_without_counters_too_little_cpu_takes_all() -> None:
    host = a_host_without_counters()
    host.ticks(100)
    host.run("lc", Rates(mips=15000, cpi=1.0, cores=15.0))
    host.ticks(4)
    assert given_cores(host) == pytest.approx(0.08)


def test_once_counters_are_back_it_goes_on_step_by_step() -> None:
    host = a_host_without_counters()
    host.ticks(400)
    host.rule = with_counters
    before = given_cores(host)
    for _ in range(200):
        host.tick()
        assert given_cores(host) <= before + 0.8 + 0.09
        before = given_cores(host)
    assert before > 6.0
    assert figures(host)["ruled_by"] == Ruling.CPI.value


def with_counters(host) -> None:
    for uuid in host.guests:
        host.counts[uuid] = host.counts[uuid]._replace(running_ratio=1.0)


def test_latency_goes_one_of_50_levels_up_every_18_and_a_half_seconds() -> None:
    assert watched(Loop.LATENCY, 18).level == 0
    up = watched(Loop.LATENCY, 37)
    assert (up.level, up.cores) == (2, 2.0)


def test_latency_at_the_target_goes_to_the_least() -> None:
    up = watched(Loop.LATENCY, 37)
    assert watched(Loop.LATENCY, 19, up, 37, latency_ms=10.0).cores == 0.0
    assert watched(Loop.LATENCY, 19, up, 37, latency_ms=9.99).level == 3


def test_latency_goes_up_from_what_a_retreat_left() -> None:
    left = a_watch(Loop.LATENCY)._replace(level=10, cores=2.5)
    assert watched(Loop.LATENCY, 19, left).level == 3


def test_latency_stops_at_level_48() -> None:
    top = watched(Loop.LATENCY, 1100)
    assert (top.level, top.cores) == (48, 48.0)


@pytest.mark.parametrize(("loop", "suspend", "enable", "cool_down_s", "step"), BOTH_HYBRIDS)
class TestHybrids:
    def test_it_looks_every_15_seconds(self, loop, suspend, enable, cool_down_s, step) -> None:
        assert not watched(loop, 14).is_enabled
        assert watched(loop, 15).is_enabled

    def test_it_begins_at_the_minimum(self, loop, suspend, enable, cool_down_s, step) -> None:
        """4.3: it sets the quota to 1000 when it is started. Nobody is suspended before a look."""
        for seconds in (1, 14):
            watch = watched(loop, seconds)
            assert (watch.is_suspended, watch.cores) == (False, 0.0)

    def test_who_comes_while_it_cools_down_waits_for_the_end(
        self, loop, suspend, enable, cool_down_s, step
    ) -> None:
        missed = watched(loop, 15, latency_ms=10.1)
        anew = begun(missed, loop, 15.0)
        assert watched(loop, 1, anew, 15).is_suspended
        assert watched(loop, int(cool_down_s) - 1, anew, 15).is_suspended

    def test_it_enables_below_a_load(self, loop, suspend, enable, cool_down_s, step) -> None:
        assert watched(loop, 15, load_ratio=enable).is_suspended
        assert not watched(loop, 15, load_ratio=enable - 0.01).is_suspended

    def test_it_suspends_above_a_load(self, loop, suspend, enable, cool_down_s, step) -> None:
        on = watched(loop, 15)
        assert watched(loop, 15, on, 15, load_ratio=suspend + 0.01).is_suspended
        assert not watched(loop, 15, on, 15, load_ratio=suspend).is_suspended

    def test_it_grows_every_2_seconds(self, loop, suspend, enable, cool_down_s, step) -> None:
        on = watched(loop, 15)
        grown = watched(loop, 3, on, 15)
        assert grown.cores == on.cores + 2 * step

    def test_it_holds_below_a_tenth_of_slack(
        self, loop, suspend, enable, cool_down_s, step
    ) -> None:
        on = watched(loop, 29)
        held = watched(loop, 1, on, 29, latency_ms=9.1)
        assert watched(loop, 14, held, 30, latency_ms=9.1).cores == held.cores > 0.0
        assert not held.is_suspended

    def test_a_missed_target_suspends_and_cools_down(
        self, loop, suspend, enable, cool_down_s, step
    ) -> None:
        missed = watched(loop, 15, watched(loop, 30), 30, latency_ms=10.1)
        assert missed.is_suspended
        waiting = watched(loop, int(cool_down_s) - 1, missed, 45)
        assert waiting.is_suspended
        on = watched(loop, 15, waiting, 44 + int(cool_down_s))
        assert not on.is_suspended

    def test_who_is_enabled_again_begins_at_the_least(
        self, loop, suspend, enable, cool_down_s, step
    ) -> None:
        high = watched(loop, 15, watched(loop, 30), 30, load_ratio=1.0)
        again = watched(loop, 15, high, 45)
        assert again.cores <= step

    def test_without_a_load_it_enables_nobody(
        self, loop, suspend, enable, cool_down_s, step
    ) -> None:
        assert watched(loop, 30, load_ratio=None).is_suspended

    def test_it_stops_at_all_cpus(self, loop, suspend, enable, cool_down_s, step) -> None:
        assert watched(loop, 200).cores == 50.0


def test_hybrid_grows_by_one_cpu_and_tuned_by_a_fiftieth_of_all() -> None:
    for loop, step in ((Loop.HYBRID, 1.0), (Loop.HYBRID_TUNED, 2.0)):
        on = watched(loop, 15, a_watch(loop), machine_cpus=100)
        grown = watched(loop, 2, on, 15, machine_cpus=100)
        assert grown.cores - on.cores == step


def test_a_suspended_server_that_may_be_keeps_a_thousandth_of_a_cpu() -> None:
    host = a_host("hybrid")
    critical(host)
    best_effort(host, may_suspend=True)
    best_effort(host, "mild")
    run(host, 10, latency_ms=5.0, load_ratio=0.9)
    assert host.guest("be").quota == Quota(1000, 100_000)
    run(host, 7, latency_ms=5.0, load_ratio=0.9)
    assert host.guest("be").quota == Quota(1000, 1_000_000)
    assert host.guest("mild").quota == Quota(1000, 100_000)


def test_a_level_is_shared_by_all_vcpus() -> None:
    host = a_host("latency")
    critical(host)
    best_effort(host)
    run(host, 39, latency_ms=5.0)
    assert given_cores(host) == pytest.approx(2.0, abs=0.08)


def test_a_model_of_cpi_is_taken_from_the_options_or_the_profile() -> None:
    listed = f"{uuid_of('other')}=9/9, {uuid_of('lc')}=1.25/12.5"
    for models, expected in ((listed, CpiModel(1.25, 12.5)), ("", CpiModel(1.1, 16.0))):
        host = a_host("cpi", cpi_models=models)
        critical(host)
        best_effort(host)
        host.ticks(20)
        assert model_of(host, models) == pytest.approx(expected)


@pytest.mark.parametrize(
    "part", ["=1.2x/4", "=1.2", "=1.2/4/2", "=nan/4", "=1.2/inf", "=-1/4", "=1.2/0", "/1.2=4", ""]
)
def test_a_model_of_cpi_that_cannot_be_is_refused(part) -> None:
    text = f"{uuid_of('lc')}{part}"
    with pytest.raises(ValueError, match=r"is not UUID=threshold/cores .* above 0"):
        cpi_models_of(text)
    with pytest.raises(ValueError, match="'soup=1/1' is not UUID"):
        cpi_models_of("soup=1/1")


def model_of(host, models):
    from nova_vp.core.controllers.base import View
    from nova_vp.core.controllers.latency.declaration import LatencySettings
    from nova_vp.core.controllers.latency.seen import OwnCores, cpi_model_of
    from nova_vp.core.model.host import build_host

    picture = host.picture()
    built = build_host(picture, host.state.vps, host.state.undisturbed)
    view = View(built, (), picture, host.state, host.policy)
    return cpi_model_of(view, OwnCores(view), host.guest("lc"), LatencySettings(cpi_models=models))


def test_reports_that_cannot_be_are_no_reports() -> None:
    for latency_ms, load in ((float("nan"), 0.5), (-1.0, 0.5), (5.0, float("inf"))):
        host = a_host("latency")
        critical(host)
        best_effort(host)
        run(host, 1, latency_ms=5.0)
        report(host, latency_ms, load)
        host.tick()
        assert figures(host)["ruled_by"] == Ruling.CPI.value


def test_the_threshold_is_learned_from_intervals_as_the_loop_has_them() -> None:
    assert (learn_cpi.CPI_S, learn_cpi.CPU_S) == (source_loops.MAIN_S, source_loops.SUB_S)
