# SPDX-License-Identifier: Apache-2.0
"""`adaptive`: it learns how latency answers, stays below a ceiling, provides for moves of load."""

import math
from random import Random

import pytest

from nova_vp.core.controllers.latency import adaptive as rules
from nova_vp.core.controllers.latency.adaptive import adaptive
from nova_vp.core.controllers.latency.declaration import NOTHING_LEARNED, Loop, Watch
from nova_vp.core.controllers.latency.response import (
    LEAST_NOISE,
    LEAST_PER_CORE,
    LEAST_PER_LOAD,
    WORST_RATIO,
    learned,
    tangent_of,
)
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.knob import Knob, LlcShare, MembwShare
from nova_vp.core.types.service_level import LatencyReport
from tests.unit.core.build import Host, Rates, uuid_of
from tests.unit.core.controllers.latency.hosts import (
    KNOBS,
    TARGET_MS,
    a_host,
    a_seen,
    a_watch,
    best_effort,
    critical,
    given_cores,
    run,
    without_counters,
)

PER_LOAD, PER_CORE = 4.0, 0.3


def answer(load_ratio: float, cores: float) -> float:
    """What the latency of these tests does: ms."""
    return TARGET_MS * math.exp(-3.5 + PER_LOAD * load_ratio + PER_CORE * cores)


def acted(
    seconds: int, load_ratio: float = 0.5, watch: Watch | None = None, from_s: int = 0, most=8.0
) -> Watch:
    """In closed loop: best-effort servers use all that they get."""
    watch = a_watch(Loop.ADAPTIVE) if watch is None else watch
    for second in range(from_s + 1, from_s + seconds + 1):
        used = min(watch.cores, most)
        seen = a_seen(
            float(second),
            answer(load_ratio, used),
            load_ratio,
            best_effort_cores=used,
            most_cores=most,
        )
        watch = adaptive(watch, seen)
    return watch


def test_slopes_are_learned() -> None:
    random, response = Random(1), NOTHING_LEARNED
    for _ in range(300):
        load, cores = random.uniform(0.3, 0.7), random.uniform(0.0, 2.0)
        response = learned(response, load, cores, answer(load, cores) / TARGET_MS)
    tangent = tangent_of(response, 0.5, 1.0, math.log(answer(0.5, 1.0) / TARGET_MS))
    assert tangent.per_load == pytest.approx(PER_LOAD, rel=0.1)
    assert tangent.per_core == pytest.approx(PER_CORE, rel=0.1)
    at = tangent.cores_for(-0.2, 0.5)
    assert tangent.base + 0.5 * tangent.per_load + at * tangent.per_core == pytest.approx(-0.2)


def test_slopes_are_those_of_the_present_point() -> None:
    """Latency bends upwards: where it is steep, the slope is too."""
    response, slopes = NOTHING_LEARNED, []
    for number in range(200):
        cores = 0.03 * number
        response = learned(response, 0.5, cores, 0.05 + 0.2 / (6.5 - cores))
        slopes.append(response.per_core)
    assert slopes[120] < 0.15
    assert slopes[-1] > 3 * slopes[120]


def test_what_does_not_move_is_not_forgotten() -> None:
    response = NOTHING_LEARNED
    for number in range(400):
        load, cores = 0.5 + 0.1 * (number % 3), number % 2
        response = learned(response, load, cores, answer(load, cores) / TARGET_MS)
    before = response
    for _ in range(2000):
        response = learned(response, 0.5, 1.0, answer(0.5, 1.0) / TARGET_MS)
    assert response.per_load == pytest.approx(before.per_load, rel=0.05)
    assert response.per_core == pytest.approx(before.per_core, rel=0.05)


def test_nothing_is_less_sure_than_before_the_first_sample() -> None:
    response = NOTHING_LEARNED
    for _ in range(5000):
        response = learned(response, 0.5, 1.0, 0.5)
    assert response.load_variance <= 9.0
    assert response.core_variance <= 0.04


def test_a_backlog_says_no_more_than_that_the_target_is_missed() -> None:
    response = NOTHING_LEARNED
    for _ in range(50):
        response = learned(response, 0.5, 4.0, 500.0)
    assert response.answer <= math.log(WORST_RATIO)


def test_nothing_is_taken_to_cost_nothing() -> None:
    response = NOTHING_LEARNED
    for cores in (0.0, 4.0, 8.0) * 60:
        response = learned(response, 0.5 - 0.02 * cores, cores, 0.5)
    for cores in (0.0, 4.0, 8.0) * 60:
        response = learned(response, 0.5, cores, 0.5 - 0.02 * cores)
    assert response.per_core == LEAST_PER_CORE
    assert response.per_load >= LEAST_PER_LOAD


