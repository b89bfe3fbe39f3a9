# SPDX-License-Identifier: Apache-2.0
"""The quota of a server: what is debited, what is credited, and what follows from it."""

from dataclasses import replace
from itertools import pairwise
from statistics import mean

import pytest

from nova_vp.core.controllers.permits.accounts import permit_of
from nova_vp.core.controllers.permits.attribution import llc_cap_act
from nova_vp.core.controllers.permits.controller import Permits
from nova_vp.core.controllers.permits.declaration import (
    OVER,
    PARTITION,
    PermitsSettings,
)
from nova_vp.core.types.asked import asked_by
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import RELEASED, Rejection
from tests.unit.core.build import uuid_of
from tests.unit.core.controllers.permits.hosts import (
    CACHED,
    PARTITIONS,
    POLLUTER,
    QUIET,
    a_host,
    account,
    mean_cores,
    with_permit,
)

SETTINGS = PermitsSettings()


def test_equation_1_is_misses_per_ms_of_running():
    assert llc_cap_act(llc_misses=9000, cpu_freq_khz=2e6, unhalted_core_cycles=4e6) == 4500
    assert llc_cap_act(llc_misses=0, cpu_freq_khz=2e6, unhalted_core_cycles=0) == 0


@pytest.mark.parametrize(
    ("keys", "vcpus", "permit"),
    [
        ((), 2, 0),
        ((("vp:llc_permit", "900"),), 1, 900),
        ((("vp:llc_permit", "900"),), 3, 2700),
        ((("vp:llc_permit", "auto"),), 3, 2 * SETTINGS.misses_per_ms_per_gib),
    ],
)
def test_a_permit_is_per_vcpu_or_by_memory(keys, vcpus, permit):
    host = a_host()
    host.add("vm", QUIET, vcpus=vcpus, controller_keys=keys, memory_kib=2 * 1024 * 1024)
    assert permit_of(asked_by(host.guest("vm")), SETTINGS) == permit


def test_debit_is_equation_1_times_ms_run_and_credit_the_permit_times_wall_time():
    host = a_host()
    host.add("vm", replace(POLLUTER, mips=50, cores=0.5), **with_permit(900))
    host.ticks(2)
    assert account(host, "vm").charge.llc_cap_act == pytest.approx(4500)
    assert account(host, "vm").balance == pytest.approx(1000 * (900 - 4500 * 0.5))


def test_who_bursts_within_a_tick_pays_what_an_even_one_pays():
    balances = []
    for parts in ([(1.0, 0.5)], [(0.25, 1.0), (0.5, 0.0), (0.25, 1.0)], [(0.5, 0.0), (0.5, 1.0)]):
        host = a_host()
        host.add("vm", POLLUTER, **with_permit(900))
        host.tick()
        for span_s, cores in parts:
            host.run("vm", replace(POLLUTER, mips=100 * cores, cores=cores))
            host.pass_time(span_s)
        host.decide()
        balances.append(account(host, "vm").balance)
    assert balances == [pytest.approx(1000 * (900 - 4500 * 0.5))] * 3


def test_all_its_vcpus_are_summed():
    host = a_host()
    host.add("vm", replace(POLLUTER, mips=200, cores=2.0), vcpus=2, **with_permit(900))
    host.ticks(2)
    assert account(host, "vm").balance == pytest.approx(2 * 1000 * (900 - 4500))


def test_who_is_over_is_capped_at_once_and_who_is_under_is_released():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    decisions = host.ticks(2)
    assert [(a.reason, a.guest_uuid) for a in decisions[-1].actions] == [(OVER, uuid_of("vm"))]
    assert host.cap_ratio("vm") < 900 / 4500
    host.run("vm", QUIET)
    host.until(RELEASED, seconds=30)
    assert not account(host, "vm").is_over
    assert host.guest("vm").quota == Quota()


def test_who_would_be_over_again_within_a_tick_keeps_what_its_permit_pays_for():
    """The source lets it run for 10 ms then, not for a second."""
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(150)
    caps, owed = [], []
    for _ in range(300):
        host.tick()
        caps.append(host.cap_ratio("vm") * 4500 / 900)
        owed.append(-account(host, "vm").balance / 900_000)
    assert 0.75 < min(caps) < max(caps) < 1.25
    assert max(owed) < 1.0
    assert sum(one > 0 for one in owed) < 150


