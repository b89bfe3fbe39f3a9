# SPDX-License-Identifier: Apache-2.0
"""`tune` of the CPU: who gets more or less, how much, for how long, and who does not."""

import pytest

from nova_vp.core.controllers.overlays.grant import MOST_TURNS
from nova_vp.core.controllers.overlays.standing import QUICK_S
from nova_vp.core.controllers.overlays.tune import LEAST_TIMES, MOST_TIMES
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_CPU_WEIGHT, NO_QUOTA, CpuWeight, Knob
from nova_vp.core.types.overlay import Direction, Nack, Verb
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import RELEASED
from nova_vp.core.types.service_level import ServiceClass
from tests.unit.core.build import Host, uuid_of
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    KNOBS,
    UP,
    a_call,
    a_host,
    answers,
    overlay,
    release,
    server,
    tune,
    two_shops,
    weight,
)


def quiet(host: Host) -> None:
    """Long enough that no change of direction is quick."""
    host.ticks(round(QUICK_S) + 1)


def test_up_raises_the_weight_step_by_step() -> None:
    host = two_shops()
    assert (tune(host), weight(host, "web")) == (None, 125)
    assert (tune(host), weight(host, "web")) == (None, 156)
    assert weight(host, "db") == 100
    host.ticks(3)
    assert weight(host, "web") == 156, "a tick keeps it"


def test_up_ends_at_the_most() -> None:
    host = a_host()
    server(host, "web")
    overlay(host, "shop", "web")
    host.ticks(2)
    given = [tune(host) for _ in range(9)]
    assert given == [None] * 8 + [Nack.NO_ROOM]
    assert weight(host, "web") == round(100 * MOST_TIMES)


def test_down_first_takes_back_the_weight_then_limits_then_lowers_it() -> None:
    host = two_shops()
    tune(host)
    assert (tune(host, way=DOWN), weight(host, "web")) == (None, 100)
    assert host.cap_ratio("web") == 1.0
    quiet(host)
    host.change("web", cap_floor_ratio=0.3)
    assert [tune(host, way=DOWN) for _ in range(7)] == [None] * 7
    assert host.cap_ratio("web") == pytest.approx(0.3), "its floor"
    assert weight(host, "web") == 100
    given = [tune(host, way=DOWN) for _ in range(7)]
    assert given == [None] * 6 + [Nack.NO_ROOM]
    assert weight(host, "web") == round(100 * LEAST_TIMES)


def test_up_first_relaxes_its_own_limit() -> None:
    host = two_shops()
    tune(host, way=DOWN)
    tune(host, way=DOWN)
    assert host.cap_ratio("web") == pytest.approx(0.8)
    quiet(host)
    tune(host)
    assert (host.cap_ratio("web"), weight(host, "web")) == (pytest.approx(0.9), 100)
    tune(host)
    assert (host.guest("web").quota, weight(host, "web")) == (NO_QUOTA, 100)
    assert host.applied == {}
    tune(host)
    assert weight(host, "web") == 125


@pytest.mark.parametrize(
    "about", [{"cap_floor_ratio": None}, {"service_class": ServiceClass.LATENCY_CRITICAL}]
)
def test_who_may_not_be_limited_has_its_weight_lowered(about: dict[str, object]) -> None:
    host = two_shops()
    host.change("web", **about)
    assert tune(host, way=DOWN) is None
    assert (host.cap_ratio("web"), weight(host, "web")) == (1.0, 80)


def test_without_caps_the_weight_is_lowered() -> None:
    host = two_shops(knobs=KNOBS - {Knob.CPU_CAP})
    assert tune(host, way=DOWN) is None
    assert weight(host, "web") == 80


def test_it_ends_with_its_lease_and_what_nova_gave_comes_back_exactly() -> None:
    host = two_shops(tune_lease_s=20.0)
    tune(host)
    tune(host, "db", DOWN)
    before = answers(host, a_call(Verb.TUNE, "mills", "mill"))
    assert [one.lease_s for one in before] == [20.0]
    host.ticks(19)
    assert weight(host, "web") == 125
    host.ticks(2)
    assert [weight(host, name) for name in ("web", "mill")] == [100, 100]
    assert host.guest("db").quota == NO_QUOTA
    assert host.applied == {}
    assert host.state.claims == {}


