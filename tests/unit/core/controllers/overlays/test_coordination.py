# SPDX-License-Identifier: Apache-2.0
"""Calls in order, too many calls, and what follows refusals in a row."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from nova_vp.core.controllers.overlays.accounts import MOST_HOLD_S, with_call
from nova_vp.core.controllers.overlays.declaration import CONCEDE, Account
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.knob import CpuWeight, Knob, MemorySize
from nova_vp.core.types.overlay import Nack, Verb
from nova_vp.core.types.policy import Enabled, Mode
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.service_level import ServiceClass
from tests.unit.core.build import Host, Rates, uuid_of
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    HIGH,
    KNOBS,
    LOW,
    MIB,
    NS,
    ROUND_ROBIN,
    UP,
    a_call,
    a_host,
    answer,
    answers,
    borrow,
    overlay,
    release,
    resize,
    server,
    trigger,
    tune,
    two_shops,
    wait_for_cpu,
    weight,
)
from tests.unit.core.wishful import Wishful


def contenders(host: Host, **fields: object) -> None:
    """Two more overlays of the server `web`: who is first has it."""
    for name in ("first", "second"):
        overlay(host, name, "web", **fields)


def both(host: Host) -> list[Nack | None]:
    """The calls of `second` come before those of `first`."""
    calls = [a_call(Verb.TUNE, of, "web") for of in ("second", "first")]
    return answer(host, *calls)


def test_calls_that_arrive_together_are_answered_by_falling_priority() -> None:
    host = two_shops()
    contenders(host)
    overlay(host, "first", "web", priority=2.0)
    assert both(host) == [Nack.OUTRANKED, None]


def test_calls_of_one_priority_are_answered_as_they_came() -> None:
    host = two_shops()
    contenders(host)
    assert both(host) == [None, Nack.OUTRANKED]


def test_round_robin_serves_who_was_served_longest_ago() -> None:
    host = two_shops()
    contenders(host, arbitration=ROUND_ROBIN)
    served = []
    for _ in range(4):
        served.append(both(host))
        for of in ("first", "second"):
            release(host, of=of)
        host.ticks(6)
    assert served == [[None, Nack.OUTRANKED], [Nack.OUTRANKED, None]] * 2


def test_round_robin_comes_after_priorities() -> None:
    host = two_shops()
    contenders(host, arbitration=ROUND_ROBIN)
    overlay(host, "first", "web")
    assert both(host) == [Nack.OUTRANKED, None]


def test_what_is_given_back_comes_first() -> None:
    host = two_shops()
    contenders(host)
    tune(host, of="second")
    calls = [a_call(Verb.TUNE, "first", "web"), a_call(Verb.RELEASE, "second", "web")]
    assert answer(host, *calls) == [None, None]
    unknown = [a_call(Verb.TUNE, "nobody", "web"), a_call(Verb.TUNE, "first", "web")]
    assert answer(host, *unknown) == [Nack.UNKNOWN_OVERLAY, None]


def flood(host: Host, calls: int = 99) -> float:
    """For how long its calls are refused then, as the last answer says."""
    told = answers(host, *[a_call(Verb.TUNE, server="db", direction=DOWN) for _ in range(calls)])
    account = host.state.controllers["overlays"].accounts["shop"]
    assert told[-1].held_off_s == account.held_off_until_s - host.now_s
    return round(told[-1].held_off_s, 3)


def test_too_many_calls_are_refused_for_longer_each_time() -> None:
    host = two_shops(calls_per_s=2.0)
    found = answer(host, *[a_call(Verb.TUNE, server="web") for _ in range(10)])
    assert found == [None] * 4 + [Nack.TOO_MANY_CALLS] * 6
    host.now_s += 0.09
    assert tune(host) is Nack.TOO_MANY_CALLS
    holds = []
    for _ in range(9):
        host.now_s += holds[-1] if holds else 0.1
        holds.append(flood(host))
    assert holds == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, MOST_HOLD_S, MOST_HOLD_S, MOST_HOLD_S]
    host.now_s += 2 * MOST_HOLD_S + 0.1
    assert flood(host) == 0.1, "it was quiet for long"


def test_who_floods_does_not_keep_others_from_calling_nor_from_giving_back() -> None:
    host = two_shops(calls_per_s=1.0)
    answer(host, *[a_call(Verb.TUNE, server="web") for _ in range(200)])
    assert trigger(host, "mill", of="mills") is None
    assert release(host) is None
    assert weight(host, "web") == 100


STARVED = 5


def starve(
    host: Host, times: int = STARVED, server: str = "web", call: Callable[..., Any] = tune
) -> list[Nack | None]:
    """A call every quarter of a second."""
    found = []
    for _ in range(times):
        found.append(call(host, server))
        host.now_s += 0.25
    return found


def a_full_host(**fields: object) -> Host:
    """No weight can be added to: `alone` is at its floor."""
    host = two_shops()
    host.change("alone", cap_floor_ratio=0.9)
    host.change("mill", **fields)
    host.run("mill", Rates(mips=50, cores=1.0))
    host.ticks(2)
    return host


def limited(host: Host, *names: str) -> dict[str, float]:
    names = names or ("web", "db", "mill", "alone")
    return {name: host.cap_ratio(name) for name in names if host.cap_ratio(name) < 1.0}


def test_five_refusals_in_a_row_limit_who_loses_least() -> None:
    host = a_full_host()
    assert starve(host, 4) == [Nack.NO_ROOM] * 4
    assert limited(host) == {}
    decision = host.answer(a_call(Verb.TUNE, server="web"))
    assert [one.nack for one in decision.answers] == [Nack.NO_ROOM]
    [action] = decision.actions
    assert (action.reason, action.on_behalf_of) == (CONCEDE, uuid_of("web"))
    assert limited(host) == {"mill": pytest.approx(0.4)}
    host.now_s += 0.25
    starve(host)
    assert limited(host) == {"mill": pytest.approx(0.3)}


def test_refusals_at_once_are_one() -> None:
    host = a_full_host()
    assert [tune(host) for _ in range(4 * STARVED)] == [Nack.NO_ROOM] * 4 * STARVED
    assert limited(host) == {}


def test_who_is_limited_is_limited_no_further_before_it_shows_what_it_brought() -> None:
    host = a_full_host()
    starve(host)
    for _ in range(3 * STARVED):
        host.now_s += 0.04
        assert tune(host) is Nack.NO_ROOM
    assert limited(host) == {"mill": pytest.approx(0.4)}


def in_two_islands() -> Host:
    """`web` can have no more, `other` can."""
    host = a_full_host()
    server(host, "other", HIGH)
    overlay(host, "shop", "web", "db", "other")
    host.ticks(2)
    return host


def test_each_island_counts_its_own_refusals() -> None:
    host = in_two_islands()
    for _ in range(STARVED):
        starve(host, 1)
        assert tune(host, "other") is None
        assert release(host, "other") is None
    assert limited(host) == {"mill": pytest.approx(0.4)}, "what another island grants helps none"


def test_what_is_refused_in_the_end_ends_no_row_of_refusals() -> None:
    host = a_full_host()
    starve(host, 4)
    host.change("web", mode=Mode.OBSERVE, cap_floor_ratio=0.1)
    tune(host, way=DOWN)
    host.change("alone", cap_floor_ratio=0.1)
    assert tune(host) is Nack.MODE
    host.change("alone", cap_floor_ratio=0.9)
    host.change("web", mode=None)
    starve(host, 1)
    assert limited(host, "mill") == {"mill": pytest.approx(0.4)}


def test_nobody_is_limited_for_who_has_as_much_as_it_may() -> None:
    host = two_shops()
    assert starve(host, 8) == [None] * 8
    assert starve(host) == [Nack.NO_ROOM] * STARVED, "the most"
    assert limited(host) == {}


def test_nobody_is_limited_for_who_does_not_wait_for_cpu() -> None:
    host = a_full_host()
    for _ in range(3):
        wait_for_cpu(host, "web", 0.0, 0.01)
        host.tick()
    starve(host)
    assert limited(host) == {}
    for _ in range(3):
        wait_for_cpu(host, "web", 0.3)
        host.tick()
    starve(host)
    assert limited(host) != {}


def an_island_that_lends_nothing(**about: object) -> Host:
    """`web` is alone in its island, and wants all of it. `mill` wants three CPUs of four, and a
    lender keeps a tenth."""
    host = a_host()
    server(host, "web", LOW, vcpus=4)
    server(host, "mill", HIGH, **{"vcpus": 4, **about})
    overlay(host, "shop", "web")
    overlay(host, "mills", "mill")
    host.run("web", Rates(mips=50, cores=4.0))
    host.run("mill", Rates(mips=50, cores=3.0))
    host.ticks(2)
    return host


def test_who_does_not_use_what_it_has_lets_nobody_be_limited_for_a_loan() -> None:
    host = an_island_that_lends_nothing()
    host.run("web", Rates(mips=50, cores=1.0))
    host.ticks(2)
    assert starve(host, call=borrow) == [Nack.NO_ROOM] * STARVED
    assert limited(host, "mill") == {}


def test_five_refused_loans_limit_who_keeps_an_island_from_lending() -> None:
    host = an_island_that_lends_nothing()
    assert starve(host, call=borrow) == [Nack.NO_ROOM] * STARVED
    assert limited(host, "mill") == {"mill": pytest.approx(0.6)}, "of four cores: it lacks 0.4 of 3"
    assert borrow(host) is None
    host.ticks(3)
    assert host.guest("mill").placement == HIGH - host.guest("web").placement, "it stays lent"
    host.pass_time(301.0)
    host.ticks(2)
    assert limited(host, "mill") == {}
    assert host.guest("mill").placement == HIGH


@pytest.mark.parametrize("about", [{"project_id": "p2"}, {"cap_floor_ratio": 0.7}])
def test_who_may_not_be_limited_so_far_lends_nothing_either(about: dict[str, object]) -> None:
    host = an_island_that_lends_nothing(**about)
    assert starve(host, call=borrow) == [Nack.NO_ROOM] * STARVED
    assert limited(host, "mill") == {}
    found = []
    for _ in range(8):
        assert borrow(host) is Nack.NO_ROOM
        found += [one for decision in host.ticks(10) for one in decision.escalations]
    assert {one.victim_uuid for one in found} == {uuid_of("web")}, "the cluster is asked"


def test_a_limit_helps_no_loan_that_something_else_keeps_from() -> None:
    host = an_island_that_lends_nothing()
    server(host, "bank", HIGH, vcpus=1, service_class=ServiceClass.LATENCY_CRITICAL)
    host.run("bank", Rates(mips=1, cores=0.01))
    host.ticks(2)
    assert starve(host, call=borrow) == [Nack.NO_ROOM] * STARVED
    assert limited(host, "mill") == {}, "no CPU is lent on which a latency-critical server may run"


def test_a_limit_that_was_conceded_ends_with_its_lease() -> None:
    host = a_full_host()
    starve(host)
    host.ticks(290)
    assert limited(host) == {"mill": pytest.approx(0.4)}
    host.ticks(20)
    assert limited(host) == {}
    assert host.applied == {}


def test_a_limit_that_was_conceded_ends_with_the_overlay_that_needed_it() -> None:
    host = a_full_host()
    starve(host)
    del host.overlays["shop"]
    host.tick()
    assert limited(host) == {}


@pytest.mark.parametrize("gone", ["server", "member"])
def test_a_limit_that_was_conceded_ends_with_the_server_that_needed_it(gone: str) -> None:
    host = a_full_host()
    starve(host)
    if gone == "server":
        host.leave("web")
    else:
        overlay(host, "shop", "db")
    host.tick()
    assert limited(host, "mill") == {}
    assert host.applied == {}


def test_a_limit_that_was_conceded_ends_at_once_with_the_release_of_who_needed_it() -> None:
    host = a_full_host()
    starve(host)
    assert release(host, "db") is Nack.NOTHING_TO_RELEASE, "it was for another one"
    assert limited(host) == {"mill": pytest.approx(0.4)}
    assert release(host, "web") is None
    assert limited(host) == {}


def test_a_grant_between_refusals_begins_the_count_anew() -> None:
    host = a_full_host()
    starve(host, 4)
    assert tune(host, "web", DOWN) is None
    host.ticks(6)
    tune(host, "web", UP)
    starve(host, 4)
    assert limited(host) == {}


def test_a_server_that_is_lowered_between_refusals_leaves_the_count() -> None:
    """As monitors do it: one server up, another one down."""
    host = a_full_host()
    for _ in range(STARVED):
        assert limited(host, "mill") == {}
        assert starve(host, 1) == [Nack.NO_ROOM]
        assert tune(host, "db", DOWN) is None
    assert limited(host, "mill") == {"mill": pytest.approx(0.4)}


def test_refusals_of_long_ago_are_not_in_a_row() -> None:
    host = a_full_host()
    starve(host, 4)
    host.pass_time(61.0)
    starve(host, 4)
    assert limited(host) == {}
    starve(host, 1)
    assert limited(host) == {"mill": pytest.approx(0.4)}


def test_only_who_is_refused_more_cpu_is_in_need() -> None:
    host = a_full_host()
    found = starve(host, call=partial(resize, way=UP))
    assert found == [Nack.NO_ROOM] * STARVED
    host.change("web", cap_floor_ratio=1.0)
    found = starve(host, 6 + STARVED, call=partial(tune, way=DOWN))
    assert found[6:] == [Nack.NO_ROOM] * STARVED, "it has as little as it may have"
    assert limited(host) == {}


def test_who_weighs_less_is_limited_first() -> None:
    """`mill` and `alone` lose alike; `alone` is of an overlay that matters more than `mill`'s."""
    host = a_full_host()
    host.change("alone", cap_floor_ratio=0.1)
    host.change("web", cpu_weight=CpuWeight(10_000))
    overlay(host, "shop", "web", "db", priority=3.0)
    overlay(host, "others", "alone", priority=3.0)
    for name in ("mill", "alone"):
        host.run(name, Rates(mips=50, cores=2.0))
    host.ticks(3)
    starve(host)
    assert limited(host) == {"mill": pytest.approx(0.9)}
    starve(host)
    assert limited(host) == {"mill": pytest.approx(0.8)}