def test_before_the_first_sample_the_present_answer_is_all() -> None:
    tangent = tangent_of(NOTHING_LEARNED, 0.5, 2.0, math.log(0.5))
    assert tangent.cores_for(math.log(0.5), 0.5) == pytest.approx(2.0)


def test_a_sample_that_is_low_by_chance_does_not_lower_what_is_expected() -> None:
    response = NOTHING_LEARNED
    for _ in range(50):
        response = learned(response, 0.5, 4.0, 0.8)
    low, high = (tangent_of(response, 0.5, 4.0, math.log(one)) for one in (0.6, 0.95))
    assert low.cores_for(math.log(0.8), 0.5) == pytest.approx(4.0)
    assert high.cores_for(math.log(0.95), 0.5) == pytest.approx(4.0)


def test_how_much_latency_varies_is_seen() -> None:
    random, response = Random(1), NOTHING_LEARNED
    for _ in range(400):
        response = learned(response, 0.5, 1.0, 0.4 * math.exp(random.gauss(0.0, 0.2)))
    assert response.noise == pytest.approx(0.2, rel=0.3)
    for _ in range(400):
        response = learned(response, 0.5, 1.0, 0.4)
    assert response.noise == LEAST_NOISE


def test_a_change_is_not_taken_for_noise() -> None:
    response = NOTHING_LEARNED
    for _ in range(400):
        response = learned(response, 0.5, 1.0, 0.1)
    assert learned(response, 0.5, 1.0, 1.1).noise < 2 * LEAST_NOISE


def test_the_more_latency_varies_the_lower_is_the_ceiling() -> None:
    """All else as in the next test, but a second's p95 is off by a fifth and more."""
    random, watch, missed = Random(1), a_watch(Loop.ADAPTIVE), 0
    for second in range(1, 601):
        latency_ms = answer(0.6, watch.cores) * math.exp(random.gauss(0.0, 0.2))
        missed += second > 60 and latency_ms > TARGET_MS
        seen = a_seen(float(second), latency_ms, 0.6, best_effort_cores=watch.cores, most_cores=8.0)
        watch = adaptive(watch, seen)
    assert missed <= 5
    assert answer(0.6, watch.cores) > 0.4 * TARGET_MS


def test_it_comes_to_the_ceiling_from_below_and_stays_there() -> None:
    watch, worst = a_watch(Loop.ADAPTIVE), 0.0
    for second in range(1, 601):
        watch = acted(1, 0.6, watch, second - 1)
        worst = max(worst, answer(0.6, watch.cores))
    reached = answer(0.6, watch.cores) / TARGET_MS
    assert worst < TARGET_MS
    assert rules.CEILING - 0.1 < reached < rules.CEILING + 0.01


def test_it_acts_every_2_seconds() -> None:
    assert acted(1).cores == 0.0
    one = acted(2)
    assert one.cores > 0.0
    assert acted(1, watch=one, from_s=2).cores == one.cores


def test_no_step_up_is_larger_than_a_sixteenth() -> None:
    watch, steps = a_watch(Loop.ADAPTIVE), []
    for second in range(1, 100):
        seen = a_seen(float(second), 1.0, best_effort_cores=watch.cores)
        after = adaptive(watch, seen)
        steps.append(after.cores - watch.cores)
        watch = after
    assert max(steps) == pytest.approx(8.0 / 16)


def test_a_step_up_is_smaller_where_a_core_costs_much() -> None:
    response = NOTHING_LEARNED
    for cores in (0.0, 0.2, 0.4, 0.6) * 60:
        response = learned(response, 0.5, cores, 0.1 * math.exp(2.0 * cores))
    watch = a_watch(Loop.ADAPTIVE)._replace(response=response, cores=0.4)
    seen = a_seen(2.0, 2.2, best_effort_cores=0.4)
    assert adaptive(watch, seen).cores - 0.4 == pytest.approx(rules.STEP_RISE / 2.0, rel=0.2)


def test_a_rise_of_load_is_answered_before_the_target_is_missed() -> None:
    settled = acted(400, 0.6)
    settled = acted(60, 0.62, settled, 400)
    before = acted(400, 0.6, settled, 460)
    assert answer(0.62, before.cores) < TARGET_MS
    assert acted(2, 0.62, before, 860).cores < before.cores


def test_it_provides_for_a_move_as_large_as_lately() -> None:
    moved = acted(60, 0.63, acted(400, 0.6), 400)
    back = acted(300, 0.6, moved, 460)
    assert back.load_jump == pytest.approx(0.03, abs=0.005)
    provided = acted(60, 0.6, back, 760)
    unprovided = acted(60, 0.6, back._replace(load_jump=0.0), 760)
    assert provided.cores < unprovided.cores - 0.2


