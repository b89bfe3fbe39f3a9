# SPDX-License-Identifier: Apache-2.0
"""What any policy could reach on a mix, from below: the best of many arrangements that never
change.

First every placement with local memory, then steps from the best of these, and from where policies
ended, to whatever is better: other places, memory splits, caps. Where nothing next to an
arrangement is better, the search goes on some random steps away from the best, until its budget is
spent. The same seed searches the same way. A better arrangement may exist, and so may a better
course of changes: what is found is a lower bound of the optimum.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import exp, log
from random import Random
from typing import NamedTuple

from tests.bench.arrangements import (
    Arrangement,
    Vms,
    local_arrangements,
    neighbours,
    placement_of,
    vms_of,
)
from tests.bench.static_run import run_static
from vp_sim.contention import Contention
from vp_sim.measure import efficiency
from vp_sim.placement import Placement
from vp_sim.run import World

MARGIN = 0.05
"""PE counts where the worst degradation is at most so far above the least. PE divides by the CPU
used, so that caps alone would win it."""
ROUND = 500
"""Arrangements that a round scores: about as many as it takes to get stuck."""
STARTS = 4
"""Arrangements that are climbed from first, by each of the two aims."""
KICKS = 3
"""Random steps away from the best, before the search goes on."""
SHARPNESS = 60.0
"""Losses a sixtieth below the worst count for about a third of it."""
PENALTY = 5.0
"""Share of PE for each unit of degradation beyond the limit."""
DIGITS = 5
"""Finer differences are the solver's."""
SOLUTIONS_KEPT = 300
"""Arrangements after which the model forgets what it solved: it would take gigabytes."""


class Score(NamedTuple):
    losses: tuple[float, ...]
    """Degradation of every application, the worst first."""
    pe: float

    @property
    def worst(self) -> float:
        return self.losses[0]


Key = Callable[[Score], float]
"""Less is better."""


class Ceiling(NamedTuple):
    least_worst: float
    pe_of_least_worst: float
    most_pe: float
    worst_of_most_pe: float
    searched: int
    fairest: Placement
    fullest: Placement


@dataclass(slots=True)
class Scorer:
    """Scores arrangements, each once."""

    world: World
    best_s: Mapping[str, float]
    vms: Vms = field(init=False)
    scores: dict[Arrangement, Score] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.vms = vms_of(self.world.mix)

    def score(self, arrangement: Arrangement) -> Score:
        if arrangement not in self.scores:
            if len(self.scores) % SOLUTIONS_KEPT == 0:
                self.world = replace(self.world, contention=Contention(self.world.machine))
            self.scores[arrangement] = self._scored(arrangement)
        return self.scores[arrangement]

    def _scored(self, arrangement: Arrangement) -> Score:
        run = run_static(self.world, placement_of(self.vms, arrangement))
        losses = (round(took / self.best_s[n] - 1, DIGITS) for n, took in run.seconds.items())
        pe = efficiency(run, self.best_s, len(self.vms.topology.cpus))
        return Score(tuple(sorted(losses, reverse=True)), round(pe, DIGITS))


def search(
    world: World,
    best_s: Mapping[str, float],
    more: Iterable[Arrangement],
    budget: int,
    seed: int,
) -> Ceiling:
    """`more` is climbed from, too; `budget` is how many arrangements are scored after these and the
    enumerated ones."""
    scorer = Scorer(world, best_s)
    for arrangement in (*local_arrangements(scorer.vms), *more):
        scorer.score(arrangement)
    random = Random(f"ceiling-{seed}")
    _improve_in_rounds(scorer, _smooth_worst, random, budget // 2)
    _improve_in_rounds(scorer, _by_pe(_limit(scorer)), random, budget - budget // 2)
    return _ceiling(scorer)


def _improve_in_rounds(scorer: Scorer, key: Key, random: Random, budget: int) -> None:
    """Each from the same starts, whatever another has found: steps are taken in a random order, and
    one round may get stuck where another does not."""
    starts, begun_at = tuple(scorer.scores), len(scorer.scores)
    rounds = max(1, budget // ROUND)
    for number in range(1, rounds + 1):
        _improve(scorer, key, random, starts, begun_at + budget * number // rounds)


def _smooth_worst(score: Score) -> float:
    """Near the worst, and less where fewer applications are near it: a step that helps one of two
    equally bad ones is a step ahead."""
    return score.worst + log(sum(exp(SHARPNESS * (one - score.worst)) for one in score.losses)) / (
        SHARPNESS
    )


def _by_pe(limit: float) -> Key:
    """Beyond the limit it counts for less, so that the search may cross there."""
    return lambda score: -score.pe * (1 - PENALTY * max(0.0, score.worst - limit))


def _limit(scorer: Scorer) -> float:
    return min(score.worst for score in scorer.scores.values()) + MARGIN


def _improve(
    scorer: Scorer, key: Key, random: Random, starts: Iterable[Arrangement], until: int
) -> None:
    """From the best few, each with an equal part of the budget at most; then from the best."""
    starts = sorted(starts, key=lambda a: key(scorer.scores[a]))[:STARTS]
    part = (until - len(scorer.scores)) // (2 * STARTS)
    best = min(
        (_climb(scorer, start, key, random, len(scorer.scores) + part) for start in starts),
        key=lambda arrangement: key(scorer.scores[arrangement]),
    )
    while len(scorer.scores) < until:
        found = _climb(scorer, _kicked(scorer, best, random), key, random, until)
        best = min(best, found, key=lambda arrangement: key(scorer.scores[arrangement]))


def _climb(scorer: Scorer, start: Arrangement, key: Key, random: Random, until: int) -> Arrangement:
    """Until nothing next to it is better, or so many arrangements are scored."""
    here, is_top = start, False
    while not is_top:
        is_top = True
        for there in neighbours(scorer.vms, here, random):
            if len(scorer.scores) >= until:
                return here
            if key(scorer.score(there)) < key(scorer.scores[here]):
                here, is_top = there, False
                break
    return here


def _kicked(scorer: Scorer, arrangement: Arrangement, random: Random) -> Arrangement:
    for _ in range(KICKS):
        arrangement = next(neighbours(scorer.vms, arrangement, random))
    scorer.score(arrangement)
    return arrangement


def _ceiling(scorer: Scorer) -> Ceiling:
    scores = scorer.scores
    fairest = min(scores, key=lambda arrangement: scores[arrangement].losses)
    limit = _limit(scorer)
    within = (arrangement for arrangement, score in scores.items() if score.worst <= limit)
    fullest = max(within, key=lambda arrangement: scores[arrangement].pe)
    return Ceiling(
        least_worst=scores[fairest].worst,
        pe_of_least_worst=scores[fairest].pe,
        most_pe=scores[fullest].pe,
        worst_of_most_pe=scores[fullest].worst,
        searched=len(scores),
        fairest=placement_of(scorer.vms, fairest),
        fullest=placement_of(scorer.vms, fullest),
    )
