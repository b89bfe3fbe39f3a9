# SPDX-License-Identifier: Apache-2.0
"""Does the simulator tell how fast real guests run together, from runs of each alone?

`python -m tests.bench.predict --json [--mix-file FILE]`: measures each work of the mix alone, with
the whole cache and with parts of it, once with memory farther away; writes the mix's file from that
and nothing else; then measures every way of dealing the guests to two caches, and compares.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from testbed.lab.lag_meter import MAX_RATIO
from tests.bench import solo
from tests.bench.harness import Benchmark, Numbers, fixed, progress, run
from tests.bench.mix import LLC_CPUS, MIX, PMU, WARM_S, a_host, measure, worst_debt
from tests.bench.paced_guests import Measured, PacedHost
from vp_sim.contention import Contention
from vp_sim.loads import Load
from vp_sim.mixfile import find_mix
from vp_sim.run import world_of

LLC_KIB, LLC_WAYS = int(PMU["llc_kib"]), 16
CONDITIONS: tuple[tuple[int, float], ...] = (
    (12, solo.LOCAL_CYCLES),
    (8, solo.LOCAL_CYCLES),
    (4, solo.LOCAL_CYCLES),
    (16, solo.REMOTE_CYCLES),
)
"""(ways of the LLC, cycles of latency) besides the host's own."""
LINES_PER_S = float(PMU["bandwidth"]) * solo.MHZ * 1000
MOST_OFF = 0.10

Deal = tuple[frozenset[str], frozenset[str]]
Rows = dict[str, list[solo.Alone]]


def deals() -> Iterator[Deal]:
    """Every way over two caches; the guests of one work are alike."""
    names = frozenset(MIX)
    seen = set()
    for count in range(len(names) // 2 + 1):
        for chosen in itertools.combinations(sorted(names), count):
            one, other = frozenset(chosen), names - frozenset(chosen)
            key = frozenset(tuple(sorted(MIX[name] for name in side)) for side in (one, other))
            if key not in seen:
                seen.add(key)
                yield (one, other)


def measure_alone(rows: Rows, ways: int, memory_cycles: float) -> None:
    """One guest of each work, one after the other, on a host of this kind."""
    llc_kib = LLC_KIB * ways // LLC_WAYS
    pmu = {**PMU, "llc_kib": str(llc_kib), "llc_ways": str(ways)}
    pmu["latency_local"] = f"{memory_cycles:.0f}"
    names = {f"w{number}": work for number, work in enumerate(dict.fromkeys(MIX.values()))}
    with a_host(names, pmu) as host:
        for name, work in names.items():
            found = alone(host, name)
            rows.setdefault(work, []).append(solo.Alone(llc_kib / solo.KIB, memory_cycles, found))


def alone(host: PacedHost, name: str) -> Measured:
    host.guests[name].place(LLC_CPUS[0])
    return together(host, [name])[name]


def together(host: PacedHost, names: Sequence[str]) -> Mapping[str, Measured]:
    """These run, the others are paused."""
    for name in names:
        host.guests[name].domain.resume()
    time.sleep(WARM_S)
    found = measure(host, names)
    for name in names:
        host.guests[name].domain.suspend()
    return found


def measure_dealt(host: PacedHost, deal: Deal, rates: Mapping[str, float]) -> dict[str, float]:
    for names, cpus in zip(deal, LLC_CPUS, strict=True):
        for name in names:
            host.guests[name].place(cpus)
    found = together(host, list(MIX))
    progress(f"{told(deal)}: debt {worst_debt(found):.1%}")
    return {name: found[name].rate / rates[name] for name in MIX} | {"debt": worst_debt(found)}


def predict(path: Path, deal: Deal) -> dict[str, float]:
    """Rates of guests as shares of their rates alone, as the simulator has them."""
    world = world_of(find_mix(str(path)))
    contention = Contention(world.machine)
    node = world.machine.topology.domains[0].node
    names, loads = [], []
    for domain, guests in zip(world.machine.topology.domains, deal, strict=True):
        for name in sorted(guests):
            names.append(name)
            app = world.apps[solo.name_of(MIX[name])]
            loads.append(Load(app, 1.0, ((domain.id, 1.0),), ((node, 1.0),)))
    speeds = contention.speeds(loads)
    return {
        name: speed.instructions_per_s / contention.speeds([load])[0].instructions_per_s
        for name, load, speed in zip(names, loads, speeds, strict=True)
    }


def told(deal: Deal) -> str:
    return " | ".join(" + ".join(sorted(side)) or "nobody" for side in deal)


def measure_all(path: Path) -> dict[str, Any]:
    rows: Rows = {}
    for ways, memory_cycles in CONDITIONS:
        measure_alone(rows, ways, memory_cycles)
    with a_host(MIX) as host:
        base = {name: alone(host, name) for name in MIX}
        for name, work in MIX.items():
            rows[work].append(solo.Alone(LLC_KIB / solo.KIB, solo.LOCAL_CYCLES, base[name]))
        write_mix(path, rows)
        rates = {name: found.rate for name, found in base.items()}
        compared = [compare(path, deal, measure_dealt(host, deal, rates)) for deal in deals()]
    return {
        "alone": {work: [describe(run) for run in runs] for work, runs in rows.items()},
        "placements": compared,
        "worst_off": max(abs(g["off"]) for one in compared for g in one["guests"].values()),
        "debt_ratio": max(one["debt_ratio"] for one in compared),
    }


def describe(run: solo.Alone) -> dict[str, float]:
    return {
        "llc_mib": run.llc_mib,
        "memory_cycles": run.memory_cycles,
        "miss_ratio": run.miss_ratio,
        **asdict(run.found),
    }


def write_mix(path: Path, rows: Rows) -> None:
    entries = solo.mix_file("lab", rows, LINES_PER_S, LLC_KIB / solo.KIB)
    path.write_text(json.dumps(entries, indent=2))


def compare(path: Path, deal: Deal, measured: Mapping[str, float]) -> dict[str, Any]:
    predicted = predict(path, deal)
    return {
        "placement": told(deal),
        "debt_ratio": measured["debt"],
        "guests": {
            name: {
                "predicted": predicted[name],
                "measured": measured[name],
                "off": predicted[name] - measured[name],
            }
            for name in MIX
        },
    }


def measure_budgeted(mix_file: Path | None = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return measure_all(mix_file or Path(folder) / "mix.json")


def numbers_of(found: Mapping[str, Any]) -> Numbers:
    return {"worst_off_ratio": found["worst_off"], "debt_ratio": found["debt_ratio"]}


BENCHMARK = Benchmark(
    name="predict",
    about="how far vp-sim is off, from runs alone, for guests that share caches",
    budgets={"worst_off_ratio": fixed(MOST_OFF), "debt_ratio": fixed(MAX_RATIO)},
    measure=measure_budgeted,
    numbers_of=numbers_of,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=BENCHMARK.about)
    parser.add_argument("--json", action="store_true", help="everything measured, as JSON")
    parser.add_argument("--mix-file", type=Path, help="keep the mix's file here, for vp-sim")
    arguments = parser.parse_args()
    asked = replace(BENCHMARK, measure=lambda: measure_budgeted(arguments.mix_file))
    return run(asked, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
