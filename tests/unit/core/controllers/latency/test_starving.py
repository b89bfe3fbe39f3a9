# SPDX-License-Identifier: Apache-2.0
"""How long one project keeps others' best-effort servers below a quarter, by lies, by silence, by
CPU that it burns, or because it needs the host.

All budgets are a two-hundredth of the defaults: a day of theirs is 432 s here.
"""

import math
import re

import pytest

from nova_vp.controller_pages import page_of
from nova_vp.core.controllers.latency.controller import Latency
from nova_vp.core.controllers.latency.declaration import LatencySettings, Ruling
from nova_vp.core.controllers.latency.ruling import BUSY_RATIO, REGAIN
from nova_vp.core.controllers.latency.starving import STARVED_RATIO
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.service_level import LatencyReport
from tests.unit.core.build import Host, Rates, uuid_of
from tests.unit.core.controllers.latency.hosts import (
    a_host,
    best_effort,
    critical,
    figures,
    given_cores,
    report,
    run,
    silent,
)

DAY_S = 432
STARVE_S, STARVE_BUSY_S = 18.0, 432.0
BE_CORES = 8.0
IDLING = Rates(mips=400, cpi=1.0, cores=0.4)
HALF_BUSY = Rates(mips=8000, cpi=1.0, cores=8.2)
ALL_BUSY = Rates(mips=15800, cpi=1.0, cores=15.8)


def a_shared_host(
    rates: Rates, loop: str = "adaptive", starve_s: float = STARVE_S, **fields: object
) -> Host:
    host = a_host(
        loop,
        starve_s=starve_s,
        starve_busy_s=STARVE_BUSY_S,
        report_age_s=2.0,
        hold_s=1.0,
        retreat_s=2.0,
    )
    critical(host, **fields)
    best_effort(host)
    host.run("lc", rates)
    return host


def most_starved_s(span_s: float, spent_per_s: float = 1.0, settings=None) -> float:
    """What a budget allows in any span: it is spent at this rate, and regained at another."""
    starve_s = STARVE_S if settings is None else settings.starve_s
    return (starve_s + REGAIN * span_s) / (spent_per_s + REGAIN)


def busy_ratio(host: Host) -> float | None:
    """As a tick that measured it tells it."""
    report(host, 20.0)
    [told] = [one for one in host.tick().vps if one.guest.uuid == uuid_of("lc")]
    return told.figures["latency"].get("busy_ratio")


def lie(host: Host) -> None:
    report(host, 1e6)


def lie_of_load(host: Host) -> None:
    report(host, 9.9, load_ratio=1e9)


def say_nonsense(host: Host) -> None:
    host.latency_reports[uuid_of("lc")] = LatencyReport(math.nan, -1.0, math.inf)


def say_nothing(host: Host) -> None:
    host.latency_reports.clear()


def fall_silent(host: Host) -> None:
    """Lies at first, then the last report gets older."""
    last = host.latency_reports.get(uuid_of("lc"), LatencyReport(1e6, 1.0, 0.0))
    host.latency_reports[uuid_of("lc")] = last._replace(age_s=last.age_s + 1.0)


def alternate(host: Host) -> None:
    """Silent whenever its lies have spent the budget."""
    is_spent = figures(host).get("ruled_by") == Ruling.STARVED.value
    (say_nothing if is_spent else lie)(host)


def tell_of_a_foreign_server(host: Host) -> None:
    """Should such a report come as far as this."""
    for foreign in (uuid_of("be"), uuid_of("elsewhere")):
        host.latency_reports[foreign] = LatencyReport(1e6, 1e9, 0.0)


ATTACKS = pytest.mark.parametrize(
    "attack",
    [lie, lie_of_load, say_nonsense, say_nothing, fall_silent, alternate, tell_of_a_foreign_server],
)


def starved_s(host: Host, attack, seconds: int) -> int:
    """Of so many seconds, those in which it left the other less than a quarter."""
    count = 0
    for _ in range(seconds):
        attack(host)
        host.tick()
        count += given_cores(host) < STARVED_RATIO * BE_CORES
    return count


@ATTACKS
def test_an_idle_server_starves_others_for_an_hour_then_a_fifth_of_the_time(attack) -> None:
    host = a_shared_host(IDLING)
    at_first_s = starved_s(host, attack, DAY_S)
    assert at_first_s <= most_starved_s(DAY_S) + 1
    later_s = starved_s(host, attack, 2 * DAY_S)
    assert later_s <= 0.2 * 2 * DAY_S + 0.8 * STARVE_S + 1


