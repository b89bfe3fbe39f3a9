# SPDX-License-Identifier: Apache-2.0
"""Creation: where a newcomer's vCPUs and memory go, and the servers of one VP together."""

import pytest

from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Homing, Policy
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    nodes_of,
    uuid_of,
)

HALVES = ((0, 0.5), (1, 0.5))
QUARTER_AWAY = ((0, 0.75), (1, 0.25))


def split_host(topology: Topology, split, **fields) -> Host:
    host = Host(topology, knobs=ALL_KNOBS)
    host.add("vm", COMPUTE, node=0, memory_split=split, **fields)
    host.tick()
    return host


def shares(host: Host, name: str = "vm") -> dict[int, float]:
    return dict(host.guest(name).memory_shares)


@pytest.mark.parametrize("split", [HALVES, QUARTER_AWAY])
def test_memory_is_split_at_creation_by_the_percentages_of_the_flavor(split):
    host = split_host(nodes_of(0, 1), split)
    assert host.placement("vm") == {0, 1}
    assert shares(host) == pytest.approx(dict(split))


def test_the_other_shares_go_to_the_nearest_nodes():
    distances = ((0, 1, 31), (0, 2, 16), (0, 3, 31))
    topology = Topology(
        tuple(LlcDomain(n, n, frozenset({2 * n, 2 * n + 1})) for n in range(4)), distances
    )
    assert set(shares(split_host(topology, QUARTER_AWAY))) == {0, 2}


def test_a_split_over_more_nodes_than_there_are_is_left_out():
    three = ((0, 0.4), (1, 0.3), (2, 0.3))
    assert shares(split_host(nodes_of(0, 1), three)) == {0: 1.0}


def test_memory_that_cannot_move_is_not_split():
    host = split_host(nodes_of(0, 1), HALVES, memory_obstacle="huge pages")
    assert shares(host) == {0: 1.0}
    assert host.placement("vm") == {0, 1}


def test_without_a_split_homing_moves_no_memory():
    host = split_host(nodes_of(0, 1), ())
    assert [a.reason for o in host.outcomes for a in [o.action]] == [Reason.HOME]
    assert all(c.knob is Knob.PLACEMENT for o in host.outcomes for c in o.action.changes)


def test_the_servers_of_one_vp_are_homed_together_and_strangers_apart():
    host = Host(nodes_of(0, 1))
    host.add("one", COMPUTE, group="store")
    host.add("other", COMPUTE, group="store")
    host.add("stranger", COMPUTE, group="store", project_id="p2")
    host.tick()
    assert host.placement("one") == host.placement("other")
    assert host.placement("stranger") != host.placement("one")


def test_a_server_that_joins_its_vp_later_finds_it():
    host = Host(nodes_of(0, 1))
    host.add("one", COMPUTE, group="store")
    host.ticks(3)
    host.add("other", COMPUTE, group="store")
    host.ticks(3)
    assert host.placement("other") == host.placement("one")


def test_those_who_come_at_once_are_spread_whoever_is_listed_first():
    host = Host(nodes_of(0, 1))
    for name, vcpus in (("one", 1), ("other", 1), ("wide", 2)):
        host.add(name, COMPUTE, vcpus=vcpus, project_id=name)
    host.tick()
    assert host.placement("one") == host.placement("other") != host.placement("wide")


def test_a_vp_whose_place_is_full_goes_on_elsewhere():
    host = Host(nodes_of(0, 1))
    for name in ("one", "two", "three"):
        host.add(name, COMPUTE, vcpus=2, group="store")
    host.tick()
    assert len({frozenset(host.placement(n)) for n in ("one", "two", "three")}) == 2


@pytest.mark.parametrize(("group", "suspects"), [("", ["sibling"]), ("store", [])])
def test_servers_of_one_vp_never_suspect_each_other(group, suspects):
    host = Host(nodes_of(0, 1), Policy(home_on_arrival=Homing.NEVER))
    host.add("victim", CHASE, cpus={0, 1}, group=group)
    host.add("sibling", COMPUTE, cpus={0, 1}, group=group)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("sibling", STREAM)
    decisions = host.ticks(3)
    found = {
        s.guest_uuid
        for decision in decisions
        for detection in decision.detections
        if detection.kind is Kind.CACHE
        for s in detection.suspects
    }
    assert found == {uuid_of(name) for name in suspects}


@pytest.mark.parametrize("until", [Unmanaged.ORDERED_OUT, Unmanaged.LEAVING])
def test_who_was_let_go_of_gets_a_home_again_once_it_is_opted_in_or_stays_after_all(until):
    host = Host(nodes_of(0, 1), policy=Policy(home_on_arrival=Homing.ALWAYS))
    uuid = host.add("vm", COMPUTE)
    host.tick()
    assert host.placement("vm") == {0, 1}
    original, everywhere = host.applied.pop(uuid), host.topology.cpus
    assert original
    host.guests[uuid] = host.guests[uuid]._replace(placement=everywhere, unmanaged=until)
    host.ticks(2)
    assert host.placement("vm") == everywhere
    host.guests[uuid] = host.guests[uuid]._replace(unmanaged=None)
    host.ticks(2)
    assert host.placement("vm") == {0, 1}
