# SPDX-License-Identifier: Apache-2.0
"""What live views do alike, whatever they look at: how often, and what a failed look leaves.

Nothing here draws (`nova_vp/screen.py`) or knows what is looked at (`vp_agent/top.py`,
`vp_client/top.py`).
"""

import argparse
from collections.abc import Callable
from typing import TypeVar

from nova_vp.view import View

Seen = TypeVar("Seen")


def interval_s(lowest_s: float, highest_s: float) -> Callable[[str], float]:
    """For argparse: the seconds between looks."""

    def read(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = float("nan")  # which lies nowhere
        if not lowest_s <= seconds <= highest_s:
            raise argparse.ArgumentTypeError(
                f"{text!r} are not seconds from {lowest_s:g} to {highest_s:g}"
            )
        return seconds

    return read


def kept(
    look: Callable[[], Seen],
    view: Callable[[Seen, str], View],
    failures: tuple[type[Exception], ...],
) -> Callable[[], View]:
    """Every look as a view; where one fails the last one stays, with the reason.

    Looks at once, and raises what that raises: it is told at the shell, not on a screen that goes
    away.
    """
    last = look()

    def again() -> View:
        nonlocal last
        try:
            last = look()
        except failures as exc:
            return view(last, str(exc))
        return view(last, "")

    return again
