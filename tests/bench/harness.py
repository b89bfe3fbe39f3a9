# SPDX-License-Identifier: Apache-2.0
"""What every benchmark shares: its budgets, the machine's speed, its command line, its table.

A benchmark starts and stops all it needs by itself. With `--json` its numbers alone go to stdout.
Progress, missed budgets and failures always go to stderr.
"""

import argparse
import json
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

Numbers = Mapping[str, float]
MACHINE_MS = "machine_ms"
STATED_FOR_MS = 40.0
"""Budgets of time are stated for a machine on which `machine_ms` is this."""
TRIES = 5


class CannotMeasure(Exception):
    """Something that the benchmark needs is not here; the message says what."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The upper limit of one number."""

    limit: float
    is_scaled: bool

    def on(self, machine_ms: float) -> float:
        return self.limit * machine_ms / STATED_FOR_MS if self.is_scaled else self.limit


def scaled(limit: float) -> Budget:
    """For a time or a CPU cost: a slower machine gets more of it."""
    return Budget(limit, is_scaled=True)


def fixed(limit: float) -> Budget:
    """For what does not depend on the machine's speed: a ratio, a count, a size."""
    return Budget(limit, is_scaled=False)


def numbers_themselves(found: Mapping[str, Any]) -> Numbers:
    return found


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    about: str
    budgets: Mapping[str, Budget]
    """By the name of the number."""
    measure: Callable[[], Mapping[str, Any]]
    """All that `--json` prints."""
    numbers_of: Callable[[Mapping[str, Any]], Numbers] = numbers_themselves
    """What the table shows of it, and the budgets limit."""

    def limits(self, machine_ms: float) -> Numbers:
        return {name: budget.on(machine_ms) for name, budget in self.budgets.items()}

    def missed(self, numbers: Numbers, machine_ms: float) -> list[str]:
        limits = self.limits(machine_ms)
        return [name for name, limit in limits.items() if not numbers[name] <= limit]


def measure_machine_ms() -> float:
    """How fast this machine runs Python: a fixed loop in milliseconds, the best of five times."""
    return round(min(_loop_ms() for _ in range(TRIES)), 2)


def _loop_ms() -> float:
    began_s = time.perf_counter()
    sum(i * i for i in range(1_000_000))
    return (time.perf_counter() - began_s) * 1000


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def command_line(benchmark: Benchmark) -> int:
    """For a benchmark without options of its own. The exit status."""
    parser = argparse.ArgumentParser(description=benchmark.about)
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    return run(benchmark, as_json=parser.parse_args().json)


def run(benchmark: Benchmark, *, as_json: bool = False) -> int:
    """Measures, prints and compares. The exit status: 0 only if every budget is kept; otherwise
    stderr says why."""
    try:
        with _explained_end(benchmark.name):
            speed_ms = measure_machine_ms()
            found = benchmark.measure()
    except CannotMeasure as exc:
        progress(f"{benchmark.name} was not measured: {exc}")
        return 1
    except Exception as exc:
        traceback.print_exc()
        progress(f"{benchmark.name} failed: {type(exc).__name__}: {exc}")
        return 1
    numbers = benchmark.numbers_of(found)
    if as_json:
        print(json.dumps({**found, MACHINE_MS: speed_ms}))
    else:
        show(benchmark, numbers, speed_ms)
    return tell_missed(benchmark, numbers, speed_ms)


@contextmanager
def _explained_end(name: str) -> Iterator[None]:
    """SIGTERM ends everything that was started, and says so."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name} was ended by SIGTERM"))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def tell_missed(benchmark: Benchmark, numbers: Numbers, machine_ms: float) -> int:
    """The exit status."""
    missed = benchmark.missed(numbers, machine_ms)
    for name in missed:
        budget = benchmark.budgets[name]
        stated = f" ({budget.limit:g} at {MACHINE_MS} {STATED_FOR_MS:g})"
        progress(
            f"{benchmark.name}: {name} is {numbers[name]:.4g}, over its budget of "
            f"{budget.on(machine_ms):.4g}{stated if budget.is_scaled else ''}"
        )
    return 1 if missed else 0


def show(benchmark: Benchmark, numbers: Numbers, machine_ms: float) -> None:
    table = Table(title=f"{benchmark.name}: {benchmark.about}")
    factor = machine_ms / STATED_FOR_MS
    table.caption = (
        f"{MACHINE_MS} {machine_ms:.4g}: budgets of time are {factor:.2f} times as stated for "
        f"{STATED_FOR_MS:g}"
    )
    for heading in ("number", "measured", "budget", ""):
        table.add_column(heading, justify="right" if heading in ("measured", "budget") else "left")
    limits, missed = benchmark.limits(machine_ms), benchmark.missed(numbers, machine_ms)
    for name, value in numbers.items():
        limit = limits.get(name)
        verdict = "" if limit is None else "missed" if name in missed else "ok"
        table.add_row(name, f"{value:.4g}", "" if limit is None else f"{limit:.4g}", verdict)
    Console().print(table)
