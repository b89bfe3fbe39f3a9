# SPDX-License-Identifier: Apache-2.0
"""Who nobody can tell the own misses of has an LLC to itself for a sample; then all goes back."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.permits.declaration import (
    DEDICATE,
    DEDICATION_ENDED,
    How,
    PermitsSettings,
)
from nova_vp.core.controllers.permits.dedication import LOOK_S, REFILL_S, UNSURE_SAMPLES
from nova_vp.core.types.action import Action, Change, Result
from nova_vp.core.types.claim import Claim, PredictedLoss
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Enabled, Mode, Policy
from nova_vp.core.types.state import Pending
from tests.policies import a_policy
from tests.unit.core.build import COMPUTE, Host, nodes_of, slowed, uuid_of
from tests.unit.core.controllers.permits.hosts import (
    CACHED,
    CACHED_BESIDE,
    CAPS,
    POLLUTER,
    QUIET,
    account,
    with_permit,
)
from tests.unit.core.wishful import Wishful

ANOTHER = Wishful("another", 700, is_verified=True, is_counted=True, takes_away=True)
SETTINGS = PermitsSettings()
PERMIT = with_permit(1500)
HERE, THERE = {0, 1, 2, 3}, {4, 5, 6, 7}
SOON = 3 * UNSURE_SAMPLES


def beside_polluters(host):
    """The test's physics: beside a polluter `vm` does what it does there."""
    others = [name for name in ("lbm", "mcf") if uuid_of(name) in host.guests]
    is_beside = any(host.share_a_cache("vm", name) for name in others)
    host.run("vm", CACHED_BESIDE if is_beside else CACHED)


def a_host(**numbers) -> Host:
    """Two LLCs; `vm` came beside a polluter, so that nobody knows what it does alone."""
    policy = a_policy(controllers=("permits",), **numbers)
    host = Host(nodes_of(0, 0, cpus=4), policy, knobs=CAPS)
    host.add("lbm", POLLUTER, cpus=HERE)
    host.ticks(3)
    host.add("vm", CACHED_BESIDE, cpus=HERE, **PERMIT)
    host.rule = beside_polluters
    return host


def beside_another() -> Policy:
    """With a controller that places guests, too."""
    policy = a_policy(controllers=("permits",))
    another = Enabled(ANOTHER, ANOTHER.settings())
    return replace(policy, controllers=(*policy.controllers, another))


def reasons(decisions):
    return [action.reason for decision in decisions for action in decision.actions]


def proposed(decisions):
    return [action.reason for decision in decisions for action in decision.proposals]


def begun(host: Host) -> Host:
    host.until(DEDICATE, seconds=SOON)
    return host


def over(host: Host) -> Host:
    host.until(DEDICATION_ENDED, seconds=60)
    host.ticks(2)
    return host


def test_it_is_charged_what_it_misses_in_an_llc_of_its_own():
    host = begun(a_host())
    assert (host.placement("vm"), host.placement("lbm")) == (HERE, THERE)
    over(host)
    assert account(host, "vm").charge.how is How.DEDICATED
    assert account(host, "vm").charge.sure_ratio == pytest.approx(1.0)
    assert account(host, "vm").charge.llc_cap_act == pytest.approx(600, rel=0.01)


def test_all_is_put_back_where_it_was():
    host = over(begun(a_host()))
    assert (host.placement("vm"), host.placement("lbm")) == (HERE, HERE)
    assert (host.applied, host.state.claims) == ({}, {})
    assert host.state.controllers["permits"].dedication is None


def test_it_lasts_as_long_as_it_is_set_to():
    host = begun(a_host(dedication_s=20.0))
    began_at_s = host.now_s
    host.until(DEDICATION_ENDED, seconds=60)
    assert host.now_s - began_at_s == 20.0


def test_the_cache_is_filled_before_it_counts():
    host = begun(a_host())
    host.rule = None
    host.run("vm", replace(CACHED, mpki=40.0))
    host.ticks(int(REFILL_S))
    host.rule = beside_polluters
    host.until(DEDICATION_ENDED)
    assert account(host, "vm").own.memory_factor == pytest.approx(0.3, rel=0.001)


def test_a_sample_that_is_off_does_not_ask_for_it():
    host = a_host()
    host.tick()
    assert DEDICATE not in reasons(host.ticks(UNSURE_SAMPLES - 1))
    assert DEDICATE in reasons(host.ticks(2))


def test_who_is_known_surely_needs_none():
    host = Host(nodes_of(0, 0, cpus=4), a_policy(controllers=("permits",)), knobs=CAPS)
    host.add("vm", CACHED, cpus=HERE, **PERMIT)
    host.ticks(20)
    host.add("lbm", POLLUTER, cpus=HERE)
    host.run("vm", replace(CACHED_BESIDE, l2_mpki=42.0))
    host.ticks(2)
    assert account(host, "vm").charge.sure_ratio == pytest.approx(0.95, abs=0.01)
    assert DEDICATE not in reasons(host.ticks(60))


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_nobody_is_moved_for_it_but_in_enforce(mode):
    host = a_host()
    host.mode = mode
    decisions = host.ticks(60)
    assert (reasons(decisions), DEDICATE in proposed(decisions)) == ([], False)