def test_a_large_move_is_not_provided_for() -> None:
    moved = acted(60, 0.1, acted(100, 0.6), 100)
    assert 0.04 < moved.load_jump <= 0.05


def test_a_missed_target_halves_what_is_used_and_waits() -> None:
    settled = acted(400, 0.6)
    seen = a_seen(402.0, 10.0, 0.6, best_effort_cores=settled.cores)
    cut = adaptive(settled, seen)
    assert cut.cores == pytest.approx(settled.cores / 2)
    assert acted(8, 0.6, cut, 402).cores == cut.cores
    assert acted(4, 0.6, cut, 410).cores > cut.cores


def test_the_worst_report_since_its_last_look_counts() -> None:
    settled = acted(400, 0.6)
    settled = adaptive(settled, a_seen(401.0, 10.5, 0.6, best_effort_cores=2.0))
    assert settled.worst_ms == 10.5
    assert adaptive(settled, a_seen(402.0, 5.0, 0.6, best_effort_cores=2.0)).cores == 1.0


def test_no_more_is_left_over_than_they_soon_use() -> None:
    watch = a_watch(Loop.ADAPTIVE)
    for second in range(1, 100):
        watch = adaptive(watch, a_seen(float(second), 1.0, best_effort_cores=2.0))
    assert watch.cores == pytest.approx(2.0 + rules.LEFT_OVER * 8.0)


ONE_BUSY = Rates(mips=1000, cpi=1.0, cores=1.0, busy_vcpus=1)


def one_busy_vcpu(host: Host) -> None:
    """The kernel says what the cap of one vCPU denies it; the seven others want nothing."""
    be = host.guest("be")
    wanted_cores = host.rates[be.uuid].cores
    before = be.cpu_times or CpuTimes(0, 0, 0, "1")
    denied_ns = before.throttled_ns + round(max(wanted_cores - be.quota.cores, 0.0) * 1e9)
    host.change("be", cpu_times=CpuTimes(be.cpu_time_ns, denied_ns, denied_ns, "1"))


def test_more_is_left_over_where_vcpus_are_used_unevenly() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    host.rule = one_busy_vcpu
    host.run("be", ONE_BUSY)
    run(host, 60, latency_ms=0.2)
    for _ in range(120):
        run(host, 1, latency_ms=0.2)
        assert host.guest("be").quota.cores > 0.85
    host.run("be", Rates(mips=10, cpi=1.0, cores=0.01, busy_vcpus=1))
    run(host, 600, latency_ms=1.0)
    assert given_cores(host) < 1.3


def test_where_the_kernel_says_nothing_counters_tell_the_busy_vcpu() -> None:
    host = a_host(starve_s=100.0)
    critical(host)
    best_effort(host)
    host.run("be", ONE_BUSY)
    run(host, 60, latency_ms=0.2)
    for _ in range(120):
        run(host, 1, latency_ms=0.2)
        assert host.guest("be").quota.cores > 0.75
    assert host.state.controllers["latency"].starved_s == {}


def test_no_more_is_left_over_than_latency_bears_if_it_bends_upwards() -> None:
    """One busy vCPU, and now and then all eight at once."""
    host, missed = a_host(), 0
    critical(host)
    best_effort(host)
    host.rule = one_busy_vcpu
    for second in range(600):
        is_burst = second % 120 >= 100
        busy = Rates(mips=8000, cpi=1.0, cores=8.0) if is_burst else ONE_BUSY
        host.run("be", busy)
        used = given_cores(host) if is_burst else min(1.0, host.guest("be").quota.cores)
        latency_ms = 1 + 3 / (8.2 - used)
        missed += latency_ms > TARGET_MS
        run(host, 1, latency_ms)
    assert missed == 0


def test_a_missed_target_takes_what_more_is_left_over() -> None:
    watch = a_watch(Loop.ADAPTIVE)._replace(cores=8.0, left_over_more=0.8)
    assert adaptive(watch, a_seen(2.0, 10.0, best_effort_cores=8.0)).left_over_more == 0.0


def test_no_more_is_left_over_to_who_uses_all() -> None:
    watch = a_watch(Loop.ADAPTIVE)
    for second in range(1, 100):
        seen = a_seen(float(second), 1.0, best_effort_cores=watch.cores, is_throttled=True)
        watch = adaptive(watch, seen)
    assert watch.left_over_more == 0.0


