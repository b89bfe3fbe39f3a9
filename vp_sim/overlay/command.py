# SPDX-License-Identifier: Apache-2.0
"""`vp-sim overlay`: the published experiments of inTune and x86-IXP, with what the model has."""

import argparse
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from vp_sim.options import seed
from vp_sim.overlay.published import Row, rows
from vp_sim.overlay.uncoordinated import Fit, fits

DIGITS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=seed, default=1, help="Seed of all runs (%(default)s)")
    parser.add_argument("--json", action="store_true", help="Print JSON instead of tables")


def run(arguments: argparse.Namespace) -> int:
    fitted = fits(arguments.seed)
    found = tuple(rows(arguments.seed))
    if arguments.json:
        print(json.dumps(as_json(fitted, found), indent=2))
    else:
        show(Console(markup=False), fitted, found)
    return 0


def show(screen: Console, fitted: tuple[Fit, ...], found: tuple[Row, ...]) -> None:
    screen.print(_fits(fitted))
    screen.print(_rows(found))


def as_json(fitted: tuple[Fit, ...], found: tuple[Row, ...]) -> dict[str, Any]:
    return {
        "uncoordinated": [
            {
                "figure": one.what,
                "published": one.printed,
                "modelled": round(one.modelled, DIGITS),
            }
            for one in fitted
        ],
        "changes": [
            {
                "experiment": one.experiment,
                "figure": one.figure,
                "source": one.source,
                "published": None if one.published is None else round(one.published, DIGITS),
                "modelled": None if one.modelled is None else round(one.modelled, DIGITS),
                "direction_met": one.has_direction,
                "size_met": one.has_size,
            }
            for one in found
        ],
    }


def _fits(fitted: tuple[Fit, ...]) -> Table:
    table = Table(title="without coordination", title_justify="left")
    table.add_column("figure")
    table.add_column("published", justify="right")
    table.add_column("modelled", justify="right")
    for one in fitted:
        table.add_row(one.what, f"{one.printed:.4g}", f"{one.modelled:.4g}")
    return table


def _rows(found: tuple[Row, ...]) -> Table:
    table = Table(title="what coordination changes", title_justify="left")
    for name in ("experiment", "figure"):
        table.add_column(name)
    for name in ("published", "modelled"):
        table.add_column(name, justify="right")
    table.add_column("direction, size")
    for one in found:
        published = "" if one.published is None else f"{one.published:+.0%}"
        modelled = "" if one.modelled is None else f"{one.modelled:+.1%}"
        table.add_row(one.experiment, one.figure, published, modelled, verdict(one))
    return table


def verdict(row: Row) -> str:
    if row.published is None:
        return ""
    if row.modelled is None:
        return "not modelled"
    return f"{'met' if row.has_direction else 'missed'}, {'met' if row.has_size else 'missed'}"