def test_it_can_be_switched_off():
    assert reasons(a_host(dedication=False).ticks(60)) == []


def test_a_host_that_cannot_move_servers_measures_none():
    host = a_host()
    host.knobs = frozenset({Knob.CPU_CAP})
    decisions = host.ticks(60)
    assert DEDICATE not in reasons(decisions)
    assert [decision.refused for decision in decisions] == [()] * 60, "none is asked for either"


MAY_NOT = {
    "unmanaged": {"unmanaged": Unmanaged.OPTED_OUT},
    "refuses-help": {"refuses_help": True},
    "observed": {"mode": Mode.OBSERVE},
    "with-cpus-of-its-own": {"placement": frozenset({0, 1})},
    "bound-to-that-llc": {"allowed_cpus": frozenset(HERE)},
}


@pytest.mark.parametrize("fields", MAY_NOT.values(), ids=MAY_NOT)
def test_who_may_not_be_moved_is_not(fields):
    """The server itself goes to where nobody is."""
    host = a_host()
    host.change("lbm", **fields)
    before = host.placement("lbm")
    begun(host)
    assert (host.placement("vm"), host.placement("lbm")) == (THERE, before)
    over(host)
    assert host.placement("vm") == HERE


@pytest.mark.parametrize("fields", MAY_NOT.values(), ids=MAY_NOT)
def test_who_may_not_be_measured_so_is_not(fields):
    host = a_host()
    host.change("vm", **fields)
    host.change("lbm", refuses_help=True)
    assert DEDICATE not in reasons(host.ticks(60))


def test_the_fewest_are_moved():
    host = a_host()
    host.add("mcf", POLLUTER, cpus=HERE)
    begun(host)
    assert host.placement("vm") == THERE
    assert host.placement("lbm") == host.placement("mcf") == HERE


def test_who_misses_rarely_may_stay():
    host = a_host()
    host.add("web", QUIET, cpus=HERE)
    begun(host)
    assert (host.placement("web"), host.placement("lbm")) == (HERE, THERE)


@pytest.mark.parametrize("bound", [{}, {"allowed_cpus": frozenset(HERE)}], ids=["vm", "lbm"])
def test_it_is_not_done_without_room(bound):
    """Neither the one nor the other goes where the CPU is used."""
    host = a_host(dedication_most_loss_ratio=1.0)
    host.change("vm", **bound)
    host.add("busy", replace(QUIET, cores=3.5), cpus=THERE, vcpus=4)
    assert DEDICATE not in reasons(host.ticks(60))
    host.leave("busy")
    assert DEDICATE in reasons(host.ticks(int(LOOK_S) + 1))


def test_two_do_not_go_where_there_is_room_for_one():
    host = a_host(dedication_most_loss_ratio=1.0)
    host.change("vm", allowed_cpus=frozenset(HERE))
    host.add("mcf", POLLUTER, cpus=HERE)
    host.add("busy", replace(QUIET, cores=2.5), cpus=THERE, vcpus=4)
    assert DEDICATE not in reasons(host.ticks(60))
    host.leave("busy")
    host.until(DEDICATE, seconds=int(LOOK_S) + 1)
    assert host.placement("mcf") == host.placement("lbm") == THERE


def test_what_is_predicted_to_cost_others_too_much_is_not_done():
    """One that lives off the other cache."""
    for most, is_done in ((0.12, False), (1.0, True)):
        host = a_host(dedication_most_loss_ratio=most)
        host.change("vm", allowed_cpus=frozenset(HERE))
        host.add("db", CACHED, cpus=THERE)
        assert (DEDICATE in reasons(host.ticks(60))) is is_done


def costing(host: Host, ratio: float) -> Host:
    """Another server loses that share of its performance while the polluter is beside it."""
    host.change("vm", allowed_cpus=frozenset(HERE))
    host.add("web", COMPUTE, cpus=THERE)

    def rule(host):
        beside_polluters(host)
        is_beside = host.share_a_cache("web", "lbm")
        host.run("web", slowed(COMPUTE, 1 / (1 - ratio)) if is_beside else COMPUTE)

    host.rule = rule
    return begun(host)


