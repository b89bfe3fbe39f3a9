# SPDX-License-Identifier: Apache-2.0
"""What the sources print of their experiments, beside what the model comes to.

Both are changes from the case without coordination to the one with it, if the row does not say
otherwise. A direction is met if both have the same sign and the model changes by LEAST, a size if
the model is off by a third of what is printed at most. Where about nothing is printed to change,
both are met by a change of at most ABOUT_NOTHING.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from nova_vp.core.types.overlay import ArbitrationClass
from vp_sim.overlay import coordinated, setups
from vp_sim.overlay.coordinated import SWAPPED_CLASSES, Answered, Served, served
from vp_sim.overlay.figures import Barrier, Parsec, Players, Rubis, RubisOnIxp
from vp_sim.overlay.uncoordinated import (
    KNEE_PER_S,
    PARSEC_RUNS,
    SETTLED_S,
    Completed,
    barrier_ms,
    completed,
    pools,
)

MOST_OFF = 1 / 3
ABOUT_NOTHING = 0.02
LEAST = 0.005
"""Less is no direction."""
BARRIER_RUNS = 5


@dataclass(frozen=True, slots=True)
class Row:
    experiment: str
    figure: str
    published: float | None
    """None: the model alone has it."""
    modelled: float | None
    """None: nothing in the model has it."""
    source: str = ""

    @property
    def has_direction(self) -> bool | None:
        if self.published is None or self.modelled is None:
            return None
        if self.published == 0.0:
            return abs(self.modelled) <= ABOUT_NOTHING
        return self.published * self.modelled > 0.0 and abs(self.modelled) >= LEAST

    @property
    def has_size(self) -> bool | None:
        if self.published is None or self.modelled is None:
            return None
        if self.published == 0.0:
            return self.has_direction
        return abs(self.modelled - self.published) <= MOST_OFF * abs(self.published) + 1e-9


def rows(seed: int) -> Iterator[Row]:
    """One after the other, since each takes some seconds."""
    for experiment in EXPERIMENTS:
        yield from experiment(seed)


def change(before: float, after: float) -> float:
    return after / before - 1.0


def _rubis(seed: int) -> Sequence[Row]:
    figures = Rubis()
    setup = setups.rubis(figures, seed, figures.sessions, is_capped=True)
    setup.run_until(SETTLED_S + 4 * figures.phase_s)
    base = served(setup, SETTLED_S)
    tune, borrow = (coordinated.rubis(seed, borrows) for borrows in (0, 1))
    swapped = coordinated.rubis(seed, 0, SWAPPED_CLASSES)
    where, source, picture = "RUBiS, three tiers on islands", "T table 5", "T figure 27"

    def row(figure: str, printed: float, modelled: float) -> Row:
        return Row(where, figure, printed, modelled, source)

    return (
        row("requests/s, tune", 110 / 75 - 1, change(base.per_s, tune.per_s)),
        row("requests/s, borrow", 126 / 75 - 1, change(base.per_s, borrow.per_s)),
        row("cores in use, tune", 475 / 385 - 1, change(base.cores, tune.cores)),
        row("cores in use, borrow", 492 / 385 - 1, change(base.cores, borrow.cores)),
        row("time of a session, tune", 454 / 473 - 1, change(base.step_s, tune.step_s)),
        row("time of a session, borrow", 440 / 473 - 1, change(base.step_s, borrow.step_s)),
        row("efficiency, tune", 0.23 / 0.19 - 1, _efficiency(base, tune)),
        row("efficiency, borrow", 0.26 / 0.19 - 1, _efficiency(base, borrow)),
        Row(where, "deviation, most of a class", -0.6, _most(base, borrow, _deviation), picture),
        Row(where, "mean response, most of a class", -0.7, _most(base, borrow, _mean), picture),
        Row(where, "requests/s, classes swapped", None, change(base.per_s, swapped.per_s)),
    )


def _efficiency(before: Served, after: Served) -> float:
    return change(before.per_s / before.cores, after.per_s / after.cores)


def _most(before: Served, after: Served, of: Callable[[Answered], float]) -> float:
    """Of the class that falls most."""
    return min(change(of(before.of[one]), of(after.of[one])) for one in before.of)


def _deviation(one: Answered) -> float:
    return one.deviation_ms


def _mean(one: Answered) -> float:
    return one.mean_ms


def _rubis_on_ixp(seed: int) -> Sequence[Row]:
    setup = setups.rubis_on_ixp(RubisOnIxp(), seed)
    setup.run_until(3 * SETTLED_S)
    base, tuned = served(setup, SETTLED_S), coordinated.rubis_on_ixp(seed)
    swapped = coordinated.rubis_on_ixp(seed, SWAPPED_CLASSES)
    where, source = "RUBiS on x86-IXP", "I table 2"
    per_core = (one.per_s / one.guest_cores for one in (base, tuned))
    browse, bid = (change(_mean(base.of[one]), _mean(tuned.of[one])) for one in base.of)
    least = max(change(base.of[one].least_ms, tuned.of[one].least_ms) for one in base.of)
    peak = _most(base, tuned, lambda one: one.most_ms)
    deviation = _most(base, tuned, _deviation)
    return (
        Row(where, "requests/s", 95 / 68 - 1, change(base.per_s, tuned.per_s), source),
        Row(where, "sessions completed", 11 / 6 - 1, None, source),
        Row(where, "time of a session", 73 / 103 - 1, change(base.step_s, tuned.step_s), source),
        Row(where, "efficiency of guests", 58.2 / 51.28 - 1, change(*per_core), source),
        Row(where, "mean response, browse", BROWSE_CHANGE, browse, "I table 1"),
        Row(where, "mean response, bid", BID_CHANGE, bid, "I table 1"),
        Row(where, "deviation, most of a class", -0.5, deviation, "I figure 4"),
        Row(where, "longest response, most of a class", -0.3, peak, "T figure 19"),
        Row(where, "shortest response, most of a class", 0.03, least, "I 3.1"),
        Row(where, "requests/s, classes swapped", None, change(base.per_s, swapped.per_s)),
    )


BROWSE_CHANGE = (461 + 1242 + 788 + 1490 + 927 + 530 + 1944) / (
    922 + 1896 + 1085 + 1491 + 1068 + 590 + 2147
) - 1
"""Browse, BrowseCategories, SearchItemsInCategory, BrowseRegions, BrowseCategoriesInRegion,
SearchItemsInRegion and ViewItem, summed up."""
BID_CHANGE = (1015 + 292 + 867 + 538 + 1421 + 721 + 490 + 188 + 546) / (
    1447 + 551 + 1089 + 1528 + 3366 + 4186 + 720 + 351 + 1154
) - 1
"""Register, BuyNow, PutBidAuth, PutBid, StoreBid, PutComment, Sell, SellItemForm and AboutMe."""


def _barrier(seed: int) -> Sequence[Row]:
    seeds = range(seed, seed + BARRIER_RUNS)
    before = [barrier_ms(setups.barrier(Barrier(), one)) for one in seeds]
    after = [coordinated.barrier(one) for one in seeds]
    where, source = "MPI barrier", "T table 6"
    printed = {"mpi": 1361 / 1580 - 1, "bs-first": 4197 / 4122 - 1, "bs-second": 4207 / 4117 - 1}
    found = [
        Row(where, f"time of {name}", figure, change(*_means(name, before, after)), source)
        for name, figure in printed.items()
    ]
    variations = [_spread([run["mpi"] for run in runs]) for runs in (before, after)]
    return [*found, Row(where, "variation of mpi", 2.93 / 6 - 1, change(*variations), source)]


def _means(name: str, *cases: Sequence[dict[str, float]]) -> list[float]:
    return [statistics.mean(run[name] for run in runs) for runs in cases]


def _spread(numbers: Sequence[float]) -> float:
    return statistics.stdev(numbers) / statistics.mean(numbers)


def _players(seed: int) -> Sequence[Row]:
    figures, where, alone = Players(), "players", coordinated.frames_per_s
    before, after = alone(setups.players(figures, seed)), coordinated.players(seed)
    plain, tuned = alone(setups.two_streams(figures, seed)), coordinated.two_streams(seed)
    streams, source = "two streams, tuned", "I figure 6"
    slow, fast = (change(plain[one], tuned[one]) for one in ("slow", "fast"))
    needed = {"slow": figures.slow_fps, "fast": figures.fast_fps}
    over = {name: change(per_s, tuned[name]) for name, per_s in needed.items()}
    return (
        Row(where, "frames/s, triggered", 26.6 / 24 - 1, _of("stream", before, after), "I table 3"),
        Row(where, "frames/s, its neighbour", 75 / 80 - 1, _of("disk", before, after), "I table 3"),
        Row(streams, "frames/s over the 20 needed, slow", 22 / 20 - 1, over["slow"], source),
        Row(streams, "frames/s over the 25 needed, fast", 25.7 / 25 - 1, over["fast"], source),
        Row(streams, "frames/s of the slow one", None, slow),
        Row(streams, "frames/s of the fast one", None, fast),
    )


def _of(name: str, before: dict[str, float], after: dict[str, float]) -> float:
    return change(before[name], after[name])


def _parsec(seed: int) -> Sequence[Row]:
    seeds = range(seed, seed + PARSEC_RUNS)
    pool = pools(seed)
    islands = [coordinated.parsec(one, lends=False) for one in seeds]
    lending = [coordinated.parsec(one, lends=True) for one in seeds]
    cases = (pool, islands, lending)
    of_pool, of_islands, of_lending = (_mean_of(runs, _seconds) for runs in cases)
    cores = [_mean_of(runs, lambda run: run.cores) for runs in (pool, lending)]
    waited = [_mean_of(runs, lambda run: run.waited_s) for runs in (islands, lending)]
    spreads = [_spread([run.seconds for run in runs]) for runs in (pool, lending)]
    over = [max(max(run.most_cores for run in runs) - 20.0, 0.0) for runs in (pool, lending)]
    where, table = "PARSEC on islands under a cap", "T table 4"
    efficiency = change(cores[1] * of_lending, cores[0] * of_pool)
    by_borrowing = change(of_pool, of_lending)
    return (
        Row(where, "completion against one pool", 9.98 / 11.88 - 1, by_borrowing, table),
        Row(where, "cores in use against one pool", 1040 / 938 - 1, change(*cores), table),
        Row(where, "efficiency against one pool", 9.63 / 8.97 - 1, efficiency, table),
        Row(where, "deviation against one pool", -0.98, change(*spreads), "T figure 25"),
        Row(where, "CPU waiting against one pool", -0.2, None, "T figure 26"),
        Row(where, "completion against islands", None, change(of_islands, of_lending)),
        Row(where, "CPU waiting against islands", None, change(*waited)),
        Row(where, "cores over the cap, borrow", 0.0, over[1], "T 4.5.1"),
        *_of_fewer(seed),
    )


def _of_fewer(seed: int) -> Iterator[Row]:
    """With as many vCPUs as CPUs, and with fewer: nobody borrows."""
    for vcpus in (4, 6):
        figures = replace(Parsec(), vcpus=vcpus)
        pool = completed(setups.parsec(figures, seed, is_one_pool=True))
        alone, lending = (
            coordinated.parsec(seed, lends=lends, figures=figures) for lends in (False, True)
        )
        where = f"PARSEC, {vcpus} vCPUs on islands of 6 CPUs"
        by_borrowing = change(alone.seconds, lending.seconds)
        by_islands = change(pool.seconds, alone.seconds)
        yield Row(where, "completion, borrow against islands", 0.0, by_borrowing, "T figure 25")
        yield Row(where, "completion, islands against one pool", None, by_islands)


def _mean_of(runs: Sequence[Completed], of: Callable[[Completed], float]) -> float:
    return statistics.mean(of(run) for run in runs)


def _seconds(run: Completed) -> float:
    return run.seconds


def _last_cpu(seed: int) -> Sequence[Row]:
    found = {one: coordinated.last_cpu(seed, one) for one in ArbitrationClass}
    prior, turns = found[ArbitrationClass.PRIORITY], found[ArbitrationClass.ROUND_ROBIN]
    at_best = coordinated.last_cpu(seed, ArbitrationClass.PRIORITY, 1.5 * KNEE_PER_S)
    words = [1 / turns[f"words_{when}"] for when in ("own", "one", "last")]
    where, source = "web server and word count want the last CPU", "T 4.5.3"

    def row(figure: str, printed: float, modelled: float) -> Row:
        return Row(where, figure, printed, modelled, source)

    return (
        row("requests/s, one borrowed", 1.0, change(prior["web_own"], prior["web_one"])),
        row("requests/s, the last too", 3.0, change(prior["web_own"], prior["web_last"])),
        row("best requests/s, one borrowed", 0.1, change(KNEE_PER_S, at_best["web_one"])),
        row("word count's time, one borrowed", -0.2, change(words[0], words[1])),
        row("word count's time, the last", -0.05, change(words[1], words[2])),
        row("web server has it by priority", 1.0, prior["web_got_it"]),
        row("word count has it in turn", 1.0, turns["words_got_it"]),
    )


EXPERIMENTS: tuple[Callable[[int], Sequence[Row]], ...] = (
    _rubis,
    _rubis_on_ixp,
    _barrier,
    _players,
    _parsec,
    _last_cpu,
)