@ATTACKS
def test_one_that_burns_cpu_starves_them_for_a_day_then_six_sevenths_of_it(attack) -> None:
    host = a_shared_host(ALL_BUSY)
    rate = STARVE_S / STARVE_BUSY_S
    assert starved_s(host, attack, 3 * DAY_S) <= most_starved_s(3 * DAY_S, rate) + 1


def test_the_longest_lie_is_ended_by_the_hour() -> None:
    """The bound is no more than what an attack really gets."""
    host = a_shared_host(IDLING)
    assert starved_s(host, lie, DAY_S) == pytest.approx(most_starved_s(DAY_S), rel=0.1)


def test_an_application_at_its_peak_all_day_stays_protected() -> None:
    host = a_shared_host(Rates(mips=12000, cpi=1.0, cores=12.0))
    assert starved_s(host, lie, DAY_S - 10) == DAY_S - 10
    assert figures(host)["ruled_by"] == Ruling.LATENCY.value
    assert busy_ratio(host) == pytest.approx(12 / 16)


def test_with_a_night_in_each_day_it_stays_so_for_ever() -> None:
    host = a_shared_host(ALL_BUSY)
    for _ in range(4):
        host.run("lc", ALL_BUSY)
        run(host, int(0.8 * DAY_S), latency_ms=20.0)
        assert figures(host)["ruled_by"] == Ruling.LATENCY.value
        host.run("lc", IDLING)
        run(host, int(0.2 * DAY_S), latency_ms=1.0)


@pytest.mark.parametrize(("rates", "expected"), [(HALF_BUSY, True), (IDLING, False)])
def test_half_of_the_cpu_that_it_has_is_busy(rates, expected) -> None:
    host = a_shared_host(rates)
    run(host, int(2 * STARVE_S), latency_ms=20.0)
    assert (figures(host)["ruled_by"] == Ruling.LATENCY.value) is expected


def test_most_cpu_is_what_was_learned_of_it() -> None:
    """Of one that has one busy thread on 16 vCPUs."""
    host = a_host(
        starve_s=STARVE_S, starve_busy_s=STARVE_BUSY_S, cpi_models=f"{uuid_of('lc')}=1.2/1.1"
    )
    critical(host)
    best_effort(host)
    host.run("lc", Rates(mips=1000, cpi=1.0, cores=1.0))
    run(host, int(2 * STARVE_S), latency_ms=20.0)
    assert figures(host)["ruled_by"] == Ruling.LATENCY.value
    assert busy_ratio(host) == pytest.approx(1.0 / 1.1)


def test_what_it_waits_for_counts_and_what_throttles_it_does_not() -> None:
    host = a_shared_host(IDLING)
    for second in range(1, 7):
        run(host, 1, latency_ms=20.0)
        ns = second * 10**9
        host.change("lc", cpu_times=CpuTimes(4 * ns, 7 * ns, 2 * ns, "1"))
    assert busy_ratio(host) == pytest.approx(9 / 16)


def test_who_cannot_be_measured_is_not_taken_for_busy() -> None:
    host = a_shared_host(ALL_BUSY)
    for second in range(int(2 * STARVE_S)):
        counts = host.counts[uuid_of("lc")]
        host.counts[uuid_of("lc")] = counts._replace(generation=f"{second}")
        run(host, 1, latency_ms=20.0)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value
    host.counts[uuid_of("lc")] = host.counts[uuid_of("lc")]._replace(generation="last")
    assert busy_ratio(host) is None


def test_an_idle_server_is_not_excused_by_a_busy_one_of_its_project() -> None:
    host = a_shared_host(IDLING)
    critical(host, "lc2")
    host.run("lc2", ALL_BUSY)
    for _ in range(int(STARVE_S) + 5):
        report(host, 20.0, name="lc2")
        run(host, 1, latency_ms=20.0)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value


def test_a_budget_for_busy_servers_below_the_other_is_the_other() -> None:
    host = a_host(starve_s=60.0, starve_busy_s=10.0)
    critical(host)
    best_effort(host)
    host.run("lc", ALL_BUSY)
    run(host, 50, latency_ms=20.0)
    assert figures(host)["ruled_by"] == Ruling.LATENCY.value


def test_silence_and_a_busy_server_together_end_as_well() -> None:
    host = a_shared_host(ALL_BUSY)
    run(host, 5, latency_ms=20.0)
    silent(host, DAY_S + 30)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value