def test_a_cap_leaves_what_was_booked():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(30)
    assert mean_cores(host, "vm", 1800) == pytest.approx(900 / 4500, rel=0.015)


def test_who_does_not_use_what_its_cap_leaves_is_released():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(10)
    host.run("vm", replace(POLLUTER, mips=5, cores=0.05))
    host.until(RELEASED, seconds=30)
    assert not account(host, "vm").is_over


def test_who_uses_a_part_of_each_cap_gets_a_cap_of_which_that_part_is_its_permit():
    """It computes for six tenths of the time, whatever the cap."""
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    used, released = [], 0
    for _ in range(120):
        cores = 0.6 * host.cap_ratio("vm")
        host.run("vm", replace(POLLUTER, mips=100 * cores, cores=cores))
        released += any(action.reason is RELEASED for action in host.tick().actions)
        used.append(cores)
    assert released == 0
    assert mean(used[30:]) == pytest.approx(900 / 4500, rel=0.05)


def test_who_goes_over_again_is_capped_again_at_once():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(10)
    host.run("vm", QUIET)
    host.until(RELEASED, seconds=30)
    released_at_s = host.now_s
    host.run("vm", POLLUTER)
    host.until(OVER, seconds=5)
    assert host.now_s - released_at_s < SETTINGS.change_s


@pytest.mark.parametrize("permit", [50, 200])
def test_a_small_permit_is_held_too(permit):
    """Seconds at full rate would cost more than it can owe: the rest would never be paid."""
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(permit))
    host.ticks(30)
    assert mean_cores(host, "vm", 1200) == pytest.approx(permit / 4500, rel=0.12)


@pytest.mark.parametrize("permit", [450, 900, 2250])
def test_it_does_the_share_of_its_work_that_its_permit_pays_for(permit):
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(permit))
    host.ticks(30)
    assert mean_cores(host, "vm", 600) == pytest.approx(permit / 4500, rel=0.1)


def test_who_stays_below_its_permit_is_never_limited():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(4600))
    assert [d.actions for d in host.ticks(60)] == [()] * 60


def test_who_has_no_permit_is_left_alone():
    host = a_host()
    host.add("vm", POLLUTER, cap_floor_ratio=0.01)
    assert [d.actions for d in host.ticks(20)] == [()] * 20


def test_a_short_burst_is_paid_from_what_was_saved():
    host = a_host()
    host.add("vm", QUIET, **with_permit(2500))
    host.ticks(10)
    assert account(host, "vm").balance == 2500 * 1000 * SETTINGS.burst_s
    host.run("vm", POLLUTER)
    host.ticks(2)
    assert host.cap_ratio("vm") == 1.0
    host.run("vm", QUIET)
    host.ticks(3)
    host.run("vm", POLLUTER)
    host.ticks(4)
    assert host.cap_ratio("vm") < 1.0


def test_what_it_saves_is_bounded():
    host = a_host()
    host.add("vm", QUIET, **with_permit(900))
    host.ticks(100)
    host.run("vm", POLLUTER)
    host.ticks(2)
    assert account(host, "vm").is_over


def test_what_it_owes_is_bounded():
    host = a_host()
    host.mode = Mode.OBSERVE
    host.add("vm", POLLUTER, **with_permit(90))
    host.ticks(10)
    assert account(host, "vm").balance == -90 * 1000 * SETTINGS.debt_s


def test_limits_that_stand_change_at_most_once_in_change_s():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    changed = []
    for second in range(120):
        host.run("vm", POLLUTER if second % 4 < 2 else QUIET)
        changed += [(second, action.reason) for action in host.tick().actions]
    kept = [later - at for (at, _), (later, why) in pairwise(changed) if why is RELEASED]
    assert len(kept) > 4
    assert min(kept) >= SETTINGS.change_s
    assert len(changed) <= 2 * 120 / SETTINGS.change_s