@pytest.mark.parametrize("way", [UP, DOWN])
def test_a_lease_of_a_second_ends_after_it(way: Direction) -> None:
    host = two_shops()
    assert tune(host, way=way, lease_s=1.0) is None
    assert host.applied.keys() == {uuid_of("web")}
    host.ticks(2)
    assert (weight(host, "web"), host.guest("web").quota) == (100, NO_QUOTA)
    assert host.applied == {}


def test_a_call_may_ask_for_less_time_and_not_for_more() -> None:
    host = two_shops(tune_lease_s=20.0)
    [short] = answers(host, a_call(Verb.TUNE, "shop", "web", lease_s=5.0))
    [long] = answers(host, a_call(Verb.TUNE, "shop", "db", lease_s=500.0))
    assert (short.lease_s, long.lease_s) == (5.0, 20.0)


def test_an_overlay_that_took_its_hands_off_leaves_the_server_to_another() -> None:
    host = two_shops()
    overlay(host, "other", "web")
    tune(host)
    release(host)
    assert tune(host, of="other") is None


def test_release_gives_it_back_at_once() -> None:
    host = two_shops()
    tune(host)
    assert release(host) is None
    assert weight(host, "web") == 100
    assert host.applied == {}
    assert release(host) is Nack.NOTHING_TO_RELEASE


def test_a_weight_that_somebody_else_set_is_respected_by_the_next_call_too() -> None:
    host = two_shops()
    tune(host)
    host.change("web", cpu_weight=CpuWeight(77))
    assert host.tick().foreign == (uuid_of("web"),)
    assert tune(host) is Nack.UNMANAGED
    assert weight(host, "web") == 77


def test_who_changes_its_mind_too_often_is_refused_until_it_was_quiet() -> None:
    host = two_shops()
    ways = [UP, DOWN] * 3
    given = [tune(host, way=way) for way in ways]
    assert given == [None] * (1 + MOST_TURNS) + [Nack.TOO_SOON, None]
    quiet(host)
    assert tune(host, way=UP) is None


def test_no_weight_takes_others_below_their_floors() -> None:
    """Four CPUs, two servers of four vCPUs each: with floor 0.4 the other one must keep 1.6."""
    host = a_host()
    server(host, "web", vcpus=4)
    server(host, "other", vcpus=4, cap_floor_ratio=0.4)
    overlay(host, "shop", "web")
    host.ticks(2)
    assert [tune(host) for _ in range(3)] == [None, None, Nack.NO_ROOM]
    assert weight(host, "web") == 150
    assert 4 * 100 / (100 + weight(host, "web")) == pytest.approx(0.4 * 4)


def test_no_weight_takes_who_comes_later_below_its_floor() -> None:
    host = a_host()
    server(host, "web", vcpus=4)
    overlay(host, "shop", "web")
    host.ticks(2)
    for _ in range(8):
        tune(host)
    server(host, "late", vcpus=4, cap_floor_ratio=0.4)
    host.ticks(2)
    assert weight(host, "web") == 150
    host.change("late", cap_floor_ratio=0.6)
    host.ticks(2)
    assert weight(host, "web") == 100, "never less than what Nova gave"


def test_no_weight_comes_before_a_latency_critical_server() -> None:
    host = two_shops()
    host.change("alone", service_class=ServiceClass.LATENCY_CRITICAL, cpu_weight=CpuWeight(130))
    assert [tune(host), tune(host), tune(host)] == [None, None, Nack.NO_ROOM]
    assert weight(host, "web") == 130


def test_not_even_one_of_the_same_overlay_comes_before_it() -> None:
    host = two_shops()
    host.change("db", service_class=ServiceClass.LATENCY_CRITICAL, cpu_weight=CpuWeight(110))
    assert [tune(host), tune(host)] == [None, Nack.NO_ROOM]
    assert (weight(host, "web"), tune(host, "db")) == (110, None)
    assert weight(host, "db") > 110, "it may come before the others itself"


def test_who_has_no_floor_keeps_a_tenth_of_each_vcpu() -> None:
    """Four CPUs: six others keep 0.4 of them each, beside a weight of 400."""
    host = a_host()
    server(host, "web", vcpus=4)
    for number in range(6):
        server(host, f"other{number}", vcpus=4, cap_floor_ratio=None)
    overlay(host, "shop", "web")
    host.ticks(2)
    assert [tune(host) for _ in range(8)] == [None] * 7 + [Nack.NO_ROOM]
    assert weight(host, "web") == 400


