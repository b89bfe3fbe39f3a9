# SPDX-License-Identifier: Apache-2.0
"""What is told of many runs: percentiles over start orders, and where applications end."""

from statistics import quantiles

import pytest
from rich.console import Console

from vp_sim.compare import Comparison
from vp_sim.host import Tally
from vp_sim.machine import THESIS_SHAPE
from vp_sim.measure import judge
from vp_sim.mixes import MIXES
from vp_sim.output import as_json, show_comparison
from vp_sim.placement import VmPlace
from vp_sim.policies import find
from vp_sim.run import Run, simulate, world_of

TOPOLOGY = THESIS_SHAPE.topology()
CPUS = {d.node: d.cpus for d in TOPOLOGY.domains}


def a_run(seconds: float = 300.0, nodes: dict[str, tuple[int, ...]] | None = None) -> Run:
    """Its second application always takes 300 s; each VM on one of the nodes."""
    nodes = nodes or {"stream-1": (1,), "stream-2": (2,)}
    final = {
        label: tuple(VmPlace(CPUS[node], ((node, 1.0),)) for node in some)
        for label, some in nodes.items()
    }
    return Run({"stream-1": seconds, "stream-2": 300.0}, Tally(guest_core_s=1.0), seconds, final)


BEST_S = {"stream-1": 300.0, "stream-2": 300.0}


def test_the_95th_percentile_is_of_the_worst_by_start_order():
    worst = [n / 100 for n in range(41)]
    result = judge([a_run(300.0 * (1 + lost)) for lost in worst], BEST_S, TOPOLOGY)
    assert result.worst_degradation == pytest.approx(0.40)
    assert result.p95_worst == pytest.approx(quantiles(worst, n=20, method="inclusive")[-1])
    assert result.p95_worst == pytest.approx(0.38)


def test_of_one_order_the_95th_percentile_is_that_order():
    result = judge([a_run(330.0)], BEST_S, TOPOLOGY)
    assert result.p95_worst == result.worst_degradation == pytest.approx(0.1)


def test_final_nodes_are_told_by_start_order_and_who_ends_apart_is_counted():
    ends = [
        {"stream-1": (1,), "stream-2": (2,)},
        {"stream-1": (3,), "stream-2": (3,)},
        {"stream-1": (1, 2), "stream-2": (3,)},
        {"stream-1": (1, 2), "stream-2": (2,)},
    ]
    result = judge([a_run(nodes=nodes) for nodes in ends], BEST_S, TOPOLOGY)
    comparison = Comparison({"baseline": result}, (), BEST_S)
    shown = as_json("two", comparison)["policies"]["baseline"]["applications"]
    assert shown["stream-1"]["final_nodes"] == [[1], [3], [1, 2], [1, 2]]
    assert shown["stream-2"]["final_nodes"] == [[2], [3], [3], [2]]
    screen = Console(markup=False, width=100)
    with screen.capture() as told:
        show_comparison(screen, "two", comparison)
    rows = [line.replace("│", " ").split() for line in told.get().splitlines()]
    assert ["2", "stream", "2", "of", "4"] in rows


def test_a_run_ends_where_its_policy_left_everybody():
    world = world_of(MIXES["merlin"])
    create = find(("local",))["local"]
    stands = {}

    def look(host):
        stands.update({guest.uuid: guest for guest in host.guests.values()})

    run = simulate(world, create, 0, look)
    assert run.tally.vcpu_moves > 0
    left = {(g.label, g.placement, g.shares) for g in stands.values()}
    assert left == {(label, p.cpus, p.memory) for label, some in run.final.items() for p in some}
