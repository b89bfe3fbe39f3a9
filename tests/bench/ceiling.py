# SPDX-License-Identifier: Apache-2.0
"""What any policy could reach on the published mixes, judged as `vp-sim compare` judges policies.

`python -m tests.bench.ceiling --json [--mix MIX]… [--perturb SEED] [--policies NAMES] [--runs N]
[--evaluations N] [--seed N] [--save DIR]`. The policies run first; the search (`ceiling_search`)
starts from where they ended, too. A policy that reaches more in any start order than the search
found is a fault of the search: it is told, and the exit status is 1. `going` says what is left of
the two arrangements for who goes there in the first second. `--save` writes the placements that
were found, for `vp-sim evaluate`.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from nova_vp.cli.new_file import new_file
from nova_vp.cli.whole_file import whole_file
from tests.bench.arrangements import Arrangement, arrangement_of, vms_of
from tests.bench.ceiling_search import MARGIN, Ceiling, search
from tests.bench.going import going
from tests.bench.harness import Benchmark, Numbers, fixed, progress, run
from vp_sim.compare import Comparison, Results, compare
from vp_sim.mixes import MIXES, Mix
from vp_sim.mixfile import BadMix, find_mix
from vp_sim.options import RUNS, add_perturb, count, seed
from vp_sim.placementfile import as_text
from vp_sim.policies import UnknownPolicy, find
from vp_sim.run import world_of

POLICIES = ("llc", "vp", "merlin", "local", "cheap", "random")
LLC = "llc"
EVALUATIONS = 4000
TOLERANCE = 1e-3
"""As a ratio: twice what the model's solution is precise to."""
DIGITS = 4
BEATEN, GOING = "beaten", "going"


@dataclass(frozen=True, slots=True)
class Wanted:
    mixes: tuple[str, ...] = tuple(MIXES)
    policies: tuple[str, ...] = POLICIES
    runs: int = RUNS
    evaluations: int = EVALUATIONS
    seed: int = 0
    perturb_seed: int | None = None
    save: Path | None = None


def measure(wanted: Wanted) -> dict[str, dict[str, Any]]:
    compared = {name: _compared(find_mix(name), wanted) for name in wanted.mixes}
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), fresh) as pool:
        searches = {
            name: pool.submit(_search, name, comparison, wanted)
            for name, comparison in compared.items()
        }
        found = {}
        for name, one in searches.items():
            ceiling, from_start = one.result()
            found[name] = {**_told(ceiling, compared[name]), GOING: from_start}
            progress(f"{name}: {found[name]['searched']} arrangements")
            for line in beaten_by(ceiling, compared[name].nominal):
                progress(f"{name}: {line}")
            if wanted.save:
                save(wanted.save, name, ceiling)
    return found


def _compared(mix: Mix, wanted: Wanted) -> Comparison:
    policies = dict.fromkeys((LLC, *wanted.policies))
    done = compare(mix, tuple(policies), wanted.runs, perturb_seed=wanted.perturb_seed)
    progress(f"{mix.name}: {len(done.nominal)} policies, {wanted.runs} start orders")
    return done


FromStart = dict[str, dict[str, float]]


def _search(name: str, comparison: Comparison, wanted: Wanted) -> tuple[Ceiling, FromStart]:
    world, best_s = world_of(find_mix(name), perturb_seed=wanted.perturb_seed), comparison.best_s
    ends = best_ends(world.mix, comparison.nominal)
    found = search(world, best_s, ends, wanted.evaluations, wanted.seed)
    aims = {"least_worst": found.fairest, "most_pe": found.fullest}
    reached = {aim: going(world, best_s, to, wanted.runs) for aim, to in aims.items()}
    return found, {
        aim: {
            "worst": round(one.worst_degradation, DIGITS),
            "p95_worst": round(one.p95_worst, DIGITS),
            "spread": round(one.spread, DIGITS),
            "pe": round(one.pe, DIGITS),
        }
        for aim, one in reached.items()
    }


def best_ends(mix: Mix, results: Results) -> list[Arrangement]:
    """Where every policy ended in the start order that lost least, and in the one of most PE."""
    vms = vms_of(mix)
    ends = []
    for result in results.values():
        for order in (
            min(result.orders, key=lambda one: one.worst_degradation),
            max(result.orders, key=lambda one: one.pe),
        ):
            ends.append(arrangement_of(vms, order.final))
    return ends


