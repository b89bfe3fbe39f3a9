# SPDX-License-Identifier: Apache-2.0
"""What one look at a host or a cloud saw, as text ready to be shown: values only.

Made by who knows where it came from (`vp_agent/top_view.py`, `vp_client/top.py`), drawn by
`nova_vp/screen.py`, which brings rich and is therefore imported late.
"""

from dataclasses import dataclass


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
