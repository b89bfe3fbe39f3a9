# SPDX-License-Identifier: Apache-2.0
"""A view on a terminal, once or drawn anew until q: for `vp-agent top` and `openstack vp top`.

Nothing here asks a host or a cloud. Names come from tenants: what a terminal would obey in them is
never written to one.
"""

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nova_vp.cli.live_view import NoTerminal, Row, View
from nova_vp.printable import printable

WIDTH = 100
"""Every view fits into it."""
LAST_LINES = 2
"""Kept free below the table: the row that says what did not fit, and the cursor's."""


def watch(look: Callable[[], View], interval_s: float) -> None:
    """Draws what `look` sees until q or Ctrl-C. Raises NoTerminal, and what `look` raises."""
    console = Console()
    if not console.is_terminal or console.is_dumb_terminal or not sys.stdin.isatty():
        raise NoTerminal("a live view needs a terminal: use --once (vp-agent top also has -f json)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        _unbuffered_keys(),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        next_s = time.monotonic()
        while True:
            live.update(fitted(look(), console), refresh=True)
            next_s = max(next_s + interval_s, time.monotonic())
            if _is_quit_pressed(next_s):
                return


@contextlib.contextmanager
def _unbuffered_keys() -> Iterator[None]:
    """Keys are ours as they are pressed, and not shown; Ctrl-C stays what it is."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _is_quit_pressed(until_s: float) -> bool:
    """Waits until then at most."""
    keyboard = sys.stdin.fileno()
    while (left_s := until_s - time.monotonic()) > 0:
        if select.select([keyboard], [], [], left_s)[0]:
            pressed = os.read(keyboard, 64)
            if not pressed or b"q" in pressed.lower():
                return True
    return False


def print_once(view: View) -> None:
    """Not wider than WIDTH, on whatever standard output is."""
    console = Console()
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    console.print(_drawn(view, view.rows))


def fitted(view: View, console: Console) -> RenderableType:
    """As many rows as the terminal has room for, and how many more there are."""
    above = len(console.render_lines(_drawn(view, ())))
    room = max(console.height - above - LAST_LINES, 1)
    if len(view.rows) <= room:
        return _drawn(view, view.rows)
    rest = f"… and {len(view.rows) - room} more: enlarge the window, or use --once"
    return Group(_drawn(view, view.rows[:room]), Text(rest, style="dim"))


def _drawn(view: View, rows: Iterable[Row]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", expand=True)
    for column in view.columns:
        is_last = column is view.columns[-1]
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            width=None if is_last else column.width,
            min_width=column.width,
            ratio=1 if is_last else None,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        style = "bold red" if row.is_alarming else ""
        table.add_row(*(Text(printable(cell), style=style) for cell in row.cells))
    parts: list[RenderableType] = [
        Text(printable(view.title), style="bold"),
        *(Text(f"! {printable(problem)}", style="yellow") for problem in view.problems),
        *(Text(printable(line)) for line in view.lines),
        Text(""),
        table,
    ]
    if not view.rows:
        parts.append(Text(view.empty, style="dim"))
    return Group(*parts)
