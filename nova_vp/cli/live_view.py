# SPDX-License-Identifier: Apache-2.0
"""What one look at a host or a cloud saw, as text ready to be shown: values only.

Made by who knows where it came from (`vp_agent/cli/top_view.py`, `vp_client/top.py`), drawn by
`nova_vp/cli/screen.py`, which brings rich and is therefore imported late.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Snapshot = TypeVar("Snapshot")


class NoTerminal(Exception):
    """A live view needs a terminal. The message says what goes without."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    width: int
    """The last one of a view has what is left."""
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[str, ...]
    is_alarming: bool = False


@dataclass(frozen=True, slots=True)
class View:
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    """The most important first: the last ones may not fit."""
    problems: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """What is to be said besides the rows."""
    empty: str = ""
    """Said instead of rows where there are none."""


def interval_s(lowest_s: float, highest_s: float) -> Callable[[str], float]:
    """For argparse: the seconds between looks."""

    def read(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = float("nan")  # which lies nowhere
        if not lowest_s <= seconds <= highest_s:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not an interval: use {lowest_s:g} to {highest_s:g} seconds"
            )
        return seconds

    return read


def kept(
    look: Callable[[], Snapshot],
    view: Callable[[Snapshot, str], View],
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
