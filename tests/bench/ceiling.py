# SPDX-License-Identifier: Apache-2.0
"""What any policy could reach on the published mixes: every way to fill the nodes at the first
second, all memory local, nobody ever moved, run to the end.

Judged as `compare` judges policies: degradation against the application's best run without
management over the same start orders, and PE, beside that of `llc`. Equal applications and equal
nodes are interchangeable: placements that differ by no more are run once.
"""

import sys
from collections.abc import Iterator, Mapping
from random import Random
from statistics import fmean

from tests.bench.harness import Benchmark, Numbers, command_line, progress
from tests.bench.placements import all_spots
from vp_sim.measure import best_of, efficiency
from vp_sim.mixes import MIXES
from vp_sim.policies import find
from vp_sim.run import Run, World, simulate, start, world_of
from vp_sim.sim_drivers import SimDrivers

MIX_NAMES = ("stream-spec", "voldemort-mapreduce", "streaming-mapreduce")
RUNS = 40
SEED = 0
"""Of the one start order whose guests are placed anew."""

Placement = tuple[int, ...]
"""An LLC domain for each guest, in the start order."""


class Fixed:
    """Places everybody before the first second, with memory there at no cost, and rests."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    def __call__(self, drivers: SimDrivers, random: Random) -> "Fixed":
        host = drivers.guests.host
        domains = {d.id: d for d in host.machine.topology.domains}
        for guest, domain_id in zip(host.guests.values(), self._placement, strict=True):
            domain = domains[domain_id]
            host.place(guest, (domain.cpus,))
            kib = sum(guest.memory_kib.values())
            guest.memory_kib.clear()
            guest.memory_kib[domain.node] = kib
        return self

    def tick(self, now_s: float) -> None:
        pass


def placements(world: World) -> Iterator[Placement]:
    host = start(world, SEED)
    names = [guest.app.name for guest in host.guests.values()]
    seen = set()
    for spots in all_spots(host):
        if not all(spot.is_local for spot in spots):
            continue
        there: dict[int, list[str]] = {d.id: [] for d in host.machine.topology.domains}
        for name, spot in zip(names, spots, strict=True):
            there[spot.domain].append(name)
        key = tuple(sorted(tuple(sorted(found)) for found in there.values()))
        if key not in seen:
            seen.add(key)
            yield tuple(spot.domain for spot in spots)


def worst_of(run: Run, best_s: Mapping[str, float]) -> float:
    return max(took / best_s[name] for name, took in run.seconds.items()) - 1


def ceiling(name: str) -> dict[str, float]:
    world = world_of(MIXES[name])
    cores = len(world.machine.topology.cpus)
    create = find(("baseline", "llc"))
    best_s = best_of([simulate(world, create["baseline"], seed) for seed in range(RUNS)])
    llc = fmean(
        efficiency(simulate(world, create["llc"], seed), best_s, cores) for seed in range(RUNS)
    )
    runs = [simulate(world, Fixed(placement), SEED) for placement in placements(world)]
    judged = [(worst_of(run, best_s), efficiency(run, best_s, cores)) for run in runs]
    fairest = min(judged)
    fullest = max(judged, key=lambda one: one[1])
    progress(f"{name}: {len(judged)} placements")
    return {
        "placements": len(judged),
        "least_worst_degradation": fairest[0],
        "pe_of_that": fairest[1],
        "most_pe": fullest[1],
        "worst_degradation_of_that": fullest[0],
        "most_pe_over_llc": fullest[1] / llc,
    }


def measure() -> Numbers:
    return {
        f"{name}.{key}": round(value, 4)
        for name in MIX_NAMES
        for key, value in ceiling(name).items()
    }


BENCHMARK = Benchmark(
    name="ceiling",
    about=f"the best static placements of the published mixes, {RUNS} start orders to judge by",
    budgets={},
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