def test_a_server_of_another_project_loses_little_at_most() -> None:
    host = a_full_host(project_id="p2")
    starve(host)
    assert limited(host) == {}, "it uses half of each vCPU: it would lose a fifth of that"
    host.run("mill", Rates(mips=50, cores=1.84))
    host.ticks(12)
    for _ in range(10):
        starve(host)
    assert limited(host) == {"mill": pytest.approx(0.9)}


def test_neither_does_one_of_an_overlay_that_matters_more() -> None:
    host = a_full_host()
    overlay(host, "mills", "mill", priority=2.0)
    starve(host)
    assert limited(host) == {}, "it would lose a fifth"
    overlay(host, "mills", "mill", priority=1.0)
    starve(host)
    assert limited(host) == {"mill": pytest.approx(0.4)}
    overlay(host, "mills", "mill", priority=2.0)
    busy_for(host, 12, throttled=0.2)
    assert limited(host) == {}


def busy_for(host: Host, seconds: int, throttled: float) -> None:
    """`mill` runs for most of each second, and is kept from running for so much of it."""
    for _ in range(seconds):
        before = host.guest("mill").cpu_times or CpuTimes(0, 0, 0, "1")
        denied_ns = before.run_delay_ns + round(throttled * NS)
        host.change("mill", cpu_times=CpuTimes(before.ran_ns + NS, denied_ns, denied_ns, "1"))
        host.tick()