@pytest.mark.parametrize("age_s", [0.0, 0.5, 1.5, 8.0])
def test_every_report_is_learned_however_long_it_was_under_way(age_s) -> None:
    watch = a_watch(Loop.ADAPTIVE)
    for second in range(1, 5):
        told = LatencyReport(5.0, 0.5, age_s + 0.1 * (second % 2))
        watch = adaptive(watch, a_seen(float(second))._replace(report=told))
    assert watch.response.samples == 4


@pytest.mark.parametrize("age_s", [0.0, 0.5, 1.5, 5.0])
def test_a_report_is_learned_once(age_s) -> None:
    watch = a_watch(Loop.ADAPTIVE)
    for second in range(1, 5):
        told = LatencyReport(5.0, 0.5, age_s + second + 0.1 * (second % 2))
        watch = adaptive(watch, a_seen(float(second))._replace(report=told))
    assert watch.response.samples == 1


def test_without_counters_it_goes_by_the_kernels_times() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    host.rule = without_counters
    run(host, 60, latency_ms=2.0)
    assert given_cores(host) > 7.0


def test_the_kernels_times_say_what_is_used_even_where_counters_are_good() -> None:
    """They are those of the vCPUs, which a cap limits; counters' come with QEMU's threads."""
    host = a_host()
    critical(host)
    best_effort(host)
    host.rule = only_half_ran
    run(host, 60, latency_ms=2.0)
    assert given_cores(host) < 6.0


def only_half_ran(host: Host) -> None:
    for guest in host.guests.values():
        host.change(guest.name, cpu_times=CpuTimes(guest.cpu_time_ns // 2, 0, 0, "1"))


def test_where_nobody_knows_what_is_used_only_a_missed_target_is_answered() -> None:
    watch = before = acted(100, 0.3)
    for second in range(101, 111):
        unknown = a_seen(float(second), 2.0, 0.3, best_effort_cores=None)
        watch = adaptive(watch, unknown)
    assert (watch.cores, watch.response) == (before.cores, before.response)
    missed = adaptive(before, a_seen(102.0, 11.0, 0.3, best_effort_cores=None))
    assert missed.cores == before.cores / 2


def test_an_absurd_load_is_forgotten_soon() -> None:
    host = a_host()
    critical(host)
    best_effort(host)
    run(host, 10, latency_ms=2.0)
    run(host, 10, latency_ms=2.0, load_ratio=1e12)
    response = host.state.controllers["latency"].by_guest[uuid_of("lc")].response
    assert response.load_ratio == 2.0
    run(host, 90, latency_ms=2.0)
    assert given_cores(host) > 7.0


def test_what_was_learned_is_begun_anew_where_it_is_no_number() -> None:
    broken = learned(NOTHING_LEARNED, 0.5, 1.0, 0.5)._replace(per_load=math.inf)
    assert learned(broken, 0.6, 1.0, 0.5) == NOTHING_LEARNED


def test_a_report_without_a_load_leaves_the_load_as_it_was() -> None:
    settled = acted(100, 0.8)
    watch = adaptive(settled, a_seen(101.0, 5.0, None, best_effort_cores=0.0))
    watch = adaptive(watch, a_seen(102.0, 5.0, None, best_effort_cores=0.0))
    assert (watch.response.load_ratio, watch.load_ratio) == (0.8, 0.8)
    assert watch.load_jump <= settled.load_jump


def test_without_a_load_it_goes_by_latency_alone() -> None:
    host = a_host()
    critical(host, max_load=None)
    best_effort(host)
    run(host, 60, latency_ms=2.0, load_ratio=None)
    assert given_cores(host) > 4.0
    run(host, 4, latency_ms=11.0, load_ratio=None)
    assert given_cores(host) < 4.0


def test_cache_and_bandwidth_are_parted_where_the_host_can() -> None:
    host = a_host(knobs=KNOBS | {Knob.LLC, Knob.MEMBW})
    critical(host)
    best_effort(host)
    run(host, 3, latency_ms=2.0)
    assert (host.guest("be").llc, host.guest("be").membw) == (LlcShare(0.25), MembwShare(0.5))
    assert host.guest("lc").llc == LlcShare()


@pytest.mark.parametrize(
    ("loop", "settings"),
    [("hybrid", {}), ("adaptive", {"best_effort_llc_ratio": 1.0, "best_effort_membw_ratio": 1.0})],
)
def test_they_are_not_parted_by_the_sources_loops_or_where_all_is_left(loop, settings) -> None:
    host = a_host(loop, KNOBS | {Knob.LLC, Knob.MEMBW}, **settings)
    critical(host)
    best_effort(host)
    run(host, 3, latency_ms=2.0)
    assert (host.guest("be").llc, host.guest("be").membw) == (LlcShare(), MembwShare())
