# SPDX-License-Identifier: Apache-2.0
"""What every benchmark shares: its budgets, its command line, the table for people.

A benchmark starts and stops all it needs by itself. With `--json` its numbers alone go to stdout;
progress always goes to stderr.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    about: str
    budgets: Numbers
    """Upper limits, by the name of the number."""
    measure: Callable[[], Numbers]

    def missed(self, numbers: Numbers) -> list[str]:
        return [name for name, limit in self.budgets.items() if not numbers[name] <= limit]


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def command_line(benchmark: Benchmark) -> int:
    """The exit status: 1 if a budget is missed."""
    parser = argparse.ArgumentParser(description=benchmark.about)
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    arguments = parser.parse_args()
    numbers = benchmark.measure()
    if arguments.json:
        print(json.dumps(numbers))
    else:
        show(benchmark, numbers)
    return 1 if benchmark.missed(numbers) else 0


def show(benchmark: Benchmark, numbers: Numbers) -> None:
    table = Table(title=f"{benchmark.name}: {benchmark.about}")
    for heading in ("number", "measured", "budget", ""):
        table.add_column(heading, justify="right" if heading in ("measured", "budget") else "left")
    missed = benchmark.missed(numbers)
    for name, value in numbers.items():
        limit = benchmark.budgets.get(name)
        verdict = "" if limit is None else "missed" if name in missed else "ok"
        table.add_row(name, f"{value:.4g}", "" if limit is None else f"{limit:g}", verdict)
    Console().print(table)
