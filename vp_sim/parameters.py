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

Draw = Callable[["Figure"], float]
"""How a figure becomes a number: its value, or one out of its range."""


class Figure(NamedTuple):
    value: float
    source: str
    low: float
    high: float

    @property
    def is_estimated(self) -> bool:
        return self.source.startswith("estimated")


def printed(value: float, place: str) -> Figure:
    """As the thesis (by section, figure or table) or the slides print it."""
    return Figure(value, f"seed: {place}", value, value)


def public(value: float, where: str) -> Figure:
    return Figure(value, f"public: {where}", value, value)


def estimated(value: float, low: float, high: float, why: str) -> Figure:
    return Figure(value, f"estimated: {why}", low, high)


def nominal(figure: Figure) -> float:
    return figure.value


@dataclass(frozen=True, slots=True)
class Drawn:
    """A draw by seed: the same figures in the same order give the same numbers."""

    random: Random

    def __call__(self, figure: Figure) -> float:
        return self.random.uniform(figure.low, figure.high)
