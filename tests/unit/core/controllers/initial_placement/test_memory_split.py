# SPDX-License-Identifier: Apache-2.0
"""Memory of a newcomer that its flavor splits over several nodes, by percentage."""

import pytest

from nova_vp.core.controllers.initial_placement.declaration import HOME, MEMORY_SPLIT
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.policies import a_policy
from tests.unit.core.build import ALL_KNOBS, COMPUTE, Host, nodes_of

POLICY = a_policy(controllers=("initial_placement",))


HALVES = "50,50"
QUARTER_AWAY = "75,25"


def split_host(topology: Topology, split: str, **fields) -> Host:
    keys = ((MEMORY_SPLIT.key, split),) if split else ()
    host = Host(topology, POLICY, knobs=ALL_KNOBS)
    host.add("vm", COMPUTE, node=0, controller_keys=keys, **fields)
    host.tick()
    return host


def shares(host: Host, name: str = "vm") -> dict[int, float]:
    return dict(host.guest(name).memory_shares)


@pytest.mark.parametrize(
    ("split", "by_node"), [(HALVES, {0: 0.5, 1: 0.5}), (QUARTER_AWAY, {0: 0.75, 1: 0.25})]
)
def test_memory_is_split_at_creation_by_the_percentages_of_the_flavor(split, by_node):
    host = split_host(nodes_of(0, 1), split)
    assert host.placement("vm") == {0, 1}
    assert shares(host) == pytest.approx(by_node)


def test_the_other_shares_go_to_the_nearest_nodes():
    distances = ((0, 1, 31), (0, 2, 16), (0, 3, 31))
    topology = Topology(
        tuple(LlcDomain(n, n, frozenset({2 * n, 2 * n + 1})) for n in range(4)), distances
    )
    assert set(shares(split_host(topology, QUARTER_AWAY))) == {0, 2}


def test_a_split_over_more_nodes_than_there_are_is_left_out():
    host = split_host(nodes_of(0, 1), "40,30,30")
    assert shares(host) == {0: 1.0}
    assert host.placement("vm") == {0, 1}, "it is placed all the same"


def test_memory_that_cannot_move_is_not_split():
    host = split_host(nodes_of(0, 1), HALVES, memory_obstacle="huge pages")
    assert shares(host) == {0: 1.0}
    assert host.placement("vm") == {0, 1}


def test_without_a_split_homing_moves_no_memory():
    host = split_host(nodes_of(0, 1), "")
    assert [a.reason for o in host.outcomes for a in [o.action]] == [HOME]
    assert all(c.knob is Knob.PLACEMENT for o in host.outcomes for c in o.action.changes)


def test_the_first_share_stays_where_the_vcpus_are():
    topology = nodes_of(0, 1)
    host = Host(topology, POLICY, knobs=ALL_KNOBS)
    host.add("first", COMPUTE, cpus={0, 1}, vcpus=2, node=0)
    keys = ((MEMORY_SPLIT.key, QUARTER_AWAY),)
    host.add("vm", COMPUTE, node=0, controller_keys=keys)
    host.tick()
    assert host.placement("vm") == {2, 3}
    assert shares(host) == pytest.approx({0: 0.25, 1: 0.75})


def test_percentages_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match="adds up to 90"):
        MEMORY_SPLIT.read("60,30")
