# SPDX-License-Identifier: Apache-2.0
"""What raising a server costs others is measured, and bounded."""

import pytest

from nova_vp.core.controllers.overlays.declaration import Pace
from nova_vp.core.controllers.overlays.pace import loss_ratio, renewed, seen_since
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.state import VpState
from tests.policies import a_policy
from tests.unit.core.build import Host, Rates, uuid_of
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    HIGH,
    LOW,
    release,
    server,
    trigger,
    tune,
    two_shops,
    wait_for_cpu,
    weight,
)

OTHERS = ("db", "mill", "alone")


def a_measured_host(**settings: object) -> Host:
    """All wait for a tenth of the CPU time that they want."""
    host = two_shops(**settings)
    for _ in range(12):
        second(host)
    return host


def second(host: Host, **ratios: float) -> None:
    """Those of the shop want two cores, more than their part."""
    for name, cores in (("web", 2.0), ("db", 2.0), ("mill", 1.0), ("alone", 1.0)):
        wait_for_cpu(host, name, ratios.get(name, 0.1), cores)
    host.tick()


def seconds(host: Host, number: int, **ratios: float) -> None:
    for _ in range(number):
        second(host, **ratios)


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
    seconds(host, 12)
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


def test_who_only_got_its_own_part_sooner_harms_nobody() -> None:
    """One of four on four CPUs: a burst of 0.9 cores is its own, however long others wait."""
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    trigger(host, "web")
    for name, ratio, cores in (("web", 0.1, 1.0), ("mill", 0.5, 1.0), ("alone", 0.5, 1.0)):
        wait_for_cpu(host, name, ratio, cores)
    host.tick()
    assert credit_s(host) == pytest.approx(9.0)


def test_who_lives_with_it_is_not_harmed() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    trigger(host, "web")
    second(host, mill=0.13)
    assert credit_s(host) == pytest.approx(9.0)
    host.answer()
    seconds(host, 12)
    assert host.state.controllers["overlays"].harms == {}


def test_servers_of_its_own_overlay_and_on_other_cpus_are_no_others() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    for name in ("mill", "alone"):
        host.change(name, placement=frozenset(HIGH))
    second(host)
    trigger(host, "web")
    # It takes more than half of the four CPUs, which would be its part beside `db`.
    for name, ratio, cores in (("web", 0.1, 4.0), *((one, 0.9, 2.0) for one in OTHERS)):
        wait_for_cpu(host, name, ratio, cores)
    host.tick()
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


def works(host: Host, cpi: float, l2_mpki: float = 1.0) -> None:
    host.run("alone", Rates(mips=100, cpi=cpi, l2_mpki=l2_mpki))


def test_a_weight_that_takes_cycles_from_others_is_lowered_too() -> None:
    """Nobody waits longer: what is raised throws the others out of the cache."""
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    works(host, cpi=1.0)
    seconds(host, 25)
    tune(host)
    works(host, cpi=1.1)
    seconds(host, 2)
    assert weight(host, "web") == 125
    second(host)
    assert weight(host, "web") == 100
    assert credit_s(host) == pytest.approx(5.0)


@pytest.mark.parametrize(("cpi", "l2_mpki"), [(1.015, 1.0), (1.1, 4.0)])
def test_noise_and_other_work_are_no_cycles_that_were_taken(cpi: float, l2_mpki: float) -> None:
    host = a_measured_host(most_harm_ratio=0.01)
    works(host, cpi=1.0)
    seconds(host, 25)
    tune(host)
    works(host, cpi, l2_mpki)
    seconds(host, 5)
    assert weight(host, "web") == 125


@pytest.mark.parametrize(("before", "now"), [(1.0, 0.0), (0.0, 1.0)])
def test_who_ran_no_instruction_lost_no_cycles(before: float, now: float) -> None:
    paces = (Pace("a", 0.1, 1.0, cpi, 0.0) for cpi in (before, now))
    assert loss_ratio(*paces, a_policy()) == 0.0


