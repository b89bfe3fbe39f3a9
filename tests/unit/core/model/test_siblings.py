# SPDX-License-Identifier: Apache-2.0
"""CPUs of one core: what busy siblings cost each other, and that a free core comes first."""

from dataclasses import replace

import pytest

from nova_vp.core.model.candidate import idlest_first, within_allotment
from nova_vp.core.model.cpu_share import SIBLING_RATIO, cpu_speed, sibling_speeds
from nova_vp.core.model.host import Host as Seen
from nova_vp.core.model.host import build_host
from nova_vp.core.model.location import Location, location_of
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.topology import LlcDomain
from tests.unit.core.build import COMPUTE, Host, hyper_threads, uuid_of
from tests.unit.core.wishful import NOBODY

BUSY = replace(COMPUTE, mips=2000, cores=1.0)
DOMAIN = hyper_threads(4).domains[0]
"""CPUs 0 to 3 and 8 to 11, of four cores."""
PAIR = frozenset({0, 8})


def cpus(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def seen(host: Host) -> Seen:
    return build_host(host.picture(), host.state.vps, host.state.undisturbed)


def model(host: Host) -> WhatIfModel:
    return WhatIfModel(seen(host), host.limits, host.policy)


def busy_host(**places: set[int]) -> Host:
    """Servers of one vCPU each, all of a CPU busy, on two nodes of four cores, eight CPUs."""
    host = Host(hyper_threads(4), NOBODY)
    for name, cpus_of_it in places.items():
        host.add(name, BUSY, cpus=cpus_of_it)
    host.ticks(6)
    return host


def test_cores_are_counted_and_cpus_that_share_none_are_cores_of_their_own():
    mixed = LlcDomain(0, 0, frozenset(range(6)), (cpus(0, 1), cpus(2, 3)))
    assert (DOMAIN.cores, mixed.cores) == (4, 4)
    assert mixed.cores_among(cpus(0, 1)) == 1
    assert mixed.cores_among(cpus(0, 2, 4, 9)) == 3
    assert LlcDomain(0, 0, frozenset(range(6))).cores == 6


@pytest.mark.parametrize(
    ("other", "speed"),
    [
        pytest.param({cpus(8): 1.0}, SIBLING_RATIO, id="its sibling"),
        pytest.param({cpus(8): 0.5}, 1 - 0.5 * (1 - SIBLING_RATIO), id="half busy"),
        pytest.param({cpus(8): 3.0}, SIBLING_RATIO, id="crowded"),
        pytest.param({cpus(8): 0.0}, 1.0, id="idle"),
        pytest.param({cpus(9): 1.0}, 1.0, id="another core"),
        pytest.param({DOMAIN.cpus: 3.0}, 1.0, id="who can go elsewhere does"),
        pytest.param({DOMAIN.cpus: 7.0}, SIBLING_RATIO, id="nobody can"),
        pytest.param({PAIR: 1.0}, SIBLING_RATIO, id="a free sibling before a busy CPU"),
    ],
)
def test_who_is_pinned_to_one_cpu_is_slowed_by_its_busy_siblings(other, speed):
    wanted = {cpus(0): 1.0, **other}
    assert sibling_speeds(DOMAIN, wanted)[cpus(0)] == pytest.approx(speed)


def test_who_may_choose_goes_to_an_idle_core_however_cpus_are_numbered():
    domain = hyper_threads(2, is_side_by_side=True).domains[0]
    wanted = {cpus(0): 1.0, domain.cpus: 1.0}
    assert set(sibling_speeds(domain, wanted).values()) == {1.0}


@pytest.mark.parametrize("wanted", [0.0, 0.7, 4.0, 4.5, 6.0, 8.0])
def test_where_all_may_go_anywhere_it_is_the_speed_of_a_whole_domain(wanted):
    [speed] = sibling_speeds(DOMAIN, {DOMAIN.cpus: wanted}).values()
    assert speed == pytest.approx(cpu_speed(wanted, 8, 4))


def test_without_siblings_nobody_is_slowed():
    plain = LlcDomain(0, 0, DOMAIN.cpus)
    assert set(sibling_speeds(plain, {cpus(0): 1.0, cpus(8): 1.0}).values()) == {1.0}


def test_two_on_the_siblings_of_one_core_are_foretold_to_lose_and_apart_nothing():
    host = busy_host(one={0}, other={8}, apart={1})
    asked = model(host)
    lost = pytest.approx(1 - SIBLING_RATIO)
    assert [asked.loss(uuid_of(name)) for name in ("one", "other", "apart")] == [lost, lost, 0.0]
    there = Location({0: 1.0}, {0: 1.0}, cpus=cpus(2))
    gain = asked.evaluate({uuid_of("other"): there})
    assert gain.by_guest[uuid_of("one")] == gain.by_guest[uuid_of("other")] == lost
    assert gain.by_guest[uuid_of("apart")] == 0.0


def test_a_newcomer_on_a_siblings_core_costs_both_of_them_cpu():
    host = busy_host(one={0}, away={4})
    beside, apart = (
        model(host).predict(uuid_of("away"), Location({0: 1.0}, {0: 1.0}, cpus=cpus(cpu)))
        for cpu in (8, 9)
    )
    assert beside.newcomer_ratio == beside.worst_resident_ratio == pytest.approx(0.35, abs=0.01)
    assert beside.resource is Kind.CPU
    assert (apart.newcomer_ratio, apart.worst_resident_ratio) == (0.0, 0.0)


def test_who_may_use_all_of_its_places_is_pinned_to_none():
    host = busy_host(wide=set(DOMAIN.cpus), narrow={0, 8})
    assert location_of(seen(host), uuid_of("wide")).cpus == frozenset()
    assert location_of(seen(host), uuid_of("narrow")).cpus == PAIR


def test_idle_siblings_are_foretold_nothing():
    lost = []
    for cpu in (8, 9):
        host = Host(hyper_threads(4), NOBODY)
        for name, own in (("one", 0), ("other", cpu)):
            host.add(name, replace(BUSY, mips=2.0, cores=0.0), cpus={own})
        host.ticks(6)
        lost.append(model(host).loss(uuid_of("one")))
    assert lost == [0.0, 0.0]


def test_a_free_core_comes_before_a_free_sibling_and_that_before_a_busy_cpu():
    host = busy_host(one={0}, two={1})
    of = dict.fromkeys(DOMAIN.cpus, 0.0) | {0: 1.0, 1: 1.0}
    order = list(idlest_first(seen(host), DOMAIN.cpus, of, part=1.0))
    assert [set(order[:2]), set(order[2:6]), set(order[6:])] == [{2, 3}, {8, 9, 10, 11}, {0, 1}]


@pytest.mark.parametrize("number", [0, 1])
def test_an_allotment_is_given_as_many_cores_as_it_has_cpus(number):
    """However siblings are numbered: as Linux does on most machines, or side by side."""
    host = Host(hyper_threads(4, is_side_by_side=bool(number)), NOBODY)
    for name in ("one", "two"):
        host.add(name, BUSY, cpus={0, 1}, vcpus=2)
    host.ticks(6)
    there = host.topology.domains[1]
    settings = [Setting(uuid_of(n), Knob.PLACEMENT, (there.cpus,)) for n in ("one", "two")]
    given = [setting.value[0] for setting in within_allotment(seen(host), settings)]
    assert there.cores_among(given[0] | given[1]) == 4
