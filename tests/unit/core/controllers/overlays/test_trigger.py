# SPDX-License-Identifier: Apache-2.0
"""`trigger`: servers run first for a moment, with credit."""

import pytest

from nova_vp.core.controllers.overlays.grant import LEAST_LEASE_S
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_CPU_WEIGHT, NO_QUOTA, Knob
from nova_vp.core.types.overlay import Nack, Verb
from nova_vp.core.types.policy import Mode
from tests.policies import a_policy
from tests.unit.core.build import Host
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    HIGH,
    KNOBS,
    a_call,
    a_host,
    answers,
    overlay,
    release,
    server,
    trigger,
    tune,
    two_shops,
    weight,
)


def credit_s(host: Host, of: str = "shop") -> float:
    return host.state.controllers["overlays"].accounts[of].credit_s


def test_a_triggered_server_runs_first_at_once_and_for_a_moment() -> None:
    host = two_shops()
    assert (trigger(host, "web"), weight(host, "web"), weight(host, "db")) == (None, 800, 100)
    host.now_s += 0.5
    host.answer()
    assert weight(host, "web") == 800
    host.now_s += 0.6
    host.answer()
    assert weight(host, "web") == 100
    assert host.applied == {}


def test_it_is_told_when_the_next_grant_ends() -> None:
    host = two_shops()
    assert host.tick().next_end_s is None
    tune(host, "db")
    assert host.tick().next_end_s == host.now_s + 299.0
    decision = host.answer(a_call(Verb.TRIGGER, server="web"))
    assert decision.next_end_s == host.now_s + 1.0


def test_all_are_triggered_together() -> None:
    host = two_shops()
    decision = host.answer(a_call(Verb.TRIGGER))
    assert [len(action.changes) for action in decision.actions] == [2]
    assert [weight(host, name) for name in ("web", "db", "mill")] == [800, 800, 100]


def test_all_are_those_that_may_be_changed_and_run() -> None:
    host = two_shops()
    host.change("db", is_running=False)
    assert trigger(host) is None
    assert [weight(host, name) for name in ("web", "db")] == [800, 100]
    host.change("web", unmanaged=Unmanaged.OPTED_OUT)
    assert trigger(host) is Nack.NOT_A_MEMBER


def test_its_own_limit_does_not_hold_meanwhile() -> None:
    host = two_shops()
    tune(host, way=DOWN)
    assert host.cap_ratio("web") == pytest.approx(0.9)
    trigger(host, "web")
    assert host.guest("web").quota == NO_QUOTA
    host.ticks(3)
    assert (host.cap_ratio("web"), weight(host, "web")) == (pytest.approx(0.9), 100)


def test_who_is_limited_is_triggered_where_no_weight_can_be_added() -> None:
    host = two_shops()
    tune(host, way=DOWN)
    host.change("alone", cap_floor_ratio=0.6)
    assert trigger(host, "db") is Nack.NO_ROOM
    assert trigger(host, "web") is None
    assert (host.guest("web").quota, weight(host, "web")) == (NO_QUOTA, 100)


def test_a_trigger_leaves_others_their_floors() -> None:
    host = two_shops()
    host.change("alone", cap_floor_ratio=0.45)
    assert trigger(host, "web") is None
    # Of four CPUs 0.9 are its floor: its weight of 100 is that share of 444, and 300 are others'.
    assert weight(host, "web") == 144


def test_who_runs_first_already_gets_the_room_that_has_come() -> None:
    host = two_shops()
    host.change("alone", cap_floor_ratio=0.45)
    assert trigger(host, "web") is None
    host.change("alone", cap_floor_ratio=0.1)
    host.now_s += 0.5
    assert trigger(host, "web") is None
    assert weight(host, "web") == 800


def test_who_was_tuned_as_far_as_others_allow_is_not_triggered() -> None:
    host = two_shops()
    host.change("alone", cap_floor_ratio=0.45)
    assert [tune(host) for _ in range(3)] == [None, None, Nack.NO_ROOM]
    assert weight(host, "web") == 144
    assert trigger(host, "web") is Nack.NO_ROOM


