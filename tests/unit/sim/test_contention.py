# SPDX-License-Identifier: Apache-2.0
"""What must hold of any contention, whatever the figures."""

from itertools import combinations_with_replacement, pairwise

import pytest

from tests.unit.sim.solo import APPS, FOUR_SOCKETS, guests, speeds
from vp_sim.cache import Sharer, shares_mib
from vp_sim.contention import Contention
from vp_sim.loads import Copy
from vp_sim.machine import LINE_BYTES, Private
from vp_sim.queues import QueueForm, scaled_wait_ns

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
    # Three quarters of the lines come after another guest's.
    bears_gbps = COSTS.node_gbps / (1 + 0.75 * COSTS.row_conflict_ratio)
    assert 0.9 * bears_gbps < moved_gbps <= bears_gbps * (1 + TOLERANCE)


def test_a_link_never_moves_more_than_it_can():
    crowd = speeds(guests("stream", 1, node=0), guests("stream", 1, node=0))
    moved_gbps = sum(p.remote_per_s for p in crowd) * LINE_BYTES / 1e9
    assert 0.9 * COSTS.link_gbps < moved_gbps <= COSTS.link_gbps * (1 + TOLERANCE)


@pytest.mark.parametrize("form", QueueForm)
def test_guests_that_are_served_in_turn_get_less_out_of_a_controller(form):
    """Two close each other's rows, and a weak one hardly closes those of a strong one."""
    machine = FOUR_SOCKETS._replace(queue_form=form)

    def moved_gbps(*names):
        loads = [load for name in names for load in guests(name, 0)]
        found = zip(loads, Contention(machine).speeds(loads), strict=True)
        lines = sum(s.misses_per_s * (1 + load.app.writeback_ratio) for load, s in found)
        return lines * LINE_BYTES / 1e9

    two = COSTS.node_gbps / (1 + 0.5 * COSTS.row_conflict_ratio)
    assert moved_gbps("stream") < moved_gbps("stream", "stream") < two * (1 + TOLERANCE)
    assert moved_gbps("stream", "word-count") > 0.9 * moved_gbps("stream")


def test_who_has_little_of_the_traffic_waits_more_often_for_its_row():
    """The line before was another guest's as often as that has of the traffic."""
    loads = [*guests("stream", 0), *guests("stream", 0, cores=0.1)]
    bare = FOUR_SOCKETS._replace(costs=COSTS._replace(row_conflict_ns=0.0))
    pairs = zip(*(Contention(m).speeds(loads) for m in (FOUR_SOCKETS, bare)), strict=True)
    strong, weak = (with_rows.cpi / without.cpi - 1 for with_rows, without in pairs)
    assert weak > 5 * strong > 0


@pytest.mark.parametrize("form", QueueForm)
def test_a_wait_grows_with_the_load_and_without_limit(form):
    def wait_ns(load):
        return scaled_wait_ns(form, load, 2.56, 4.0, 135.0) / (1 - load)

    loads = [number / 200 for number in range(200)]
    assert wait_ns(0.0) == 0.0
    assert all(a <= b for a, b in pairwise(map(wait_ns, loads)))
    assert wait_ns(0.9999) > 1000


def test_one_channel_queues_as_mm1_does_and_more_of_them_less():
    """Known answers: at half load one server makes a line wait for one more."""
    one = scaled_wait_ns(QueueForm.CHANNELS, 0.5, 10.0, 1.0, 100.0) / 0.5
    assert one == pytest.approx(10.0)
    # Erlang's C for four servers at half load is 0.174: 40 ns * 0.174 / (4 * 0.5).
    four = scaled_wait_ns(QueueForm.CHANNELS, 0.5, 10.0, 4.0, 100.0) / 0.5
    assert four == pytest.approx(3.48, rel=0.4)


def test_two_streams_lose_more_on_one_node_than_a_bare_controller_would_cost_them():
    bare = FOUR_SOCKETS.costs._replace(row_conflict_ratio=0.0, row_conflict_ns=0.0)
    loads = [*guests("stream", 0), *guests("stream", 0)]
    with_rows = Contention(FOUR_SOCKETS).speeds(loads)[0]
    without = Contention(FOUR_SOCKETS._replace(costs=bare)).speeds(loads)[0]
    assert with_rows.cpi > 1.2 * without.cpi


def test_an_intensity_weight_below_one_leaves_more_to_the_weak():
    mcf, stream = APPS["mcf"], APPS["stream"]
    sharers = [Sharer(mcf, 5e7), Sharer(stream, 2e8)]
    lru, even = shares_mib(sharers, 24.0), shares_mib(sharers, 24.0, 0.5)
    assert even[0] > lru[0]
    assert sum(even) == pytest.approx(24.0, rel=1e-3)


def test_a_busy_sibling_slows_what_a_core_does_and_not_what_memory_does():
    one = guests("mcf", 0)[0]
    beside = one._replace(core_share=COSTS.sibling_ratio)
    alone, crowded = speeds([one])[0], speeds([beside])[0]
    slower = alone.instructions_per_s / crowded.instructions_per_s
    assert 1.2 < slower < 1 / COSTS.sibling_ratio


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
