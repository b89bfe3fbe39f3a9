# SPDX-License-Identifier: Apache-2.0
"""From counts to samples: what a poor count says, and what it never says."""

from dataclasses import replace

import pytest

from nova_vp.core.types.sample import Incomplete
from tests.unit.core.build import CHASE, Host, Rates, uuid_of
from tests.unit.core.hosts import a_quiet_pair, onset
from tests.unit.core.wishful import NOBODY, Mover, enabled


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"vcpus_read": 1}, Incomplete.PARTIAL),
        ({"vcpus_read": 0}, Incomplete.RESET),
        ({"running_ratio": 0.3}, Incomplete.MULTIPLEXED),
        ({"generation": "2"}, Incomplete.RESET),
    ],
)
def test_poor_numbers_mean_no_action_and_say_why(change, why):
    """In the very tick in which good ones mean one."""
    for is_poor in (False, True):
        host = a_quiet_pair(policy=enabled(Mover()))
        onset(host)
        host.tick()
        if is_poor:
            host.counts[uuid_of("victim")] = host.counts[uuid_of("victim")]._replace(**change)
            host.change("victim", vcpus=2 if why is Incomplete.PARTIAL else 1)
        decision = host.tick()
        assert host.view("victim", decision).incomplete is (why if is_poor else None)
        assert bool(decision.actions) is not is_poor


COUNTERS = ("instructions", "cycles", "llc_references", "llc_misses", "llc_misses_remote")


@pytest.mark.parametrize("restarted", [*((one,) for one in COUNTERS), COUNTERS])
def test_a_counter_that_restarts_at_zero_is_never_a_negative_rate(restarted):
    host = a_quiet_pair()
    victim = uuid_of("victim")
    host.counts[victim] = host.counts[victim]._replace(llc_misses_remote=1000)
    host.tick()
    host.counts[victim] = host.counts[victim]._replace(**dict.fromkeys(restarted, 0))
    view = host.view("victim", host.tick())
    assert (view.sample, view.incomplete) == (None, Incomplete.RESET)
    assert host.view("victim", host.tick()).incomplete is None


def test_idle_and_stopped_guests_are_not_classified():
    host = Host(policy=NOBODY)
    host.add("idle", Rates(mips=0.1, l2_mpki=50, mpki=50), cpus={0})
    host.add("stopped", CHASE, cpus={0})
    host.change("stopped", is_running=False)
    decision = host.ticks(4)[-1]
    assert host.view("idle", decision).incomplete is Incomplete.IDLE
    assert host.view("idle", decision).state is None
    assert host.view("stopped", decision).incomplete is Incomplete.STOPPED
    assert host.view("stopped", decision).state is None


def test_a_pause_longer_than_a_sample_may_last_is_no_sample():
    host = a_quiet_pair()
    assert host.view("victim", host.tick(span_s=30.0)).incomplete is Incomplete.LATE


def test_a_guest_without_counters_is_shown_as_unreadable():
    host = a_quiet_pair()
    del host.counts[uuid_of("victim")], host.rates[uuid_of("victim")]
    view = host.view("victim", host.tick())
    assert (view.sample, view.incomplete) == (None, Incomplete.UNREADABLE)


def test_whose_cycles_stand_still_is_not_judged_by():
    host = a_quiet_pair()
    host.run("victim", replace(CHASE, cpi=0.0))
    assert host.view("victim", host.tick()).incomplete is Incomplete.UNREADABLE
