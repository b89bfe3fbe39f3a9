# SPDX-License-Identifier: Apache-2.0
"""What permits can keep of the victim's speed, whoever enforces them: by the model alone.

No agent runs here. Every polluter is given the same share of a CPU, once and for all: the one at
which its own misses are what its permit pays, or the least at which it does the work that a policy
owes it. The victim's speed beside that is what no policy that fulfils the permit can exceed by
much: a smaller share withholds what was sold.
"""

from collections.abc import Callable
from typing import NamedTuple

from vp_sim.contention import Contention, Speed
from vp_sim.loads import Load
from vp_sim.solver import root

PRECISION_CORES = 1e-5


class Company(NamedTuple):
    """A victim that runs as it likes beside some polluters of one kind."""

    contention: Contention
    victim: Load
    polluter: Load
    count: int
    most_cores: float
    """Of each polluter: what is left for them."""

    def speeds(self, cores: float) -> tuple[Speed, Speed]:
        """Of the victim, and of each polluter with so much of a CPU."""
        [(domain, _)] = self.polluter.cores
        held = self.polluter._replace(cores=((domain, cores),))
        victim, polluter, *_ = self.contention.speeds([self.victim, *[held] * self.count])
        return victim, polluter


def victim_instructions_per_s(
    company: Company, amount: Callable[[Speed], float], most: float
) -> float:
    """Of the victim, where `amount` of each polluter is `most`, or what it reaches below that."""

    def excess(cores: float) -> float:
        return amount(company.speeds(cores)[1]) - most

    cores = company.most_cores
    if excess(cores) > 0:
        cores = root(excess, 0.0, cores, PRECISION_CORES, 0.0)
    return company.speeds(cores)[0].instructions_per_s
