# SPDX-License-Identifier: Apache-2.0
"""A busy sibling slows a server, and that is taken for no harm of caches, memory or waiting."""

from dataclasses import replace

import pytest

from nova_vp.core.model.cpu_share import SIBLING_RATIO
from nova_vp.core.model.host import build_host
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.sample import Profile
from tests.unit.core.build import ALL_KNOBS, CHASE, COMPUTE, Host, Rates, hyper_threads, uuid_of
from tests.unit.core.hosts import LIMITS, SENSITIVE, STORM, kinds
from tests.unit.core.wishful import NOBODY

VICTIM = replace(SENSITIVE, cores=1.0)
SPINNER = replace(COMPUTE, mips=2000, cores=1.0)
IDLE = replace(COMPUTE, mips=1.0, cores=0.0)


def slowed(rates: Rates, times: float) -> Rates:
    """It does the same work, in so many times the cycles."""
    return replace(rates, mips=rates.mips / times, cpi=rates.cpi * times)


BESIDE = slowed(VICTIM, 1 / SIBLING_RATIO)


def a_core(sibling: int = 8, victim: Rates = VICTIM) -> Host:
    """A server on CPU 0, an idle one on its sibling; one that may fill their memory, elsewhere."""
    host = Host(hyper_threads(4), NOBODY, knobs=ALL_KNOBS, limits=LIMITS)
    host.add("victim", victim, cpus={0}, node=0)
    host.add("sibling", IDLE, cpus={sibling}, node=0)
    host.add("storm", IDLE, cpus={4}, node=0)
    host.ticks(25)
    return host


def undisturbed(host: Host) -> Profile:
    return host.state.undisturbed[uuid_of("victim")]


@pytest.mark.parametrize(("sibling", "is_degraded"), [(8, False), (9, True)])
def test_cycles_that_a_busy_sibling_explains_are_no_harm_of_a_loaded_controller(
    sibling, is_degraded
):
    host = a_core(sibling)
    host.run("storm", STORM)
    host.run("sibling", SPINNER)
    host.run("victim", BESIDE)
    seen = host.ticks(25)
    assert seen[-1].nodes[0].is_hot
    assert kinds(seen) == ({Kind.CONTROLLER} if is_degraded else set())


def test_what_memory_costs_beyond_that_is_still_harm():
    host = a_core()
    host.run("storm", STORM)
    host.run("sibling", SPINNER)
    host.run("victim", slowed(BESIDE, 1.5))
    assert kinds(host.ticks(25)) == {Kind.CONTROLLER}


def test_after_its_sibling_fell_silent_its_mean_is_still_of_the_time_before():
    host = a_core()
    host.run("storm", STORM)
    host.run("sibling", SPINNER)
    host.run("victim", BESIDE)
    host.ticks(25)
    host.run("sibling", IDLE)
    host.run("victim", VICTIM)
    assert kinds(host.ticks(25)) == set()


def test_a_busy_sibling_is_no_harm_of_caches_and_nobody_waits_for_it():
    host = a_core(victim=replace(CHASE, cores=1.0))
    host.run("sibling", SPINNER)
    host.run("victim", slowed(replace(CHASE, cores=1.0), 1 / SIBLING_RATIO))
    for second in range(25):
        host.change("victim", cpu_times=CpuTimes(second * 10**9, 0, 0, "1"))
        assert not host.tick().detections


def test_what_it_is_when_nobody_disturbs_it_is_kept_while_its_sibling_is_busy():
    host = a_core()
    alone = undisturbed(host)
    host.run("sibling", SPINNER)
    host.run("victim", BESIDE)
    host.ticks(40)
    assert (undisturbed(host).cpi, undisturbed(host).sibling_speed) == (alone.cpi, 1.0)


def test_who_was_first_seen_beside_a_busy_sibling_is_known_better_once_it_falls_silent():
    host = Host(hyper_threads(4), NOBODY, limits=LIMITS)
    host.add("victim", BESIDE, cpus={0}, node=0)
    host.add("sibling", SPINNER, cpus={8}, node=0)
    host.ticks(10)
    assert undisturbed(host).sibling_speed == pytest.approx(SIBLING_RATIO)
    host.run("sibling", IDLE)
    host.run("victim", VICTIM)
    host.ticks(4)
    known = undisturbed(host)
    assert (known.cpi, known.sibling_speed) == (pytest.approx(VICTIM.cpi), 1.0)


def test_who_changes_its_work_beside_a_busy_sibling_is_known_to_be_beside_one():
    host = a_core()
    host.run("sibling", SPINNER)
    host.run("victim", slowed(replace(COMPUTE, cores=1.0), 1 / SIBLING_RATIO))
    host.ticks(10)
    assert undisturbed(host).sibling_speed == pytest.approx(SIBLING_RATIO)


def test_what_a_server_needs_alone_is_told_from_what_its_sibling_cost_it():
    """It computes in COMPUTE's cycles, and had more of them beside a busy sibling."""
    work = replace(COMPUTE, cores=1.0)
    needs = []
    for rates, neighbour in ((work, IDLE), (slowed(work, 1 / SIBLING_RATIO), SPINNER)):
        host = Host(hyper_threads(4), NOBODY)
        host.add("victim", rates, cpus={0}, node=0)
        host.add("sibling", neighbour, cpus={8}, node=0)
        host.ticks(10)
        seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
        needs.append(seen.resident(uuid_of("victim"), host.policy).cpi)
    assert needs[1] == pytest.approx(needs[0])


@pytest.mark.parametrize(("sibling", "is_learned"), [(IDLE, True), (SPINNER, False)])
def test_beside_a_busy_sibling_nobody_learns_what_a_miss_costs(sibling, is_learned):
    host = Host(hyper_threads(4), NOBODY, limits=LIMITS)
    host.add("victim", VICTIM, cpus={0}, node=0)
    host.add("sibling", sibling, cpus={8}, node=0)
    host.ticks(10)
    assert bool(host.state.vps[uuid_of("victim")].miss_cost.weight) == is_learned