def test_a_weight_of_another_controller_is_not_touched() -> None:
    host = two_shops()
    host.change("web", cpu_weight=NO_CPU_WEIGHT)
    assert tune(host) is Nack.NO_ROOM
    assert tune(host, "db") is None


def test_it_is_refused_on_a_host_without_weights() -> None:
    host = two_shops(knobs=frozenset({Knob.PLACEMENT}))
    assert tune(host) is Nack.NO_ROOM


def test_who_is_not_the_overlays_or_is_not_named_is_refused() -> None:
    host = two_shops()
    assert tune(host, "mill") is Nack.NOT_A_MEMBER
    assert tune(host, "") is Nack.NOT_A_MEMBER
    assert tune(host, of="nobody") is Nack.UNKNOWN_OVERLAY


@pytest.mark.parametrize("about", [{"unmanaged": Unmanaged.OPTED_OUT}, {"refuses_help": True}])
def test_who_is_left_alone_is_refused(about: dict[str, object]) -> None:
    host = two_shops()
    host.change("web", **about)
    assert tune(host) is Nack.UNMANAGED


def test_a_refused_change_is_forgotten() -> None:
    host = two_shops()
    host.mode = Mode.ADVISE
    assert tune(host) is Nack.MODE
    host.mode = Mode.ENFORCE
    assert host.ticks(6)[-1].actions == ()
    assert weight(host, "web") == 100
    assert host.state.controllers["overlays"].tuned == {}


@pytest.mark.parametrize("knob", [Knob.CPU_WEIGHT, Knob.CPU_CAP])
def test_what_an_operator_undid_is_over(knob: Knob) -> None:
    host = two_shops()
    tune(host, way=UP if knob is Knob.CPU_WEIGHT else DOWN)
    host.revoked = frozenset({host.outcomes[-1].action.id})
    host.tick()
    host.revoked = frozenset()
    host.ticks(3)
    assert (weight(host, "web"), host.guest("web").quota) == (100, NO_QUOTA)
    assert tune(host, way=UP if knob is Knob.CPU_WEIGHT else DOWN) is Nack.TOO_SOON


def test_a_server_of_two_overlays_is_that_of_the_higher_priority() -> None:
    host = two_shops()
    overlay(host, "first", "web")
    overlay(host, "same", "web")
    overlay(host, "higher", "web", priority=2.0)
    assert tune(host, of="first") is None
    assert tune(host, of="same") is Nack.OUTRANKED
    assert tune(host, of="higher") is None
    assert tune(host, of="first") is Nack.OUTRANKED


@pytest.mark.parametrize("gone", ["server", "membership", "overlay"])
def test_what_was_tuned_ends_with_server_membership_and_overlay(gone: str) -> None:
    host = two_shops()
    tune(host)
    if gone == "server":
        host.leave("web")
    elif gone == "membership":
        overlay(host, "shop", "db")
    else:
        host.overlays.pop("shop")
    host.ticks(2)
    assert host.state.claims == {}
    assert host.applied == {}
    host.ticks(5)
    assert uuid_of("web") not in host.state.controllers["overlays"].tuned


def test_a_relaxed_limit_is_a_limit_that_ended() -> None:
    host = two_shops()
    tune(host, way=DOWN)
    host.ticks(6)
    decision = host.answer(a_call(Verb.TUNE, "shop", "web"))
    assert [action.reason for action in decision.actions] == [RELEASED]


def test_who_goes_up_and_down_by_short_leases_is_refused_too() -> None:
    host = two_shops()
    found = []
    for number in range(8):
        found.append(tune(host, way=DOWN if number % 2 else UP, lease_s=0.1))
        host.now_s += 0.2
        host.answer()
        assert weight(host, "web") == 100
    assert found[:4] == [None] * 4
    assert found[4:] == [Nack.TOO_SOON, None] * 2, "down again is no turn"


def test_a_short_lease_ends_no_step_sooner_that_stands() -> None:
    host = two_shops(tune_lease_s=20.0)
    assert tune(host) is None
    [told] = answers(host, a_call(Verb.TUNE, server="web", lease_s=0.1))
    assert told.lease_s == pytest.approx(20.0)
    host.ticks(5)
    assert weight(host, "web") == 156