@pytest.mark.parametrize(("project_id", "stands"), [("p2", False), ("p1", True)])
def test_who_is_of_another_project_and_wants_more_later_is_limited_no_more(
    project_id: str, stands: bool
) -> None:
    host = a_full_host(project_id=project_id)
    host.run("mill", Rates(mips=50, cores=1.84))
    host.ticks(12)
    starve(host)
    busy_for(host, 12, throttled=0.02)
    assert limited(host) == {"mill": pytest.approx(0.9)}
    busy_for(host, 12, throttled=0.2)
    assert bool(limited(host)) is stands


@pytest.mark.parametrize(
    "about",
    [
        {"cap_floor_ratio": None},
        {"service_class": ServiceClass.LATENCY_CRITICAL},
        {"refuses_help": True, "cap_floor_ratio": 0.95},
        {"placement": frozenset(HIGH)},
        {"is_running": False},
    ],
)
def test_if_nobody_can_be_limited_the_cluster_is_asked(about: dict[str, object]) -> None:
    host = a_full_host(**about)
    starve(host)
    assert limited(host) == {}
    found = []
    for _ in range(8):
        starve(host, 1)
        found += [one for decision in host.ticks(10) for one in decision.escalations]
    assert {one.victim_uuid for one in found} == {uuid_of("web")}
    assert found[0].rejected[0].rejection is Rejection.NO_FREE_CPU
    assert found[-1].evidence["refused_calls"] > STARVED


