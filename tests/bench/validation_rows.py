# SPDX-License-Identifier: Apache-2.0
"""One published figure beside the model's, and how near is near enough."""

from collections.abc import Sequence
from typing import Any, NamedTuple

THIRD = 1 / 3
DIGITS = 4

Span = tuple[float, float]
"""From, to: most figures are printed as a range."""


class Row(NamedTuple):
    source: str
    """Figure, table or section."""
    what: str
    published: float | list[float] | str
    modelled: float | list[float]
    tolerance: str
    is_met: bool
    reason: str = ""
    """Why it is not met."""

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "what": self.what,
            "published": self.published,
            "modelled": self.modelled,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            **({} if self.is_met else {"reason": self.reason}),
        }

    @property
    def verdict(self) -> str:
        return "met" if self.is_met else "unmet"

    def as_text(self) -> str:
        return (
            f"{self.verdict:5} {self.source}: {self.what}: published {self.published}, "
            f"modelled {self.modelled}"
        )


def sized(
    source: str,
    what: str,
    published: float | Span,
    modelled: float | Sequence[float],
    tolerance: float = THIRD,
) -> Row:
    """Met within that share of what is printed, on either side of a range; what is printed of each
    of several, by each of them."""
    low, high = published if isinstance(published, tuple) else (published, published)
    numbers = [modelled] if isinstance(modelled, float | int) else list(modelled)
    rounded = [round(number, DIGITS) for number in numbers]
    return Row(
        source=source,
        what=what,
        published=[low, high] if low < high else low,
        modelled=rounded if len(rounded) > 1 else rounded[0],
        tolerance="a third" if tolerance == THIRD else f"{tolerance:.0%}",
        is_met=all(low * (1 - tolerance) <= number <= high * (1 + tolerance) for number in numbers),
    )


def directed(source: str, what: str, published: str, modelled: list[float], holds: bool) -> Row:
    """Printed as a relation without a size; `modelled` are the numbers that it compares."""
    numbers = [round(number, DIGITS) for number in modelled]
    return Row(source, what, published, numbers, "direction", holds)
