# SPDX-License-Identifier: Apache-2.0
"""Tables 1 and 2, figures 10 and 16 of the thesis: whole mixes, over many start orders.

Degradation is against the application's best run under default Xen (2.3); in chapter 3, which has
no default to compare with, against running alone (3.1). Of a PE, which sums terms near one, a
twentieth is about a third of what is lost.
"""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import NamedTuple

from tests.bench.validation_reasons import REASONS
from tests.bench.validation_rows import Row, directed, sized
from vp_sim.compare import Results, compare
from vp_sim.host import SimHost
from vp_sim.measure import OfPolicy
from vp_sim.mixes import MIXES
from vp_sim.policies import find
from vp_sim.run import simulate, world_of

ORDERS = 40
WATCHED_ORDERS = 10
"""Of chapter 3, second by second."""
TWENTIETH = 0.05


class Printed(NamedTuple):
    """A line of table 1, with what section 2.3 says of the mix."""

    pe: Mapping[str, float]
    cpu: Mapping[str, float]
    victim: str
    """Whose worst under default Xen is printed."""
    worst: float
    memory_moves: float | None = None
    """Of LLC-Xen."""


TABLE_1 = {
    "stream-spec": Printed(
        pe={"baseline": 7.838, "llc": 8.272},
        cpu={"baseline": 2376, "llc": 2370},
        victim="stream",
        worst=2.0,
        memory_moves=11,
    ),
    "voldemort-mapreduce": Printed(
        pe={"baseline": 7.793, "llc": 7.931},
        cpu={"baseline": 1920, "llc": 1916},
        victim="voldemort",
        worst=0.25,
        memory_moves=13,
    ),
    "streaming-mapreduce": Printed(
        pe={"baseline": 7.603, "llc": 7.848},
        cpu={"baseline": 1970, "llc": 1964},
        victim="streaming",
        worst=0.18,
    ),
}


def mix_rows() -> Iterator[Row]:
    for name, printed in TABLE_1.items():
        yield from of_mix(name, printed, compare(MIXES[name], ("llc",), ORDERS).nominal)
    yield from of_chapter_3()


def of_mix(name: str, printed: Printed, found: Results) -> Iterator[Row]:
    def of(what: str) -> tuple[str, str]:
        return f"{name}: {what}", REASONS.get((name, what), "")

    for policy, pe in printed.pe.items():
        what, reason = of(f"PE, {policy}")
        yield sized("table 1", what, pe, found[policy].pe, TWENTIETH, reason)
        what, reason = of(f"CPU %, {policy}")
        cpu = found[policy].cpu_used
        yield sized("table 1", what, printed.cpu[policy], cpu, TWENTIETH, reason)
    what, reason = of("PE, llc over baseline, less 1")
    gain = printed.pe["llc"] / printed.pe["baseline"] - 1
    modelled = found["llc"].pe / found["baseline"].pe - 1
    yield sized("table 1", what, round(gain, 4), modelled, reason=reason)
    worst = worst_of(found, "baseline", printed.victim)
    what, reason = of(f"worst of {printed.victim}, baseline")
    yield sized("2.3", what, printed.worst, worst, reason=reason)
    if printed.memory_moves:
        what, reason = of("memory moves, llc")
        yield sized("2.3", what, printed.memory_moves, found["llc"].memory_moves, reason=reason)
    if name == "stream-spec":
        yield from of_stream_spec(found)


def of_stream_spec(found: Results) -> Iterator[Row]:
    reasons = {what: reason for (mix, what), reason in REASONS.items() if mix == "stream-spec"}
    baseline, llc = found["baseline"], found["llc"]
    what = "stream-spec: worst of all, llc"
    reason = reasons.get("worst of all, llc", "")
    yield sized("2.3.1", what, 0.15, llc.worst_degradation, reason=reason)
    what = "stream-spec: spread, llc"
    yield sized("2.3.1", what, (0.06, 0.08), llc.spread, reason=reasons.get("spread, llc", ""))
    what = "stream-spec: spread, baseline"
    published = "several tens of %"
    yield directed("2.3.1", what, published, [baseline.spread], baseline.spread >= 0.2)
    what = "stream-spec: spread, baseline and llc"
    numbers = [baseline.spread, llc.spread]
    yield directed("2.3.1", what, "less with llc", numbers, llc.spread < baseline.spread)