@pytest.mark.parametrize("whose", ["the host's", "the server's own"])
def test_where_the_mode_limits_nobody_nothing_is_spent(whose) -> None:
    host = a_shared_host(IDLING)
    if whose == "the host's":
        host.mode = Mode.ADVISE
    else:
        host.change("be", mode=Mode.ADVISE)
    run(host, int(2 * STARVE_S), latency_ms=20.0)
    assert host.state.controllers["latency"].starved_s == {}


def told_by_the_kernel(host: Host, denied_cores: float = 0.0) -> None:
    """What `be` ran, and what its cap denied it."""
    before = host.guest("be").cpu_times or CpuTimes(0, 0, 0, "1")
    denied_ns = before.throttled_ns + round(denied_cores * 1e9)
    ran_ns = host.guest("be").cpu_time_ns
    host.change("be", cpu_times=CpuTimes(ran_ns, denied_ns, denied_ns, "1"))


@pytest.mark.parametrize("is_told", [False, True])
def test_whoever_uses_little_of_what_is_left_to_it_is_not_starved(is_told) -> None:
    host = a_shared_host(IDLING, starve_s=100.0)
    host.run("be", Rates(mips=100, cpi=1.0, cores=0.5 if is_told else 0.05))
    for _ in range(DAY_S):
        if is_told:
            told_by_the_kernel(host)
        run(host, 1, latency_ms=1.0)
    assert given_cores(host) < STARVED_RATIO * BE_CORES
    assert host.state.controllers["latency"].starved_s == {}


def test_whom_its_cap_denies_cpu_is_starved_however_little_it_uses() -> None:
    host = a_shared_host(IDLING)
    host.run("be", Rates(mips=100, cpi=1.0, cores=0.02))
    for _ in range(int(STARVE_S) + 10):
        told_by_the_kernel(host, denied_cores=0.01)
        run(host, 1, latency_ms=20.0)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value


def test_one_busy_vcpu_is_starved_where_only_counters_tell_it() -> None:
    host = a_shared_host(IDLING)
    host.run("be", Rates(mips=1000, cpi=1.0, cores=1.0, busy_vcpus=1))
    run(host, int(STARVE_S) + 10, latency_ms=20.0)
    assert figures(host)["ruled_by"] == Ruling.STARVED.value


@pytest.mark.parametrize("attack", [None, lie])
def test_where_only_the_sum_is_known_who_uses_little_of_it_is_not_starved(attack) -> None:
    """One of eight vCPUs is busy, and nobody tells them apart."""
    host = a_shared_host(IDLING)
    host.counts[uuid_of("be")] = host.counts[uuid_of("be")]._replace(vcpu_cycles=())
    host.run("be", Rates(mips=1000, cpi=1.0, cores=1.0, busy_vcpus=1))
    for _ in range(2 * DAY_S):
        report(host, 1.0)
        if attack:
            attack(host)
        host.tick()
    assert host.state.controllers["latency"].starved_s == {}


def test_many_servers_are_starved_below_a_quarter_of_their_part_of_the_cpus() -> None:
    """64 vCPUs on 25 CPUs, and latency allows them about 12."""
    host = a_shared_host(IDLING, starve_s=100.0)
    names = ["be", *(f"be{number}" for number in range(2, 5))]
    for name in names:
        best_effort(host, name, vcpus=16)
    for _ in range(DAY_S):
        used = min(sum(given_cores(host, name) for name in names), 21.0)
        for name in names:
            host.run(name, Rates(mips=5000, cpi=1.0, cores=used / 4))
        run(host, 1, latency_ms=10 * math.exp(0.24 * used - 3))
    assert 10.0 < used < 14.0
    assert host.state.controllers["latency"].starved_s == {}


def test_the_page_says_the_bounds_that_the_defaults_give() -> None:
    page, settings = page_of(Latency()), LatencySettings()
    day_s = 86_400.0
    rate = settings.starve_s / settings.starve_busy_s
    told = {
        "idle": (most_starved_s(day_s, 1.0, settings) / 3600, REGAIN / (1 + REGAIN)),
        "busy": (most_starved_s(day_s, rate, settings) / 3600, REGAIN / (rate + REGAIN)),
    }
    for kind, (hours, ratio) in told.items():
        cells = rf"\| {hours:.1f} h \| {100 * ratio:.0f} % \|"
        assert re.search(rf"\| {kind}: .* {cells}", page), cells
    assert (BUSY_RATIO, "half of the most CPU" in page) == (0.5, True)
