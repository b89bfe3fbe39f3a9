# SPDX-License-Identifier: Apache-2.0
"""Rooms and allotments: as many CPUs as a guest was given go along, and nobody gets one twice."""

from dataclasses import replace

import pytest

from nova_vp.core.model.candidate import has_room, unit_of, within_allotment
from nova_vp.core.model.host import build_host
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.knob import Knob
from tests.unit.core.build import ALL_KNOBS, COMPUTE, Host, nodes_of, uuid_of
from tests.unit.core.wishful import NOBODY

BUSY = replace(COMPUTE, cores=0.9)


def test_who_changes_places_gets_no_cpu_that_another_one_gets_at_once():
    host = Host(nodes_of(0, 1, cpus=4), NOBODY, knobs=ALL_KNOBS)
    for name, cpus, node in (("one", {0}, 0), ("other", {4}, 1), ("bound", {5}, 1)):
        host.add(name, replace(BUSY, cores=0.5), cpus=cpus, vcpus=2, node=node)
    host.ticks(6)
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    settings = [Setting(uuid_of("one"), Knob.PLACEMENT, (frozenset({4, 5, 6, 7}),))]
    [narrowed] = within_allotment(seen, settings, taken={6})
    assert narrowed.value == (frozenset({7}),)
    one, there = unit_of(seen, uuid_of("one")), seen.domains_of[uuid_of("other")]
    assert has_room(seen, there, one, taken={6})
    assert not has_room(seen, there, one, taken={6, 7})


def test_of_those_who_move_together_only_who_has_an_allotment_is_narrowed():
    host = Host(nodes_of(0, 1), NOBODY, knobs=ALL_KNOBS)
    for name, cpus in (("narrow", {0}), ("wide", {0, 1})):
        host.add(name, replace(BUSY, cores=0.5), cpus=cpus, node=0)
    host.ticks(6)
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    there = (frozenset({2, 3}),)
    settings = [Setting(uuid_of(name), Knob.PLACEMENT, there) for name in ("narrow", "wide")]
    narrow, wide = within_allotment(seen, settings)
    assert (narrow.value, wide.value) == ((frozenset({2}),), there)


@pytest.mark.parametrize("first", ["bound", "free"])
def test_who_takes_all_the_cpus_that_it_may_use_there_leaves_the_idle_ones_to_the_other(first):
    host = Host(nodes_of(0, 1, cpus=4), NOBODY, knobs=ALL_KNOBS)
    bound = frozenset({0, 1, 2, 4, 5})
    host.add("bound", BUSY, cpus={0, 1}, vcpus=2, node=0, allowed_cpus=bound)
    host.add("free", BUSY, cpus={3}, node=0)
    host.ticks(6)
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    places = {"bound": frozenset({4, 5}), "free": frozenset({4, 5, 6, 7})}
    settings = [
        Setting(uuid_of(name), Knob.PLACEMENT, (places[name],))
        for name in sorted(places, key=lambda name: name != first)
    ]
    given = {one.guest_uuid: one.value for one in within_allotment(seen, settings)}
    assert given[uuid_of("bound")] == (frozenset({4, 5}),)
    assert given[uuid_of("free")] == (frozenset({6}),)
