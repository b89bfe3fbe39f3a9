# SPDX-License-Identifier: Apache-2.0
"""What must hold of any contention, whatever the figures."""

from itertools import combinations_with_replacement, pairwise

import pytest

from tests.unit.sim.solo import APPS, FOUR_SOCKETS, guests, speeds
from vp_sim.cache import Sharer, shares_mib
from vp_sim.contention import Contention
from vp_sim.loads import Copy
from vp_sim.machine import LINE_BYTES, Private

SINGLE = ["stream", "mcf", "milc", "lbm", "matrix-mult", "word-count", "streaming"]
TOLERANCE = 0.005
COSTS = FOUR_SOCKETS.costs


@pytest.mark.parametrize("names", list(combinations_with_replacement(SINGLE, 2)))
def test_a_neighbour_never_makes_anybody_faster(names):
    victim, neighbour = names
    before = speeds(guests(victim, 0))[0]
    after = speeds(guests(victim, 0), guests(neighbour, 0))[0]
    assert after.instructions_per_s <= before.instructions_per_s * (1 + TOLERANCE)


@pytest.mark.parametrize("name", SINGLE)
def test_another_of_its_kind_never_makes_a_crowd_faster(name):
    crowd = [speeds(*[guests(name, 0)] * n)[0].instructions_per_s for n in (1, 2, 3, 4)]
    assert all(b <= a * (1 + TOLERANCE) for a, b in pairwise(crowd))


@pytest.mark.parametrize("name", SINGLE)
def test_remote_memory_is_never_faster(name):
    local, remote = speeds(guests(name, 0))[0], speeds(guests(name, 1, node=0))[0]
    assert remote.instructions_per_s < local.instructions_per_s
    assert remote.remote_per_s == pytest.approx(remote.misses_per_s)
    assert local.remote_per_s == 0


def test_a_controller_never_moves_more_than_it_can():
    crowd = speeds(*[guests("stream", socket, node=0) for socket in range(4)])
    lines = sum(p.misses_per_s for p in crowd) * (1 + APPS["stream"].writeback_ratio)
    moved_gbps = lines * LINE_BYTES / 1e9
    assert 0.9 * COSTS.node_gbps < moved_gbps <= COSTS.node_gbps * (1 + TOLERANCE)


def test_a_link_never_moves_more_than_it_can():
    crowd = speeds(guests("stream", 1, node=0), guests("stream", 1, node=0))
    moved_gbps = sum(p.remote_per_s for p in crowd) * LINE_BYTES / 1e9
    assert 0.9 * COSTS.link_gbps < moved_gbps <= COSTS.link_gbps * (1 + TOLERANCE)


def test_shares_fill_the_cache_and_more_accesses_hold_more():
    mcf, stream = APPS["mcf"], APPS["stream"]
    few = shares_mib([Sharer(mcf, 5e7), Sharer(stream, 1e8)], 24.0)
    many = shares_mib([Sharer(mcf, 5e7), Sharer(stream, 2e8)], 24.0)
    assert sum(few) == pytest.approx(24.0, rel=1e-3)
    assert sum(many) == pytest.approx(24.0, rel=1e-3)
    assert many[1] > few[1]


def test_who_shares_nothing_does_not_meet():
    apart = speeds(guests("mcf", 0), guests("stream", 1), guests("lbm", 2))
    assert apart[0] == speeds(guests("mcf", 0))[0]


def test_neither_order_nor_socket_matters():
    one = speeds(guests("mcf", 0), guests("stream", 0), guests("milc", 1))
    other = speeds(guests("milc", 2), guests("stream", 3), guests("mcf", 3))
    assert one == tuple(reversed(other))


def test_memory_on_its_way_slows_both_ends():
    contention = Contention(FOUR_SOCKETS)
    loads = [*guests("milc", 0), *guests("milc", 1)]
    quiet = contention.speeds(loads)
    moving = contention.speeds(loads, [Copy(source=0, target=1, gbps=14.0)])
    assert all(
        m.instructions_per_s < 0.98 * q.instructions_per_s
        for m, q in zip(moving, quiet, strict=True)
    )


def test_an_idle_guest_does_nothing_and_takes_nothing():
    idle = guests("stream", 0)[0]._replace(cores=())
    both = speeds(guests("mcf", 0), [idle])
    assert both[1].instructions_per_s == 0
    assert both[0] == speeds(guests("mcf", 0))[0]


def test_one_level_up_the_same_misses_have_more_references():
    smp = FOUR_SOCKETS._replace(private=Private.L1)
    above = Contention(smp).speeds(guests("mcf", 0))[0]
    below = speeds(guests("mcf", 0))[0]
    assert above.memory_factor < below.memory_factor
    assert above.mpki == pytest.approx(below.mpki, rel=0.01)
