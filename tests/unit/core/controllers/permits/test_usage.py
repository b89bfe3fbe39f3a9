# SPDX-License-Identifier: Apache-2.0
"""What is billed, and what neither a reboot of the server nor a restart of the agent forgives."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.base import Answer, Controller, NoSettings, NoState
from nova_vp.core.controllers.permits.controller import Permits
from nova_vp.core.controllers.permits.declaration import OVER, Accounts
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Enabled, Mode
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.usage import AMOUNTS, UNMEASURED, Usage, total
from tests.unit.core.build import Host, nodes_of, uuid_of
from tests.unit.core.controllers.permits.hosts import (
    CACHED,
    CACHED_BESIDE,
    CAPS,
    POLICY,
    POLLUTER,
    QUIET,
    a_host,
    account,
    with_permit,
)


class Idle(Controller):
    name = "idle"

    def run(self, view, state, settings):
        return Answer(state)


def used(host: Host, name: str = "vm") -> Usage:
    """In one tick."""
    [one] = host.view(name, host.tick()).usage
    return one


def in_all(host: Host, seconds: int, name: str = "vm") -> Usage:
    whole = Usage("")
    for _ in range(seconds):
        whole = total(whole, used(host, name))
    return whole


def test_the_first_tick_bills_nothing():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(900))
    assert used(host) == Usage(UNMEASURED)


def test_a_permit_is_billed_by_wall_time_and_pollution_as_it_is_charged():
    host = a_host()
    host.mode = Mode.OBSERVE
    host.add("vm", POLLUTER, vcpus=2, **with_permit(900))
    host.ticks(2)
    one = used(host)
    assert one.attribution == "plain"
    assert (one.booked_s, one.permit_misses) == (1.0, 1_800_000.0)
    assert one.pollution_misses == pytest.approx(4_500_000, rel=1e-3)
    assert one.sure_misses == one.pollution_misses


def test_pollution_that_is_partly_guessed_is_told_apart():
    host = a_host()
    host.add("lbm", POLLUTER)
    host.ticks(3)
    host.add("vm", CACHED_BESIDE, **with_permit(9000))
    host.ticks(10)
    one = used(host)
    assert one.attribution == "profile"
    assert one.sure_misses == pytest.approx(
        one.pollution_misses * account(host, "vm").charge.sure_ratio
    )
    assert one.sure_misses < one.pollution_misses


def test_all_that_is_billed_is_all_that_the_quota_was_debited():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(4400))
    host.ticks(2)
    before = account(host, "vm").balance
    whole = in_all(host, 20)
    paid = whole.permit_misses - whole.pollution_misses
    assert account(host, "vm").balance - before == pytest.approx(paid)


def test_seconds_over_are_those_that_began_below_zero():
    host = a_host()
    host.mode = Mode.OBSERVE
    host.add("vm", POLLUTER, **with_permit(900))
    host.ticks(2)
    assert account(host, "vm").is_over
    assert used(host).over_s == 1.0
    host.run("vm", QUIET)
    whole = in_all(host, 60)
    assert 0 < whole.over_s < whole.booked_s == 60


def test_time_without_counters_is_booked_and_not_charged():
    host = a_host()
    host.add("vm", POLLUTER, **with_permit(9000))
    host.add("other", QUIET)
    host.ticks(3)
    host.counts.pop(uuid_of("vm"))
    host.rates.pop(uuid_of("vm"))
    one = used(host)
    assert (one.attribution, one.booked_s, one.pollution_misses) == (UNMEASURED, 1.0, 0.0)


def test_who_has_no_permit_is_not_billed():
    host = a_host()
    host.add("vm", POLLUTER)
    assert host.view("vm", host.ticks(3)[-1]).usage == ()


def capped(host: Host) -> None:
    """Over its permit, throttled half of the time."""
    host.add("vm", POLLUTER, **with_permit(900), cpu_times=CpuTimes(0, 0, 0, "1"))
    host.until(OVER)
    host.ticks(2)


def throttle(host: Host, name: str = "vm") -> None:
    was = host.guest(name).cpu_times
    host.change(name, cpu_times=was._replace(throttled_ns=was.throttled_ns + 5 * 10**8))


def test_cpu_taken_is_what_the_cap_of_permits_denied():
    host = a_host()
    capped(host)
    throttle(host)
    assert used(host).cpu_taken_core_s == pytest.approx(0.5)


def test_cpu_that_a_tighter_cap_denies_is_not_taken_by_permits():
    host = a_host()
    capped(host)
    key = (uuid_of("vm"), Knob.CPU_CAP)
    [own] = host.state.claims[key]
    other = own._replace(controller="vp", value=own.value._replace(quota_us=1000))
    host.state = replace(host.state, claims={**host.state.claims, key: (own, other)})
    throttle(host)
    assert used(host).cpu_taken_core_s == 0.0


def test_without_cpu_times_no_cpu_is_taken():
    host = a_host()
    capped(host)
    host.change("vm", cpu_times=None)
    assert used(host).cpu_taken_core_s == 0.0


def in_debt() -> Host:
    host = a_host()
    host.add("other", QUIET)
    host.add("vm", POLLUTER, **with_permit(450))
    host.ticks(5)
    return host


def test_a_reboot_does_not_forgive_what_a_server_owes():
    host = in_debt()
    owed = account(host, "vm").balance
    host.leave("vm")
    host.ticks(3)
    earned = account(host, "vm").balance - owed
    assert earned == pytest.approx(3 * 450_000)
    host.add("vm", POLLUTER, **with_permit(450), generation="2")
    host.tick()
    assert account(host, "vm").balance <= owed + 4 * 450_000
    assert account(host, "vm").is_over


def test_a_server_that_is_gone_is_forgotten_once_its_permit_has_paid():
    host = in_debt()
    host.leave("vm")
    host.ticks(119)
    assert uuid_of("vm") not in host.state.controllers["permits"].by_guest


def restarted(host: Host, seconds: float) -> Host:
    """With another agent, after so long."""
    kept = Permits().kept(host.state.controllers["permits"])
    host.now_s = seconds
    host.state = CoreState(controllers={"permits": kept})
    return host


@pytest.mark.parametrize("now_s", [5.0, 1100.0])
def test_a_restart_of_the_agent_does_not_forgive_it_either(now_s):
    host = in_debt()
    owed = account(host, "vm").balance
    restarted(host, now_s).decide()
    assert account(host, "vm").balance == owed
    assert host.view("vm", host.tick()).usage[0].booked_s == 1.0
    assert account(host, "vm").is_over


def test_who_is_stopped_while_the_agent_restarts_earns_from_then_on():
    host = in_debt()
    owed = account(host, "vm").balance
    host.change("vm", is_running=False)
    restarted(host, 5000.0).decide()
    assert account(host, "vm").balance == owed
    host.tick()
    assert account(host, "vm").balance == owed + 450_000


def test_who_is_away_while_the_agent_restarts_earns_from_then_on():
    host = in_debt()
    owed = account(host, "vm").balance
    host.leave("vm")
    restarted(host, 5000.0).decide()
    assert account(host, "vm").balance == owed
    host.tick()
    assert account(host, "vm").balance == owed + 450_000


def test_what_is_kept_has_no_moment_of_this_run():
    host = in_debt()
    host.add("cached", CACHED, **with_permit(1500))
    host.ticks(10)
    kept = Permits().kept(host.state.controllers["permits"])
    assert isinstance(kept, Accounts)
    assert kept.by_guest.keys() == {uuid_of("vm"), uuid_of("cached")}
    for uuid, one in kept.by_guest.items():
        was = host.state.controllers["permits"].by_guest[uuid]
        assert (one.balance, one.permit, one.own) == (was.balance, was.permit, was.own)
        assert (one.at_s, one.charge, one.cap_ratio) == (None, None, None)


def test_amounts_of_two_add_up():
    one = Usage("plain", *range(1, 7))
    assert total(one, one) == Usage("plain", *range(2, 14, 2))
    assert len(AMOUNTS) == 6


def test_permits_are_booked_in_the_llc_domains_where_their_servers_live():
    host = Host(nodes_of(0, 0, cpus=2), POLICY, knobs=CAPS)
    host.add("a", QUIET, vcpus=2, cpus={0, 1}, **with_permit(900))
    host.add("b", QUIET, cpus={0}, **with_permit(100))
    host.add("none", QUIET, cpus={2})
    assert [one.llc_permits for one in host.tick().domains] == [1900.0, 0.0]
    host.add("floats", QUIET, **with_permit(50))
    assert [one.llc_permits for one in host.tick().domains] == [1925.0, 25.0]


def test_other_controllers_book_nothing():
    host = Host(nodes_of(0), replace(POLICY, controllers=(Enabled(Idle(), NoSettings()),)))
    host.add("a", QUIET, **with_permit(900))
    assert [one.llc_permits for one in host.tick().domains] == [0.0]


def test_other_controllers_keep_nothing_unless_they_say_so():
    assert Idle().kept(NoState()) is None