def beaten_by(ceiling: Ceiling, results: Results) -> Iterator[str]:
    """Where a run reached more than the search."""
    for name, result in results.items():
        for number, order in enumerate(result.orders):
            if order.worst_degradation < ceiling.least_worst - TOLERANCE:
                yield (
                    f"{name} in start order {number} has a worst degradation of "
                    f"{order.worst_degradation:.4f}, below the ceiling's {ceiling.least_worst:.4f}"
                )
            is_fair = order.worst_degradation <= ceiling.least_worst + MARGIN
            if is_fair and order.pe > ceiling.most_pe * (1 + TOLERANCE):
                yield (
                    f"{name} in start order {number} has PE {order.pe:.4f}, above the ceiling's "
                    f"{ceiling.most_pe:.4f}"
                )


def _told(ceiling: Ceiling, comparison: Comparison) -> dict[str, Any]:
    llc = fmean(order.pe for order in comparison.nominal[LLC].orders)
    told: dict[str, Any] = {
        "least_worst": round(ceiling.least_worst, DIGITS),
        "pe_of_least_worst": round(ceiling.pe_of_least_worst, DIGITS),
        "most_pe": round(ceiling.most_pe, DIGITS),
        "worst_of_most_pe": round(ceiling.worst_of_most_pe, DIGITS),
        "most_pe_over_llc": round(ceiling.most_pe / llc, DIGITS),
        "searched": ceiling.searched,
        BEATEN: len(list(beaten_by(ceiling, comparison.nominal))),
    }
    if comparison.perturbation:
        told["perturbation"] = comparison.perturbation.as_json()
    return told


def save(folder: Path, name: str, ceiling: Ceiling) -> None:
    """Where the disk refuses, the numbers are still told."""
    stem = Path(name).stem.replace(":", "-")
    for what, placement in (("least-worst", ceiling.fairest), ("most-pe", ceiling.fullest)):
        try:
            with whole_file(folder / f"{stem}.{what}.json") as unfinished:
                unfinished.write_text(as_text(placement))
        except OSError as exc:
            progress(f"{exc.filename}: {exc.strerror}: the placements are not saved")


def numbers_of(found: Mapping[str, Any]) -> Numbers:
    return {
        f"{name}.{key}": value
        for name, told in found.items()
        for key, value in told.items()
        if not isinstance(value, dict)
    }


def benchmark_of(wanted: Wanted) -> Benchmark:
    return Benchmark(
        name="ceiling",
        about=f"the best arrangements of mixes, {wanted.runs} start orders to judge by",
        budgets={f"{name}.{BEATEN}": fixed(0) for name in wanted.mixes},
        measure=lambda: measure(wanted),
        numbers_of=numbers_of,
    )


BENCHMARK = benchmark_of(Wanted())


def _folder(text: str) -> Path:
    """Which can be written to. Raises argparse.ArgumentTypeError."""
    return new_file(f"{text}/any.json").parent


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=BENCHMARK.about)
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    parser.add_argument("--mix", action="append", help="may be given several times; all")
    parser.add_argument("--policies", default=",".join(POLICIES), help="by commas (%(default)s)")
    parser.add_argument("--runs", type=count, default=RUNS, help="start orders (%(default)s)")
    parser.add_argument(
        "--evaluations",
        type=count,
        default=EVALUATIONS,
        help="arrangements scored beyond the enumerated ones, by mix (%(default)s)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the search (%(default)s)")
    parser.add_argument(
        "--save", type=_folder, metavar="DIR", help="write the placements found there"
    )
    add_perturb(parser)
    asked = parser.parse_args(argv)
    mixes = tuple(asked.mix or MIXES)
    policies = tuple(name for name in asked.policies.split(",") if name)
    try:
        find(policies)
        for name in mixes:
            find_mix(name)
    except (BadMix, UnknownPolicy) as exc:
        parser.error(str(exc))
    wanted = Wanted(
        mixes=mixes,
        policies=policies,
        runs=asked.runs,
        evaluations=asked.evaluations,
        seed=asked.seed,
        perturb_seed=asked.perturb,
        save=asked.save,
    )
    return run(benchmark_of(wanted), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