def test_it_costs_credit_that_comes_back_slowly() -> None:
    host = two_shops(credit_s=2.5, credit_per_s=0.1)
    assert trigger(host, "web") is None
    assert credit_s(host) == pytest.approx(1.5)
    assert trigger(host) is None, "one second of the web server is paid"
    assert credit_s(host) == pytest.approx(0.5)
    host.ticks(2)
    assert trigger(host, "web") is Nack.NO_CREDIT
    host.ticks(4)
    assert trigger(host, "web") is None
    host.ticks(100)
    trigger(host, "web", lease_s=0.5)
    assert credit_s(host) == pytest.approx(2.0), "it was full"


def test_release_gives_what_was_not_used_back_into_the_credit() -> None:
    host = two_shops(credit_s=2.0)
    trigger(host, "web")
    assert release(host) is None
    assert credit_s(host) == pytest.approx(2.0)
    assert weight(host, "web") == 100


def test_a_trigger_that_another_release_concerns_stands() -> None:
    host = two_shops()
    overlay(host, "other", "web")
    trigger(host, "web")
    assert release(host, of="other") is Nack.NOTHING_TO_RELEASE
    assert weight(host, "web") == 800


def test_a_lease_is_at_most_the_settings() -> None:
    host = two_shops()
    asked = [a_call(Verb.TRIGGER, server="web", lease_s=span) for span in (0.2, 50.0)]
    given = [answers(host, call)[0].lease_s for call in asked]
    assert given == [0.2, 1.0]


@pytest.mark.parametrize("lease_s", [1e-300, 1e-12, 0.001, 0.09])
def test_however_short_its_leases_it_runs_first_only_for_what_it_paid(lease_s: float) -> None:
    host = two_shops(credit_s=1.0, credit_per_s=0.0, calls_per_s=1e6)
    first_s = 0.0
    for _ in range(300):
        trigger(host, "web", lease_s=lease_s)
        first_s += 0.01 if weight(host, "web") > 100 else 0.0
        host.now_s += 0.01
        host.answer()
    assert first_s == pytest.approx(1.0, abs=0.02)
    assert trigger(host, "web", lease_s=lease_s) is Nack.NO_CREDIT


def test_no_lease_is_too_short_to_be_undone_in_time() -> None:
    host = two_shops()
    asked = [a_call(verb, server="db", lease_s=1e-300) for verb in (Verb.TRIGGER, Verb.TUNE)]
    given = [answers(host, call)[0].lease_s for call in asked]
    assert given == [LEAST_LEASE_S] * 2


def test_a_tuned_server_runs_first_of_its_own_weight_and_goes_back_to_it() -> None:
    host = two_shops()
    tune(host)
    trigger(host, "web")
    assert weight(host, "web") == 800
    host.ticks(3)
    assert weight(host, "web") == 125


def test_who_is_tuned_up_while_it_runs_first_has_no_more_weight() -> None:
    host = two_shops()
    for _ in range(20):
        tune(host, way=DOWN)
    low = weight(host, "web")
    assert low < 100
    trigger(host, "web")
    for _ in range(20):
        tune(host)
        assert weight(host, "web") == 800
    host.ticks(3)
    assert weight(host, "web") > low


def test_who_may_not_be_weighed_is_not_triggered() -> None:
    host = two_shops()
    host.change("web", cpu_weight=NO_CPU_WEIGHT)
    assert trigger(host, "web") is Nack.NO_ROOM
    host = two_shops(knobs=KNOBS - {Knob.CPU_WEIGHT})
    tune(host, way=DOWN)
    assert trigger(host, "web") is Nack.NO_ROOM


def test_a_server_of_two_overlays_is_triggered_by_one() -> None:
    host = two_shops()
    overlay(host, "other", "web")
    assert trigger(host, "web") is None
    assert trigger(host, "web", of="other") is Nack.OUTRANKED


def test_one_that_may_not_be_changed_keeps_all_from_running_first() -> None:
    host = two_shops()
    host.change("db", mode=Mode.OBSERVE)
    assert trigger(host) is Nack.MODE
    assert weight(host, "web") == 100
    host.tick()
    assert trigger(host, "web") is None


def test_two_calls_for_one_server_are_one_action() -> None:
    host = two_shops()
    server(host, "cache")
    overlay(host, "shop", "web", "db", "cache")
    host.change("mill", placement=frozenset(HIGH))
    host.tick()
    calls = [a_call(Verb.TRIGGER, server=name) for name in ("web", "db")]
    decision = host.answer(*calls, a_call(Verb.TRIGGER), a_call(Verb.TUNE, "mills", "mill"))
    assert [one.nack for one in decision.answers] == [None] * 4
    assert sorted(len(action.call_ids) for action in decision.actions) == [1, 3]