def test_the_more_it_costs_the_longer_is_the_pause_after_it():
    pauses = []
    for ratio in (0.0, 0.05, 0.1):
        host = over(costing(a_host(), ratio))
        ended_at_s = account(host, "vm").dedicated_at_s
        pauses.append(host.state.controllers["permits"].dedicate_from_s - ended_at_s)
    span_s = SETTINGS.dedication_s + REFILL_S
    lost_s = [span_s * ratio / SETTINGS.dedication_cost_ratio for ratio in (0.05, 0.1)]
    assert pauses == [SETTINGS.dedication_pause_s, *map(pytest.approx, lost_s)]


def test_what_costs_others_too_much_ends_once_it_may():
    host = costing(a_host(dedication_s=60.0), 0.3)
    began_at_s = host.now_s
    host.until(DEDICATION_ENDED, seconds=60)
    assert host.now_s - began_at_s == host.policy.move_hold_s


def test_where_others_may_lose_nothing_it_goes_on_as_long_as_they_do():
    host = costing(a_host(dedication_most_loss_ratio=0.0), 0.0)
    assert DEDICATION_ENDED not in reasons(host.ticks(int(SETTINGS.dedication_s) - 1))
    assert DEDICATION_ENDED in reasons(host.ticks(1))
    host = costing(a_host(dedication_most_loss_ratio=0.0), 0.01)
    assert DEDICATION_ENDED in reasons(host.ticks(int(SETTINGS.dedication_s) - 1))


def test_other_work_of_the_others_is_no_cost():
    host = begun(a_host(dedication_s=60.0))
    host.run("lbm", replace(slowed(POLLUTER, 4.0), l2_mpki=90.0, mpki=90.0))
    assert DEDICATION_ENDED not in reasons(host.ticks(20))


def test_who_leaves_or_cannot_be_measured_costs_nothing():
    host = costing(a_host(), 0.3)
    host.rule = beside_polluters
    host.leave("web")
    host.counts.pop(uuid_of("lbm")), host.rates.pop(uuid_of("lbm"))
    host.ticks(5)
    assert host.state.controllers["permits"].dedication.loss_ratio == 0.0


def test_one_is_measured_at_a_time_and_the_next_after_a_pause():
    host = a_host()
    host.add("other", CACHED_BESIDE, cpus=HERE, **PERMIT)
    first = host.until(DEDICATE, seconds=SOON)
    assert DEDICATE not in reasons(host.ticks(int(SETTINGS.dedication_s) - 1))
    over(host)
    ended_at_s = account(host, "vm").dedicated_at_s
    second = host.until(DEDICATE, seconds=600)
    assert {first.guest_uuid, second.guest_uuid} == {uuid_of("vm"), uuid_of("other")}
    assert host.now_s - ended_at_s >= SETTINGS.dedication_pause_s


def test_one_server_is_not_measured_again_soon():
    host = over(begun(a_host(dedication_again_s=200.0)))
    ended_at_s = host.now_s - 2
    host.rule = None
    host.run("vm", replace(POLLUTER, mpki=22.0))
    host.until(DEDICATE, seconds=600)
    assert host.now_s - ended_at_s >= 200.0


def test_a_polluter_that_comes_ends_it_and_nothing_is_learned():
    host = begun(a_host(dedication_s=60.0))
    before = account(host, "vm").own
    host.ticks(3)
    host.add("mcf", POLLUTER, cpus=HERE)
    host.until(DEDICATION_ENDED)
    assert account(host, "vm").own == before


def test_who_does_nothing_meanwhile_is_not_learned():
    host = begun(a_host())
    before = account(host, "vm").own
    host.rule = None
    host.run("vm", replace(QUIET, mips=0, cores=0.0))
    over(host)
    assert account(host, "vm").own == before


@pytest.mark.parametrize("fields", [{"is_running": False}, {"unmanaged": Unmanaged.OPTED_OUT}])
def test_if_it_stops_the_others_go_back(fields):
    host = begun(a_host())
    host.change("vm", **fields)
    over(host)
    assert host.placement("lbm") == HERE


def test_if_it_leaves_the_others_go_back():
    host = begun(a_host())
    host.rule = None
    host.leave("vm")
    host.until(DEDICATION_ENDED)
    host.ticks(2)
    assert (host.placement("lbm"), host.applied, host.state.claims) == (HERE, {}, {})


def test_if_the_others_leave_there_is_nothing_to_put_back():
    host = begun(a_host())
    host.leave("lbm")
    assert DEDICATION_ENDED not in reasons(host.ticks(30))
    assert host.state.controllers["permits"].dedication is None


def test_who_was_moved_by_hand_meanwhile_stays_there():
    host = begun(a_host())
    host.change("lbm", placement=frozenset({5}))
    assert DEDICATION_ENDED not in reasons(host.ticks(30))
    assert host.placement("lbm") == {5}


