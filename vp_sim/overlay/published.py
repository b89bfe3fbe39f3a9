# SPDX-License-Identifier: Apache-2.0
"""What the sources print of their experiments, beside what the model comes to.

Both are changes from the case without coordination to the one with it. A direction is met if both
have the same sign, a size if the model is off by a third of what is printed at most.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nova_vp.core.types.overlay import ArbitrationClass
from vp_sim.overlay import coordinated, setups
from vp_sim.overlay.coordinated import SWAPPED_CLASSES, Served, served
from vp_sim.overlay.figures import Barrier, Players, Rubis, RubisOnIxp
from vp_sim.overlay.uncoordinated import PARSEC_RUNS, SETTLED_S, pools

MOST_OFF = 1 / 3


@dataclass(frozen=True, slots=True)
class Row:
    experiment: str
    figure: str
    published: float | None
    """Change; None: the model alone has it."""
    modelled: float
    source: str = ""

    @property
    def has_direction(self) -> bool | None:
        return None if self.published is None else self.published * self.modelled > 0.0

    @property
    def has_size(self) -> bool | None:
        if self.published is None:
            return None
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
    where, source = "RUBiS, three tiers on islands", "T table 5"
    return (
        Row(where, "requests/s, tune", 110 / 75 - 1, change(base.per_s, tune.per_s), source),
        Row(where, "requests/s, borrow", 126 / 75 - 1, change(base.per_s, borrow.per_s), source),
        Row(where, "efficiency, tune", 0.23 / 0.19 - 1, _efficiency(base, tune), source),
        Row(where, "efficiency, borrow", 0.26 / 0.19 - 1, _efficiency(base, borrow), source),
        Row(where, "deviation, most of a class", -0.6, _deviation(base, borrow), "T figure 27"),
        Row(where, "requests/s, classes swapped", None, change(base.per_s, swapped.per_s)),
    )


def _efficiency(before: Served, after: Served) -> float:
    return change(before.per_s / before.cores, after.per_s / after.cores)


def _deviation(before: Served, after: Served) -> float:
    kinds = before.deviation_ms
    return min(change(before.deviation_ms[one], after.deviation_ms[one]) for one in kinds)


def _rubis_on_ixp(seed: int) -> Sequence[Row]:
    setup = setups.rubis_on_ixp(RubisOnIxp(), seed)
    setup.run_until(3 * SETTLED_S)
    base, tuned = served(setup, SETTLED_S), coordinated.rubis_on_ixp(seed)
    swapped = coordinated.rubis_on_ixp(seed, SWAPPED_CLASSES)
    where = "RUBiS on x86-IXP"
    return (
        Row(where, "requests/s", 95 / 68 - 1, change(base.per_s, tuned.per_s), "I table 2"),
        Row(where, "deviation, most of a class", -0.5, _deviation(base, tuned), "I figure 4"),
        Row(where, "requests/s, classes swapped", None, change(base.per_s, swapped.per_s)),
    )


def _barrier(seed: int) -> Sequence[Row]:
    setup = setups.barrier(Barrier(), seed)
    for one in setup.parallel.values():
        one.begin()
    setup.run_until(SETTLED_S)
    before = {name: 1000 * (one.ended_at_s or 0.0) for name, one in setup.parallel.items()}
    after = coordinated.barrier(seed)
    printed = {"mpi": 1361 / 1580 - 1, "bs-first": 4197 / 4122 - 1, "bs-second": 4207 / 4117 - 1}
    return [
        Row(
            "MPI barrier", f"time of {name}", figure, change(before[name], after[name]), "T table 6"
        )
        for name, figure in printed.items()
    ]


def _players(seed: int) -> Sequence[Row]:
    figures, where, alone = Players(), "players", coordinated.frames_per_s
    before, after = alone(setups.players(figures, seed)), coordinated.players(seed)
    plain, tuned = alone(setups.two_streams(figures, seed)), coordinated.two_streams(seed)
    fast = change(plain["fast"], tuned["fast"])
    return (
        Row(where, "frames/s, triggered", 26.6 / 24 - 1, _of("stream", before, after), "I table 3"),
        Row(where, "frames/s, its neighbour", 75 / 80 - 1, _of("disk", before, after), "I table 3"),
        Row("two streams", "frames/s of the fast one, tuned", None, fast),
        Row("two streams", "frames/s of the slow one, tuned", None, _of("slow", plain, tuned)),
    )


def _of(name: str, before: dict[str, float], after: dict[str, float]) -> float:
    return change(before[name], after[name])


def _parsec(seed: int) -> Sequence[Row]:
    seeds = range(seed, seed + PARSEC_RUNS)
    pool = pools(seed)
    islands = [coordinated.parsec(one, lends=False) for one in seeds]
    lending = [coordinated.parsec(one, lends=True) for one in seeds]

    seconds = [[one.seconds for one in runs] for runs in (pool, islands, lending)]
    of_pool, of_islands, of_lending = (statistics.mean(some) for some in seconds)
    waited = [statistics.mean(one.waited_s for one in runs) for runs in (islands, lending)]
    spreads = [statistics.stdev(some) / statistics.mean(some) for some in seconds]
    over = max(max(one.most_cores for one in lending) - 20.0, 0.0)
    where = "PARSEC on islands under a cap"
    return (
        Row(
            where,
            "completion, borrow against one pool",
            9.98 / 11.88 - 1,
            change(of_pool, of_lending),
            "T table 4",
        ),
        Row(where, "completion, borrow against islands", None, change(of_islands, of_lending)),
        Row(where, "CPU waiting, borrow against islands", None, change(*waited)),
        Row(where, "deviation of completion", -0.98, change(spreads[0], spreads[2]), "T 4.5.1"),
        Row(where, "cores over the cap of 20", None, over),
    )


def _last_cpu(seed: int) -> Sequence[Row]:
    found = {one: coordinated.last_cpu(seed, one) for one in ArbitrationClass}
    prior, turns = found[ArbitrationClass.PRIORITY], found[ArbitrationClass.ROUND_ROBIN]
    where = "web server and word count want the last CPU"
    return (
        Row(where, "requests/s, one borrowed", 1.0, change(prior["own"], prior["one"]), "T 4.5.3"),
        Row(where, "requests/s, the last too", 3.0, change(prior["own"], prior["last"]), "T 4.5.3"),
        Row(where, "web server has it by priority", 1.0, prior["web_got_it"], "T 4.5.3"),
        Row(where, "word count has it in turn", 1.0, turns["words_got_it"], "T 4.5.3"),
    )


EXPERIMENTS: tuple[Callable[[int], Sequence[Row]], ...] = (
    _rubis,
    _rubis_on_ixp,
    _barrier,
    _players,
    _parsec,
    _last_cpu,
)
