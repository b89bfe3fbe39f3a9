# SPDX-License-Identifier: Apache-2.0
"""Chapter 3 of the thesis: where the next core comes from. Figure 13, with two applications on two
nodes, and figure 16 with table 2, the mix `merlin`.

Degradation is against running alone (3.1).
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from tests.bench.response_times import percentiles, response_times, variability
from tests.bench.validation_mixes import ORDERS, losses_of_voldemort, pe_of_medians
from tests.bench.validation_rows import THIRD, Row, directed, sized
from vp_sim.app_profiles import ROWS
from vp_sim.compare import Results, compare
from vp_sim.host import SimHost
from vp_sim.machine import Shape
from vp_sim.measure import OfPolicy
from vp_sim.mixes import MIXES, Member, Memory, Mix
from vp_sim.policies import find
from vp_sim.run import simulate, world_of

POLICIES = ("local", "cheap", "random")
WATCHED_ORDERS = 10
"""Second by second."""
TABLE_2 = {
    # policy: (CPU %, vCPU moves)
    "local": (2370, 28),
    "cheap": (2140, 22),
    "random": (2150, 42),
}
VOLDEMORT, MATRIX, UNEVEN = "voldemort-1", "matrix-mult", "matrix-mult-uneven"
FIGURE_13 = Mix(
    name="figure-13",
    members=(
        Member(VOLDEMORT, replace(ROWS["voldemort"], guests=1), initial_cores=2),
        Member(MATRIX, ROWS[UNEVEN], initial_cores=2),
    ),
    shape=Shape(nodes=2, domains_per_node=1, cores_per_domain=8),
    memory=Memory.LOCAL,
)
"""Figure 12 without App-3: both on node (a), which has free cores, as node (b) has."""


def growth_rows() -> Iterator[Row]:
    yield from of_figure_13(compare(FIGURE_13, POLICIES, ORDERS).nominal)
    found = compare(MIXES["merlin"], POLICIES, ORDERS).nominal
    yield from of_table_2(found)
    yield from of_counters()
    yield from of_figure_16(found)


def of_figure_13(found: Results) -> Iterator[Row]:
    apps = {name: found[name].applications for name in ("baseline", *POLICIES)}
    slow = {name: apps[name][MATRIX].vs_solo for name in apps}
    times = {name: response_times(FIGURE_13, name, ORDERS) for name in apps}
    lost = {name: fmean(percentiles(some)) - 1 for name, some in times.items()}
    yield sized("figure 13", "matrix-mult on two cores, against four", 0.25, slow["baseline"])
    yield sized("figure 13", "Voldemort beside it", 0.05, lost["baseline"])
    yield sized("figure 13", "Voldemort, local", 0.22, lost["local"])
    two = [lost["local"], lost["cheap"]]
    alike = abs(two[1] - two[0]) <= THIRD * two[0]
    yield directed("figure 13", "Voldemort, local and cheap", "similar", two, alike)
    grown = [slow["baseline"], slow["local"]]
    what = "matrix-mult on two cores, and with local"
    yield directed("figure 13", what, "less with local", grown, grown[1] < grown[0])
    yield sized("figure 13", "Voldemort, random", 0.15, lost["random"])
    yield sized("figure 13", "matrix-mult, random", 0.15, slow["random"])
    spread = apps["random"][MATRIX].spread
    yield sized("figure 13", "spread of matrix-mult, random", 0.12, spread)
    for name, printed in (("random", 0.12), ("local", 0.1)):
        what = f"variability of Voldemort's response times, {name}"
        yield sized("figure 13", what, printed, variability(times[name]))


def of_table_2(found: Results) -> Iterator[Row]:
    for name, (cpu, vcpu_moves) in TABLE_2.items():
        yield sized("table 2", f"vCPU moves, {name}", vcpu_moves, found[name].vcpu_moves)
        yield sized("table 2", f"CPU %, {name}", cpu, cpu_with_management(found[name]))
    yield sized("table 2", "memory moves, local", 7, found["local"].memory_moves)
    none = [found[name].memory_moves for name in ("cheap", "random")]
    yield directed("table 2", "memory moves, cheap and random", "none", none, not any(none))
    responses = losses_of_voldemort(MIXES["merlin"], found)
    pes = [
        pe_of_medians(name, found, cpu_with_management(found[name]), responses)
        for name in ("cheap", "random", "local")
    ]
    published = "2.53, 2.48, 2.20: in this order"
    yield directed("table 2", "PE of cheap, random and local", published, pes, fall(pes))
    gain = pes[0] / pes[2] - 1
    yield sized("table 2", "PE, cheap over local, less 1", round(2.53 / 2.20 - 1, 4), gain)
    used = [cpu_with_management(found[name]) for name in ("local", "random", "cheap")]
    published = "2370, 2150, 2140: in this order"
    yield directed("table 2", "CPU % of local, random and cheap", published, used, fall(used))


def cpu_with_management(found: OfPolicy) -> float:
    """Table 2 counts what management uses, where table 1 has the CPUs of the guests alone."""
    return found.cpu_used + found.management_cpu_used


class Counted(NamedTuple):
    """Mean of all seconds of some runs."""

    mpki: float
    """Summed over the VMs."""
    cpi: float
    """Mean of the VMs."""


def of_counters() -> Iterator[Row]:
    found = [counted(name) for name in ("local", "random", "cheap")]
    mpki = [one.mpki for one in found]
    published = "165, 145, 135: in this order"
    yield directed("table 2", "sum of MPKI of local, random and cheap", published, mpki, fall(mpki))
    cpi = [one.cpi for one in found]
    published = "3.172, 2.568, 2.556: in this order"
    yield directed("table 2", "CPI of local, random and cheap", published, cpi, fall(cpi))


def counted(policy: str) -> Counted:
    world, create = world_of(MIXES["merlin"]), find((policy,))[policy]
    seconds: list[Counted] = []

    def watch(host: SimHost) -> None:
        mpki = sum(speed.mpki for speed in host.speeds.values())
        cpis = [host.speeds[uuid].cpi / g.running_ratio for uuid, g in host.guests.items()]
        seconds.append(Counted(mpki, fmean(cpis)))

    for seed in range(WATCHED_ORDERS):
        simulate(world, create, seed, watch)
    return Counted(fmean(one.mpki for one in seconds), fmean(one.cpi for one in seconds))


def of_figure_16(found: Results) -> Iterator[Row]:
    for name, printed in (("local", 0.23), ("cheap", 0.22)):
        lost = max(percentiles(response_times(MIXES["merlin"], name, ORDERS))) - 1
        yield sized("3.3.2", f"Voldemort at most, {name}", printed, lost)
    spreads = [map_reduce_spread(found, name) for name in ("local", "cheap")]
    what = "spread of the MapReduce applications, local: up to"
    yield sized("3.3.2", what, 0.13, spreads[0])
    what = "spread of the MapReduce applications, local and cheap"
    yield directed("3.3.2", what, "less with cheap", spreads, spreads[1] < spreads[0])


def map_reduce_spread(found: Results, name: str) -> float:
    apps = found[name].applications
    return max(app.spread for label, app in apps.items() if label != VOLDEMORT)


def fall(numbers: list[float]) -> bool:
    return numbers == sorted(numbers, reverse=True)