def test_the_floor_of_the_flavor_holds():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(90, cap_floor_ratio=0.3))
    host.ticks(20)
    assert host.cap_ratio("vm") == 0.3


def test_a_cap_is_a_share_of_what_nova_gave():
    host = a_host()
    host.add("vm", POLLUTER, quota=Quota(50_000), **with_permit(900))
    host.ticks(2)
    assert 0.9 * 900 / 4500 < host.cap_ratio("vm") < 900 / 4500
    host.run("vm", QUIET)
    host.ticks(10)
    assert host.guest("vm").quota == Quota(50_000)


@pytest.mark.parametrize(
    ("permit", "own", "quota"),
    [
        (2250, Quota(), (4900, 10_000)),
        (450, Quota(), (1000, 14_286)),
        (90, Quota(), (1000, 100_000)),
        (2250, Quota(40_000, 50_000), (4900, 10_000)),
        (2250, Quota(4_000, 5_000), (2450, 5_000)),
    ],
)
def test_the_cpu_is_taken_in_ticks_as_short_as_the_kernel_lets(permit, own, quota):
    host = a_host()
    host.add("vm", replace(POLLUTER, cores=own.cores, mips=100 * own.cores), quota=own)
    host.change("vm", **with_permit(permit))
    host.ticks(2)
    given = host.guest("vm").quota
    assert given.period_us == pytest.approx(quota[1], rel=0.02)
    assert given.quota_us == pytest.approx(quota[0], rel=0.05)
    assert given.quota_us >= 1000
    assert given.cores >= 0.01 * own.cores


def test_a_cap_stays_while_its_rate_wavers():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(2)
    held = host.cap_ratio("vm")
    for second in range(20):
        host.run("vm", replace(POLLUTER, mpki=42.0 if second % 3 else 48.0))
        assert host.tick().actions == ()
    assert host.cap_ratio("vm") == held


def test_a_cap_follows_a_rate_that_doubles():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(2)
    held = host.cap_ratio("vm")
    host.run("vm", replace(POLLUTER, l2_mpki=90.0, mpki=90.0))
    host.ticks(10)
    assert host.cap_ratio("vm") < 0.6 * held


def test_one_busy_vcpu_may_use_what_its_server_booked():
    host = a_host()
    one_busy = replace(POLLUTER, busy_vcpus=1)
    host.add("vm", one_busy, vcpus=4, **with_permit(900))
    host.ticks(30)
    assert mean_cores(host, "vm", 300) == pytest.approx(4 * 900 / 4500, rel=0.1)


def test_who_could_never_return_is_reported():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(90, cap_floor_ratio=0.3))
    [action] = host.ticks(2)[-1].actions
    assert [one.rejection for one in action.rejected] == [Rejection.AT_FLOOR]
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(1400, cap_floor_ratio=0.3))
    [action] = host.ticks(2)[-1].actions
    assert action.rejected == ()


def test_where_the_hardware_can_its_cache_is_limited_first():
    host = a_host(knobs=PARTITIONS)
    host.add("vm", replace(POLLUTER, mips=10, cores=0.1), **with_permit(900))
    host.ticks(5)
    host.run("vm", POLLUTER)
    host.ticks(4)
    assert host.guest("vm").llc.ratio == SETTINGS.partition_llc_ratio
    assert host.cap_ratio("vm") == 1.0
    host.ticks(int(SETTINGS.change_s))
    assert host.cap_ratio("vm") < 1.0
    host.run("vm", QUIET)
    host.ticks(90)
    assert (host.guest("vm").llc.ratio, host.cap_ratio("vm")) == (1.0, 1.0)


def test_who_lives_off_the_cache_is_left_it():
    host = a_host(knobs=PARTITIONS)
    host.add("vm", replace(CACHED, mips=5, cores=0.05), **with_permit(100))
    host.ticks(5)
    host.run("vm", CACHED)
    host.until(OVER)
    host.ticks(20)
    assert host.guest("vm").llc.ratio == 1.0
    assert PARTITION not in {one.action.reason for one in host.outcomes}


