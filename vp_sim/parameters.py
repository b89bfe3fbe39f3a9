# SPDX-License-Identifier: Apache-2.0
"""A number together with where it comes from, and what that leaves open.

`printed` in the thesis or its slides, `public` (a datasheet, a published characterisation), or
`estimated` with the range it may lie in. A draw takes every estimated figure from its range, so
that a result can be shown to hold for more than one guess.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

Draw = Callable[["Parameter"], float]
"""How a figure becomes a number: its value, or one out of its range."""


class Parameter(NamedTuple):
    value: float
    source: str
    low: float
    high: float

    @property
    def is_estimated(self) -> bool:
        return self.source.startswith("estimated")


def printed(value: float, place: str) -> Parameter:
    """As the thesis (by section, figure or table) or the slides print it."""
    return Parameter(value, f"seed: {place}", value, value)


def public(value: float, where: str) -> Parameter:
    return Parameter(value, f"public: {where}", value, value)


def estimated(value: float, low: float, high: float, why: str) -> Parameter:
    return Parameter(value, f"estimated: {why}", low, high)


def nominal(figure: Parameter) -> float:
    return figure.value


@dataclass(frozen=True, slots=True)
class Drawn:
    """A draw by seed: the same figures in the same order give the same numbers."""

    random: Random

    def __call__(self, figure: Parameter) -> float:
        return self.random.uniform(figure.low, figure.high)
