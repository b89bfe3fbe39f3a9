# SPDX-License-Identifier: Apache-2.0
"""`vp-sim evaluate`: what one placement of a mix is worth, whoever found it.

The VMs are there before the first second, and nothing changes until all jobs are done. It is judged
as `compare` judges a run: against the best baseline run over the start orders.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from nova_vp.cpuset import format_cpus
from vp_sim import booked_permits
from vp_sim.booked_permits import ANY_SEED, Booked
from vp_sim.jobs import JOB_S
from vp_sim.measure import best_of, efficiency, worst_degradation
from vp_sim.mixes import Mix
from vp_sim.mixfile import find_mix
from vp_sim.options import RUNS, add_mix, add_perturb, count
from vp_sim.output import show_perturbation
from vp_sim.placement import UNCAPPED, Placed, Placement, VmPlace
from vp_sim.placementfile import PERCENT, read_placement
from vp_sim.policies import BASELINE, find
from vp_sim.run import Run, World, simulate, world_of

DIGITS = 4


@dataclass(frozen=True, slots=True)
class Evaluation:
    world: World
    placement: Placement
    run: Run
    best_s: Mapping[str, float]
    permits: Mapping[int, Booked]
    """By LLC domain."""

    @property
    def has_permits(self) -> bool:
        """Whether there is something to say of them."""
        return any(one.booked or one.free is not None for one in self.permits.values())

    @property
    def worst_degradation(self) -> float:
        return worst_degradation(self.run, self.best_s)

    @property
    def pe(self) -> float:
        return efficiency(self.run, self.best_s, len(self.world.machine.topology.cpus))

    def degradation(self, label: str) -> float:
        return self.run.seconds[label] / self.best_s[label] - 1

    def vs_solo(self, label: str) -> float:
        return self.run.seconds[label] / JOB_S - 1


def evaluate(
    mix: Mix,
    placement: Placement,
    runs: int,
    perturb_seed: int | None = None,
    llc_permits_per_domain: float | None = None,
) -> Evaluation:
    world = world_of(mix, perturb_seed=perturb_seed)
    create = find((BASELINE,))[BASELINE]
    best_s = best_of([simulate(world, create, seed) for seed in range(runs)])
    # Nothing of a fixed placement depends on the start order, within the solver's precision.
    run = simulate(world, Placed(placement), ANY_SEED)
    permits = booked_permits.booked_permits(world, placement, llc_permits_per_domain)
    return Evaluation(world, placement, run, best_s, permits)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_mix(parser)
    add_perturb(parser)
    parser.add_argument(
        "--placement",
        required=True,
        type=Path,
        metavar="FILE",
        help="Where every VM is: a YAML or JSON file, such as `run --save-placement` writes",
    )
    parser.add_argument(
        "--runs",
        type=count,
        default=RUNS,
        help="Number of start orders of baseline to compare with (%(default)s)",
    )
    parser.add_argument(
        "--llc-permits-per-domain",
        type=float,
        metavar="N",
        help="LLC misses per ms that may be booked in each LLC domain, as in [vp_scheduler]",
    )
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    mix = find_mix(arguments.mix)
    placement = read_placement(arguments.placement, mix)
    found = evaluate(
        mix,
        placement,
        arguments.runs,
        arguments.perturb,
        arguments.llc_permits_per_domain,
    )
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        screen = Console(markup=False)
        screen.print(as_table(found))
        if found.has_permits:
            screen.print(booked_permits.as_table(dict(found.permits)))
        show_perturbation(screen, found.world.perturbation)
    return 0


def as_json(found: Evaluation) -> dict[str, Any]:
    shown: dict[str, Any] = {"mix": found.world.mix.name}
    if found.world.perturbation:
        shown["perturbation"] = found.world.perturbation.as_json()
    if found.has_permits:
        permits = {str(domain): one._asdict() for domain, one in found.permits.items()}
        shown["llc_permits"] = permits
    return {
        **shown,
        "worst_degradation": round(found.worst_degradation, DIGITS),
        "cpu_used": round(found.run.cpu_used, DIGITS),
        "pe": round(found.pe, DIGITS),
        "applications": {
            label: {
                "degradation": round(found.degradation(label), DIGITS),
                "vs_solo": round(found.vs_solo(label), DIGITS),
            }
            for label in sorted(found.best_s)
        },
    }


def as_table(found: Evaluation) -> Table:
    table = Table(
        title=f"{found.world.mix.name}: worst degradation {found.worst_degradation:.1%}, "
        f"PE {found.pe:.3f}, {found.run.cpu_used:.0f} % CPU",
        caption="degradation: relative to the best baseline run; vs solo: to running alone",
    )
    table.add_column("application", no_wrap=True)
    table.add_column("CPUs", overflow="fold")
    table.add_column("memory")
    for heading in ("cap", "degradation", "vs solo"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label in sorted(found.best_s):
        first, *others = found.placement[label]
        lost = (f"{found.degradation(label):.1%}", f"{found.vs_solo(label):.1%}")
        table.add_row(label, *_cells(first), *lost)
        for place in others:
            table.add_row("", *_cells(place), "", "")
    return table


def _cells(place: VmPlace) -> tuple[str, str, str]:
    memory = ", ".join(f"{share:.0%} on node {node}" for node, share in place.memory)
    cap = "" if place.cap_ratio >= UNCAPPED else f"{PERCENT * place.cap_ratio:.0f} %"
    return format_cpus(place.cpus), memory, cap