def test_both_kinds_of_harm_count_together() -> None:
    host = a_measured_host()
    works(host, cpi=1.0)
    seconds(host, 25)
    tune(host)
    works(host, cpi=1.03)
    seconds(host, 3, alone=0.12)
    assert weight(host, "web") == 100, "each is less than 4 %"


def test_cycles_count_where_nobody_measures_waiting() -> None:
    host = two_shops()
    works(host, cpi=1.0)
    host.ticks(25)
    tune(host)
    works(host, cpi=1.1)
    host.ticks(3)
    assert weight(host, "web") == 100


def test_who_is_raised_again_and_again_is_judged_by_what_was_before_the_first_time() -> None:
    """Each time others wait 3 % longer than in the time before."""
    host = a_measured_host(credit_s=100.0, credit_per_s=0.0)
    tune(host)
    seconds(host, 25, alone=0.13)
    release(host)
    seconds(host, 3, alone=0.13)
    tune(host)
    tune(host)
    seconds(host, 3, alone=0.16)
    assert weight(host, "web") == 125, "about 5 % longer than before it all began"


def test_seconds_in_which_nothing_is_raised_renew_what_others_are_compared_with() -> None:
    """It waits longer for another reason."""
    host = a_measured_host()
    tune(host)
    second(host)
    release(host)
    second(host)
    seconds(host, 9, alone=0.16)
    tune(host)
    seconds(host, 3, alone=0.16)
    assert weight(host, "web") == 125


def test_who_waits_less_meanwhile_is_compared_with_that() -> None:
    host = a_measured_host()
    seconds(host, 30, alone=0.3)
    tune(host)
    seconds(host, 60)
    seconds(host, 3, alone=0.2)
    assert weight(host, "web") == 100, "less than when it was raised"


def test_what_was_not_measured_renews_nothing() -> None:
    before = Pace("a", 0.1, 1.0, 1.0, 2.0)
    assert renewed(before, Pace("a", 0.2, 1.0)) == Pace("a", pytest.approx(0.12), 1.0, 1.0, 2.0)
    assert renewed(before, Pace("a", cpi=2.0, l2_mpki=2.0)) == before._replace(
        cpi=pytest.approx(1.2)
    )


def test_waiting_alone_may_be_measured() -> None:
    vp = VpState("a", cpu_sample=CpuUse(5.0, 1, 1.0, 1.0))
    assert seen_since(vp, 4.0) == Pace("a", 0.5, 2.0)
    assert seen_since(vp, 5.0) is None


def test_nobody_is_watched_once_all_others_left() -> None:
    host = a_measured_host()
    trigger(host, "web")
    for name in ("mill", "alone"):
        host.leave(name)
    host.ticks(3)
    assert host.state.controllers["overlays"].harms == {}


def test_who_was_idle_for_a_while_may_wait_as_before() -> None:
    host = a_measured_host()
    tune(host)
    for _ in range(60):
        for name in ("web", "db", "mill"):
            wait_for_cpu(host, name, 0.1)
        wait_for_cpu(host, "alone", 0.0, cores=0.1)
        host.tick()
    seconds(host, 5)
    assert weight(host, "web") == 125


def test_who_comes_later_is_watched_too() -> None:
    host = a_measured_host(credit_s=10.0, credit_per_s=0.0)
    tune(host)
    server(host, "late")
    for ratio in (*[0.1] * 12, *[0.2] * 5):
        wait_for_cpu(host, "late", ratio)
        second(host)
    assert weight(host, "web") == 100
    assert credit_s(host) == pytest.approx(5.0)


def test_who_leaves_the_cpus_of_a_raised_server_is_watched_no_more() -> None:
    host = a_measured_host()
    tune(host)
    second(host)
    host.change("alone", placement=frozenset(HIGH))
    seconds(host, 5, alone=0.9)
    assert weight(host, "web") == 125
