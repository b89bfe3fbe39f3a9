# SPDX-License-Identifier: Apache-2.0
"""Nobody pays for what neighbours do to it."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.permits.declaration import How
from tests.unit.core.build import Host, Rates, nodes_of
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

PERMIT = with_permit(1500)


def charge(host: Host, name: str = "vm"):
    return account(host, name).charge


def test_who_misses_rarely_is_read_plainly_whoever_is_beside_it():
    host = a_host()
    host.add("vm", QUIET, **PERMIT)
    host.add("lbm", POLLUTER)
    host.ticks(5)
    assert charge(host)[0] == pytest.approx(50)
    assert (charge(host).how, charge(host).sure_ratio) == (How.PLAIN, 1.0)


def test_who_is_beside_those_that_miss_rarely_is_read_plainly():
    host = a_host()
    host.add("vm", CACHED_BESIDE, **PERMIT)
    host.add("web", QUIET)
    host.ticks(5)
    assert charge(host).llc_cap_act == pytest.approx(1600)
    assert charge(host).how is How.PLAIN


def test_who_shares_no_cache_with_polluters_is_read_plainly():
    host = Host(nodes_of(0, 0, cpus=2), POLICY, knobs=CAPS)
    host.add("vm", CACHED, cpus={0, 1}, **PERMIT)
    host.add("lbm", POLLUTER, cpus={2, 3})
    host.ticks(5)
    assert charge(host).how is How.PLAIN
    host.change("lbm", placement=frozenset({0, 1}))
    host.ticks(3)
    assert charge(host).how is How.PROFILE


def test_beside_polluters_its_undisturbed_profile_says_which_misses_are_its_own():
    host = a_host()
    host.add("vm", CACHED, **PERMIT)
    host.ticks(20)
    host.add("lbm", POLLUTER)
    host.run("vm", CACHED_BESIDE)
    host.ticks(10)
    # It gets half as far, and of what it asks of the cache misses 0.3 by its own doing.
    assert charge(host).llc_cap_act == pytest.approx(600, rel=0.05)
    assert charge(host).how is How.PROFILE
    assert charge(host).sure_ratio == pytest.approx(1.0, rel=0.05)
    assert not account(host, "vm").is_over


@pytest.mark.parametrize("speed", [1.0, 0.8])
def test_an_innocent_server_is_charged_at_most_5_percent_more_than_alone(speed):
    """Beside polluters it misses half as much again; each sample is off by up to a tenth."""
    host = a_host()
    host.add("vm", CACHED, **PERMIT)
    host.ticks(20)
    alone = charge(host).misses_per_ms
    host.add("lbm", POLLUTER)
    charges = []
    for second in range(60):
        off = 1 + 0.1 * (second % 3 - 1)
        host.run("vm", replace(CACHED, mips=100 * speed, cpi=4.0 / speed, mpki=18.0 * off))
        host.tick()
        charges.append(charge(host).misses_per_ms)
    assert 0.95 * speed * alone < sum(charges) / 60 <= 1.05 * alone


def test_a_polluter_beside_polluters_pays_all_of_it():
    host = a_host()
    host.add("vm", POLLUTER, **PERMIT)
    host.add("lbm", POLLUTER)
    host.ticks(10)
    assert charge(host).llc_cap_act == pytest.approx(4500, rel=0.01)


def test_it_is_never_charged_more_than_it_missed():
    host = a_host()
    host.add("vm", POLLUTER, **PERMIT)
    host.add("lbm", POLLUTER)
    host.ticks(20)
    host.run("vm", replace(POLLUTER, mpki=30.0))
    host.tick()
    assert charge(host).llc_cap_act == pytest.approx(3000)


def test_a_profile_that_was_taken_beside_polluters_is_less_sure_and_charges_less():
    host = a_host()
    host.add("lbm", POLLUTER)
    host.ticks(3)
    host.add("vm", CACHED_BESIDE, **PERMIT)
    host.ticks(10)
    assert charge(host).how is How.PROFILE
    assert charge(host).llc_cap_act < 1600
    assert charge(host).sure_ratio == pytest.approx(charge(host).llc_cap_act / 1600, rel=0.01)


def test_a_profile_of_other_work_is_less_sure():
    host = a_host()
    host.add("vm", POLLUTER, **PERMIT)
    host.add("lbm", POLLUTER)
    host.ticks(20)
    host.run("vm", replace(POLLUTER, l2_mpki=22.5, mpki=22.5))
    host.tick()
    assert charge(host).sure_ratio < 0.6


def test_without_a_profile_what_the_model_blames_on_others_is_not_charged():
    host = a_host()
    host.add("lbm", POLLUTER)
    host.ticks(5)
    host.add("vm", CACHED_BESIDE, **PERMIT)
    host.ticks(2)
    assert charge(host).how is How.ESTIMATE
    assert 0 < charge(host).llc_cap_act < 1600
    assert charge(host).sure_ratio < 1.0


def test_who_cannot_be_measured_is_not_taken_for_one_that_misses_rarely():
    host = a_host()
    host.add("vm", CACHED, **PERMIT)
    host.ticks(5)
    assert charge(host).how is How.PLAIN
    uuid = host.add("new", QUIET)
    host.rates.pop(uuid), host.counts.pop(uuid)
    host.ticks(2)
    assert charge(host).how is How.PROFILE


def test_what_was_learned_undisturbed_is_kept_beside_polluters():
    """Its memory factor doubles within its class, beside too few misses to tell that from its own
    doing: nobody calls that interference."""
    host = a_host()
    host.add("vm", Rates(mips=1000, l2_mpki=14.0, mpki=1.4, cpi=1.0, cores=1.0), **PERMIT)
    host.ticks(20)
    host.add("lbm", replace(POLLUTER, mips=2500 / POLLUTER.mpki))
    host.run("vm", Rates(mips=900, l2_mpki=14.0, mpki=2.8, cpi=1.1, cores=1.0))
    host.ticks(60)
    assert charge(host).llc_cap_act == pytest.approx(900 * 1.4, rel=0.02)


def test_other_work_is_learned_anew():
    host = a_host()
    host.add("vm", CACHED, **with_permit(9000))
    host.ticks(20)
    host.add("lbm", POLLUTER)
    host.run("vm", Rates(mips=100, l2_mpki=20.0, mpki=18.0, cpi=4.0, cores=1.0))
    host.ticks(30)
    assert charge(host).llc_cap_act == pytest.approx(1800, rel=0.05)


def test_once_polluters_leave_it_is_learned_without_the_model():
    host = a_host()
    host.add("lbm", POLLUTER)
    host.ticks(3)
    host.add("vm", CACHED_BESIDE, **PERMIT)
    host.ticks(10)
    assert charge(host).sure_ratio < 1.0
    host.run("lbm", QUIET)
    host.run("vm", CACHED)
    host.ticks(10)
    host.run("lbm", POLLUTER)
    host.run("vm", CACHED_BESIDE)
    host.ticks(3)
    assert (charge(host).how, charge(host).sure_ratio) == (How.PROFILE, pytest.approx(1.0))
    assert charge(host).llc_cap_act == pytest.approx(600, rel=0.02)


def test_one_plain_sample_is_enough_to_know_it():
    host = a_host()
    host.add("vm", CACHED, **PERMIT)
    host.ticks(2)
    host.add("lbm", POLLUTER)
    host.run("vm", CACHED_BESIDE)
    host.tick()
    assert charge(host).how is How.PROFILE
    assert charge(host).llc_cap_act == pytest.approx(600, rel=0.01)


IN_CACHE = replace(CACHED, mpki=0.0)
"""All that it uses lies in the LLC."""


def test_who_never_misses_alone_pays_nothing_beside_polluters():
    host = a_host()
    host.add("vm", IN_CACHE, **PERMIT)
    host.ticks(5)
    assert account(host, "vm").own.memory_factor == 0.0
    host.add("lbm", POLLUTER)
    host.run("vm", CACHED_BESIDE)
    host.ticks(5)
    assert (charge(host).llc_cap_act, charge(host).how) == (0.0, How.PROFILE)
    assert charge(host).sure_ratio == pytest.approx(1.0)


def test_who_never_misses_alone_pays_nothing_after_a_restart_either():
    """Its undisturbed profile outlives the agent, its account does not."""
    host = a_host()
    host.add("vm", IN_CACHE, **PERMIT)
    host.ticks(20)
    host.add("lbm", POLLUTER)
    host.run("vm", CACHED_BESIDE)
    host.state = replace(host.state, controllers={})
    host.ticks(5)
    assert (charge(host).llc_cap_act, charge(host).how) == (0.0, How.PROFILE)
    assert charge(host).sure_ratio == pytest.approx(1.0)