def test_whom_another_controller_moved_meanwhile_stays_there():
    host = begun(a_host())
    host.policy = beside_another()
    key, to = (uuid_of("lbm"), Knob.PLACEMENT), (frozenset({4, 5}),)
    claim = Claim(ANOTHER.name, to, ANOTHER.reason, "another", host.now_s)
    host.state = replace(host.state, claims={key: (claim,)})
    held = replace(host.applied[key[0]].of(key[1]), value=to, controller=ANOTHER.name)
    host.applied[key[0]] = host.applied[key[0]].holding(held)
    host.change("lbm", placement=to[0])
    assert DEDICATION_ENDED not in reasons(host.ticks(30))
    assert host.placement("lbm") == set(to[0])


def test_who_may_use_fewer_cpus_now_goes_back_within_them():
    host = begun(a_host())
    host.change("lbm", allowed_cpus=frozenset({0, 4, 5, 6, 7}))
    over(host)
    assert host.placement("lbm") == {0}
    host = begun(a_host())
    host.change("lbm", allowed_cpus=frozenset(THERE))
    host.ticks(20)
    assert host.placement("lbm") == THERE
    assert host.state.controllers["permits"].dedication is None


def test_who_floats_is_held_in_one_llc_and_floats_again():
    host = a_host()
    everywhere = HERE | THERE
    for name in ("vm", "lbm"):
        host.change(name, placement=frozenset(everywhere))
    begun(host)
    assert not host.share_a_cache("vm", "lbm")
    assert len(host.domains("vm")) == len(host.domains("lbm")) == 1
    over(host)
    assert host.placement("vm") == host.placement("lbm") == everywhere


def test_what_an_operator_takes_back_is_over():
    host = a_host()
    action = host.until(DEDICATE, seconds=SOON)
    host.revoked = frozenset({action.id})
    host.ticks(2)
    assert host.placement("lbm") == HERE
    assert host.state.controllers["permits"].dedication is None
    assert reasons(host.ticks(60)) == []


def test_what_the_host_refuses_is_tried_again_after_a_pause():
    host = a_host()
    host.refuse = True
    host.until(DEDICATE, seconds=SOON)
    assert host.outcomes[-1].result is Result.FAILED
    host.refuse = False
    refused_at_s = host.now_s
    begun_at_s = refused_at_s
    while host.state.controllers["permits"].dedication is None:
        host.tick()
        begun_at_s = host.now_s
    assert begun_at_s - refused_at_s >= SETTINGS.dedication_pause_s


def test_while_a_change_is_on_trial_nobody_is_moved_for_it():
    host = a_host()
    host.policy = beside_another()
    host.add("web", COMPUTE, cpus=THERE)
    host.ticks(UNSURE_SAMPLES - 1)
    web = host.guest("web")
    change = Change(web.uuid, Knob.PLACEMENT, web.cpus, web.cpus, web.cpus)
    about = ("trial", ANOTHER.name, web.uuid, (change,), (1,), ANOTHER.reason)
    trial = Action(*about, host.now_s, PredictedLoss(0, 0))
    claim = Claim(ANOTHER.name, web.cpus, ANOTHER.reason, "trial", host.now_s)
    claims = {(web.uuid, Knob.PLACEMENT): (claim,)}
    pending = (Pending(trial, host.now_s, {}),)
    host.state = replace(host.state, claims=claims, pending=pending)
    assert DEDICATE not in reasons(host.ticks(int(host.policy.effect_window_s)))
    assert DEDICATE in reasons(host.ticks(SOON))


def test_who_cannot_be_measured_now_has_none():
    host = a_host()
    host.ticks(UNSURE_SAMPLES - 1)
    host.change("lbm", refuses_help=True)
    host.change("vm", refuses_help=True)
    host.ticks(5)
    host.change("vm", refuses_help=False)
    host.rule = None
    reading, rates = host.counts.pop(uuid_of("vm")), host.rates.pop(uuid_of("vm"))
    assert DEDICATE not in reasons(host.ticks(2 * int(LOOK_S)))
    host.counts[uuid_of("vm")], host.rates[uuid_of("vm")] = reading, rates
    assert DEDICATE in reasons(host.ticks(int(LOOK_S) + 2))


@pytest.mark.parametrize("knob", [Knob.PLACEMENT, Knob.MEMORY])
def test_whom_another_controller_placed_is_left_there(knob):
    host = a_host()
    host.change("vm", allowed_cpus=frozenset(HERE))
    host.policy = beside_another()
    host.ticks(UNSURE_SAMPLES - 1)
    lbm = host.guest("lbm")
    value = lbm.cpus if knob is Knob.PLACEMENT else lbm.memory_shares
    claim = Claim(ANOTHER.name, value, ANOTHER.reason, "earlier", host.now_s)
    host.state = replace(host.state, claims={(lbm.uuid, knob): (claim,)})
    assert DEDICATE not in reasons(host.ticks(20))
    host.state = replace(host.state, claims={})
    assert DEDICATE in reasons(host.ticks(int(LOOK_S) + 1))