def test_a_need_that_is_not_told_any_more_is_over() -> None:
    host = a_full_host(cap_floor_ratio=None)
    starve(host)
    host.ticks(61)
    assert host.state.controllers["overlays"].accounts["shop"].unmet_since_s is None
    assert host.tick().escalations == ()


def test_without_caps_nobody_is_limited() -> None:
    host = a_full_host()
    host.knobs = KNOBS - {Knob.CPU_CAP}
    assert starve(host) == [Nack.NO_ROOM] * STARVED
    assert limited(host) == {}
    account = host.state.controllers["overlays"].accounts["shop"]
    assert account.unmet_uuid == uuid_of("web"), "the cluster is asked"


def test_who_is_limited_for_another_may_be_tuned_by_its_own() -> None:
    host = a_full_host()
    starve(host)
    assert tune(host, "mill", DOWN, of="mills") is None
    assert limited(host) == {"mill": pytest.approx(0.3)}


def test_what_another_controller_sets_is_refused() -> None:
    first = Wishful("first", 200)
    host = two_shops()
    host.policy = replace(
        host.policy, controllers=(Enabled(first, first.settings()), *host.policy.controllers)
    )
    first.wants(
        Setting(uuid_of("web"), Knob.CPU_WEIGHT, CpuWeight(50)),
        Setting(uuid_of("web"), Knob.MEMORY_SIZE, MemorySize(80 * MIB)),
    )
    host.tick()
    assert tune(host) is Nack.OUTRANKED
    assert trigger(host, "web") is Nack.OUTRANKED
    assert resize(host, "web", DOWN) is Nack.OUTRANKED
    assert weight(host, "web") == 50


def counts(host: Host) -> tuple[int, int]:
    """Calls of `shop`, granted and refused."""
    [view] = [one for one in host.tick().overlays if one.overlay_id == "shop"]
    return view.granted, view.refused


def test_a_call_counts_as_it_is_answered_in_the_end() -> None:
    host = two_shops()
    assert [tune(host), tune(host, "mill")] == [None, Nack.NOT_A_MEMBER]
    assert counts(host) == (1, 1)
    host.mode = Mode.ADVISE
    assert [tune(host), trigger(host, "db")] == [Nack.MODE] * 2
    assert counts(host) == (1, 3)


def test_calls_that_are_held_off_count_as_refused() -> None:
    host = two_shops(calls_per_s=2.0)
    answer(host, *[a_call(Verb.TUNE, server="web") for _ in range(10)])
    assert counts(host) == (4, 6)


def test_who_calls_too_often_for_hours_is_held_off_no_longer() -> None:
    account = Account(credit_s=1.0, calls=0.0, at_s=100.0, rejected=5000, held_off_until_s=99.0)
    held, is_considered = with_call(account)
    assert (held.held_off_until_s, is_considered) == (100.0 + MOST_HOLD_S, False)