def many_overlays(count: int, **settings: object) -> Host:
    """Each with one server, all of one project; and one of another project."""
    host = a_host(credit_s=2.0, credit_per_s=0.0, **settings)
    for number in range(count):
        server(host, f"s{number}")
        overlay(host, f"o{number}", f"s{number}")
    server(host, "other")
    overlay(host, "others", "other")
    host.overlays["others"] = host.overlays["others"]._replace(project_id="p2")
    host.ticks(2)
    return host


def seconds_first(host: Host, *names: str) -> int:
    """How often any of them gets a trigger of a second."""
    found = 0
    for name in names:
        while trigger(host, f"s{name[1:]}", of=name) is None:
            found += 1
            host.tick()
    return found


def test_a_project_cannot_multiply_its_credit_by_many_overlays() -> None:
    host = many_overlays(8)
    assert seconds_first(host, *(f"o{number}" for number in range(8))) == 6
    assert trigger(host, "other", of="others") is None, "of another project"
    [view] = [one for one in host.tick().overlays if one.overlay_id == "o7"]
    assert view.credit_ratio == 0.0, "its own is full"


def test_who_registers_its_overlays_anew_gains_no_credit() -> None:
    host = many_overlays(3)
    assert seconds_first(host, "o0", "o1", "o2") == 6
    host.overlays.clear()
    host.tick()
    for number in range(3):
        overlay(host, f"new{number}", f"s{number}")
    host.tick()
    assert trigger(host, "s0", of="new0") is Nack.NO_CREDIT


def test_a_projects_credit_comes_back_and_is_forgotten_once_it_is_full() -> None:
    host = many_overlays(3)
    seconds_first(host, "o0", "o1", "o2")
    host.policy = a_policy(controllers=("overlays",), credit_s=2.0, credit_per_s=0.1)
    host.ticks(10)
    assert host.state.controllers["overlays"].purses["p1"].credit_s == pytest.approx(3.0)
    host.ticks(11)
    assert host.state.controllers["overlays"].purses == {}


def test_what_is_released_goes_back_into_the_projects_credit_too() -> None:
    host = many_overlays(1)
    assert trigger(host, "s0", of="o0") is None
    assert release(host, "s0", of="o0") is None
    assert host.state.controllers["overlays"].purses == {}


@pytest.mark.parametrize("verb", [Verb.TUNE, Verb.TRIGGER, Verb.BORROW])
def test_a_server_that_does_not_run_gets_nothing(verb: Verb) -> None:
    host = two_shops()
    host.change("web", is_running=False)
    [told] = answers(host, a_call(verb, server="web", cpus=int(verb is Verb.BORROW)))
    assert (told.nack, told.detail) == (Nack.HOST_REFUSED, "the server does not run")


def test_who_was_raised_and_is_paused_keeps_its_weight() -> None:
    host = two_shops()
    tune(host)
    host.change("web", is_running=False)
    host.ticks(3)
    assert weight(host, "web") == 125
    host.change("web", is_running=True)
    host.tick()
    assert tune(host) is None


def test_what_is_refused_in_the_end_costs_no_credit() -> None:
    host = two_shops(credit_s=2.0, credit_per_s=0.0)
    host.change("db", mode=Mode.OBSERVE)
    assert [trigger(host) for _ in range(5)] == [Nack.MODE] * 5
    assert credit_s(host) == pytest.approx(2.0)
    assert trigger(host, "web") is None
    assert trigger(host) is Nack.MODE
    assert credit_s(host) == pytest.approx(1.0)
    assert weight(host, "web") == 800
    host.ticks(2)
    assert weight(host, "web") == 100


def test_who_runs_first_for_longer_than_it_paid_pays_for_that_too() -> None:
    host = two_shops(credit_s=5.0, credit_per_s=0.0)
    trigger(host, "web", lease_s=0.1)
    host.now_s += 0.9
    host.answer()
    assert weight(host, "web") == 100
    assert credit_s(host) == pytest.approx(4.1)


def test_release_of_all_is_that_of_paused_servers_too() -> None:
    host = two_shops()
    assert tune(host, "db", DOWN) is None
    host.change("db", is_running=False)
    assert release(host) is None
    assert host.cap_ratio("db") == pytest.approx(1.0)
