# SPDX-License-Identifier: Apache-2.0
"""The tables and the picture of the page *The model of overlays*, from what the command prints:
`vp-sim overlay --json | python -m tests.bench.overlay_page`.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

DOC = Path(__file__).parents[2] / "doc/source"
PAGE, PICTURE = DOC / "overlay-model.md", DOC / "images/overlay-model.svg"
STYLE = {"svg.hashsalt": "overlay-model", "svg.fonttype": "none"}

Found = Mapping[str, Sequence[Mapping[str, Any]]]


def tables(found: Found) -> dict[str, str]:
    """By the name of their place in the page."""
    fits = [
        (one["figure"], f"{one['published']:.4g}", f"{one['modelled']:.4g}")
        for one in found["uncoordinated"]
    ]
    changes = [
        (
            one["experiment"],
            one["figure"],
            one["source"],
            _percent(one["published"]),
            _percent(one["modelled"]),
            _met(one, "direction_met"),
            _met(one, "size_met"),
        )
        for one in found["changes"]
    ]
    return {
        "uncoordinated": _table(("without coordination", "published", "model"), fits),
        "changes": _table(
            ("experiment", "figure", "source", "published", "model", "direction", "size"), changes
        ),
        "count": _count(found["changes"]),
    }


def _count(changes: Sequence[Mapping[str, Any]]) -> str:
    published = [one for one in changes if one["published"] is not None]
    modelled = [one for one in published if one["modelled"] is not None]
    direction, size = (sum(one[key] for one in modelled) for key in ("direction_met", "size_met"))
    return (
        f"Of {len(published)} published figures {len(modelled)} are modelled. {direction} of them"
        f" have the direction, {size} the size."
    )


def _percent(number: float | None) -> str:
    return "" if number is None else f"{100 * number:+.1f} %"


def _met(row: Mapping[str, Any], key: str) -> str:
    if row["published"] is None:
        return ""
    if row["modelled"] is None:
        return "not modelled"
    return "met" if row[key] else "missed"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def put(page: str, places: Mapping[str, str]) -> str:
    for name, text in places.items():
        between = re.compile(f"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        page, count = between.subn(lambda match, text=text: match[1] + text + match[2], page)
        if count != 1:
            sys.exit(f"{PAGE} has no place '<!-- {name} -->' … '<!-- end -->': add it.")
    return page


def draw(changes: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A pair of points for each figure that is published and modelled."""
    both = [one for one in changes if None not in (one["published"], one["modelled"])]
    places = range(len(both), 0, -1)
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(10, 0.27 * len(both) + 1.2))
        axes.axvline(0, color="black", linewidth=0.8)
        for place, one in zip(places, both, strict=True):
            ends = (100 * one["published"], 100 * one["modelled"])
            axes.plot(ends, (place, place), color="0.7", linewidth=1, zorder=1)
        for key, marker, colour in (("published", "D", "C1"), ("modelled", "o", "C0")):
            axes.scatter([100 * one[key] for one in both], places, marker=marker, c=colour, s=28)
        axes.legend(axes.collections, ("published", "model"), loc="lower left")
        axes.set_yticks(places, [f"{one['experiment']}: {one['figure']}" for one in both])
        axes.tick_params(axis="y", labelsize=8)
        axes.set_xlabel("change by coordination, %")
        axes.set_xscale("symlog", linthresh=100)
        axes.set_xticks([-100, -50, 0, 50, 100, 300], ["-100", "-50", "0", "50", "100", "300"])
        axes.grid(axis="x", alpha=0.3)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


if __name__ == "__main__":
    printed: Found = json.load(sys.stdin)
    PAGE.write_text(put(PAGE.read_text(), tables(printed)))
    draw(printed["changes"], PICTURE)