def test_nothing_is_debited_nor_credited_while_it_cannot_be_measured():
    host = a_host()
    host.add("other", QUIET)
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(3)
    before = account(host, "vm").balance
    reading = host.counts.pop(uuid_of("vm"))
    rates = host.rates.pop(uuid_of("vm"))
    host.ticks(3)
    assert account(host, "vm").balance == before
    host.counts[uuid_of("vm")], host.rates[uuid_of("vm")] = reading, rates
    host.ticks(2)
    assert account(host, "vm").balance != before


def test_a_stopped_server_pollutes_nothing_and_earns_its_permit():
    host = a_host()
    host.add("other", QUIET)
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(3)
    host.change("vm", is_running=False)
    before = account(host, "vm").balance
    host.tick()
    assert account(host, "vm").balance == pytest.approx(before + 900_000)


@pytest.mark.parametrize("fields", [{"unmanaged": Unmanaged.OPTED_OUT}, {"cap_floor_ratio": None}])
def test_for_who_is_never_changed_nothing_is_claimed(fields):
    host = a_host()
    host.add("vm", POLLUTER, **{**with_permit(900), **fields})
    decisions = host.ticks(20)
    assert [(d.actions, d.refused) for d in decisions] == [((), ())] * 20
    assert account(host, "vm").is_over


def test_refusing_help_does_not_escape_it():
    host = a_host()
    host.add("vm", POLLUTER, refuses_help=True, **with_permit(900))
    assert host.until(OVER, seconds=3).guest_uuid == uuid_of("vm")


def test_a_host_without_caps_charges_all_the_same():
    host = a_host(knobs=frozenset({Knob.PLACEMENT}))
    host.add("vm", POLLUTER, **with_permit(900))
    assert [d.actions for d in host.ticks(20)] == [()] * 20
    assert account(host, "vm").is_over


def test_who_is_idle_is_not_capped_for_what_it_owes():
    """Nobody can say how much CPU would repay it."""
    host = a_host(knobs=PARTITIONS)
    host.add("vm", replace(POLLUTER, mips=1, cores=0.01), **with_permit(90))
    host.ticks(5)
    host.run("vm", POLLUTER)
    host.until(PARTITION)
    host.run("vm", replace(POLLUTER, mips=0, cores=0.0))
    host.ticks(int(SETTINGS.change_s) + 1)
    assert account(host, "vm").is_over
    assert host.cap_ratio("vm") == 1.0
    host.run("vm", POLLUTER)
    host.ticks(2)
    assert host.cap_ratio("vm") < 1.0


def test_a_proposal_stays_the_same_while_nothing_changes():
    host = a_host()
    host.mode = Mode.ADVISE
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(60)
    ids = {action.id for decision in host.ticks(60) for action in decision.proposals}
    assert len(ids) == 1


def test_the_account_of_a_server_that_left_is_forgotten():
    host = a_host()
    host.add("other", QUIET)
    host.add("vm", QUIET, **with_permit(900))
    host.ticks(3)
    host.leave("vm")
    host.tick()
    assert not host.state.controllers["permits"].by_guest


def test_what_is_told_of_a_server_is_told_by_its_declared_figures():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    host.add("other", QUIET)
    new = host.view("vm", host.tick()).figures["permits"]
    assert new == {"standing": "under", "permit_misses_per_ms": 900.0, "balance_s": 0.0}
    decision = host.tick()
    told = host.view("vm", decision).figures["permits"]
    assert told == {
        "standing": "over",
        "permit_misses_per_ms": 900.0,
        "balance_s": pytest.approx(-4.0),
        "misses_per_ms": pytest.approx(4500.0),
        "llc_cap_act": pytest.approx(4500.0),
        "attribution": "plain",
        "sure_ratio": 1.0,
    }
    assert list(told) == [figure.name for figure in Permits.figures]
    assert host.view("other", decision).figures == {}
    [action] = decision.actions
    assert action.evidence == {
        name: value for name, value in told.items() if isinstance(value, float)
    }


def test_who_could_never_return_is_told_so():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(90, cap_floor_ratio=0.3))
    decision = host.ticks(2)[-1]
    assert host.view("vm", decision).figures["permits"]["standing"] == "over-at-its-floor"