def worst_of(found: Results, policy: str, name: str) -> float:
    apps = found[policy].applications
    return max(app.worst for label, app in apps.items() if label.rpartition("-")[0] == name)


def against_solo(result: OfPolicy, label: str) -> float:
    """The worst of an application, against running alone."""
    app = result.applications[label]
    best_over_solo = (1 + app.vs_solo) / (1 + app.median)
    return (1 + app.worst) * best_over_solo - 1


def summed_mpki(policy: str) -> float:
    """Over the VMs, mean of all seconds of some runs."""
    world, create = world_of(MIXES["merlin"]), find((policy,))[policy]
    sums: list[float] = []

    def watch(host: SimHost) -> None:
        sums.append(sum(speed.mpki for speed in host.speeds.values()))

    for seed in range(WATCHED_ORDERS):
        simulate(world, create, seed, watch)
    return fmean(sums)


def of_chapter_3() -> Iterator[Row]:
    results = compare(MIXES["merlin"], ("local", "cheap", "random"), ORDERS).nominal
    for name, vcpu_moves in (("local", 28), ("cheap", 22), ("random", 42)):
        what = f"vCPU moves, {name}"
        reason = REASONS.get(("merlin", what), "")
        yield sized("table 2", what, vcpu_moves, results[name].vcpu_moves, reason=reason)
    yield sized(
        "table 2",
        "memory moves, local",
        7,
        results["local"].memory_moves,
        reason=REASONS.get(("merlin", "memory moves, local"), ""),
    )
    none = [results[name].memory_moves for name in ("cheap", "random")]
    yield directed("table 2", "memory moves, cheap and random", "none", none, not any(none))
    pes = [results[name].pe for name in ("cheap", "random", "local")]
    published = "2.53, 2.48, 2.20: in this order"
    is_order = pes == sorted(pes, reverse=True)
    yield directed("table 2", "PE of cheap, random and local", published, pes, is_order)
    for name, printed in (("local", 0.23), ("cheap", 0.22)):
        what = f"Voldemort at most, {name}"
        lost = against_solo(results[name], "voldemort-1")
        yield sized("3.3.2", what, printed, lost, reason=REASONS.get(("merlin", what), ""))
    mpki = [summed_mpki(name) for name in ("local", "random", "cheap")]
    yield directed(
        "table 2",
        "sum of MPKI of local, random and cheap",
        "165, 145, 135: in this order",
        mpki,
        mpki == sorted(mpki, reverse=True),
        REASONS.get(("merlin", "sum of MPKI"), ""),
    )
    used = [results[name].cpu_used for name in ("local", "random", "cheap")]
    published = "2370, 2150, 2140: most for local"
    yield directed("table 2", "CPU % by policy", published, used, used[0] == max(used))
    what = "CPU %, cheap"
    reason = REASONS.get(("merlin", what), "")
    yield sized("table 2", what, 2140, results["cheap"].cpu_used, reason=reason)
    what = "spread of the MapReduce applications, local: up to"
    spread = max(
        app.spread for label, app in results["local"].applications.items() if label != "voldemort-1"
    )
    yield sized("3.3.2", what, 0.13, spread, reason=REASONS.get(("merlin", "spread"), ""))
    grown = [
        results[name].applications["matrix-mult-uneven-1"].vs_solo for name in ("baseline", "local")
    ]
    what = "matrix-mult, median: on two cores, and where it gets more at home"
    yield directed("figure 13", what, "less with more", grown, grown[1] < grown[0])
    for app, label in (("Voldemort", "voldemort-1"), ("matrix-mult", "matrix-mult-uneven-1")):
        what = f"{app}, median, random"
        lost = results["random"].applications[label].vs_solo
        yield sized("figure 13", what, 0.15, lost, reason=REASONS.get(("merlin", what), ""))
    two = [
        results[name].applications["matrix-mult-uneven-1"].vs_solo
        for name in ("baseline", "random")
    ]
    what = "matrix-mult, median: on two cores, and with random"
    yield directed("3.1", what, "less with random", two, two[1] < two[0])
    slow = results["baseline"].applications["matrix-mult-uneven-1"].vs_solo
    yield sized("figure 13", "matrix-mult on two cores, against four", 0.25, slow)
