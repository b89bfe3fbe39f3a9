# SPDX-License-Identifier: Apache-2.0
"""A flame graph as SVG, of stacks that `py-spy record --format raw` has counted.

    py-spy record --format raw --output stacks --pid PID
    python -m tests.bench.flame_graph stacks 'Agent.tick (' >flame.svg

Only what runs below the frame that begins so is shown, by function. Standard output gets the SVG.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, ROW, LETTER = 1200.0, 17.0, 6.6
LEAST_SHARE = 0.002
"""Of all samples: narrower frames cannot be seen."""
_LINE = re.compile(r":\d+\)$")
HUES = ("#e8a26b", "#e9b872", "#d98f63", "#edc987")
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
    'font-family="monospace" font-size="11">\n<rect width="100%" height="100%" fill="#fffdf8"/>'
)
BOX = (
    '<g><title>{told}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="16" '
    'fill="{fill}"/><text x="{text_x:.1f}" y="{text_y:.1f}">{text}</text></g>'
)


@dataclass(slots=True)
class Frame:
    samples: int = 0
    below: dict[str, "Frame"] = field(default_factory=dict)


class Box(NamedTuple):
    name: str
    depth: int
    from_share: float
    share: float


def read(lines: Iterable[str], begins: str) -> Frame:
    """All that ran below the first frame of a stack that begins so."""
    root = Frame()
    for line in lines:
        stack, _, samples = line.rpartition(" ")
        names = [_LINE.sub(")", frame) for frame in stack.split(";")]
        first = next((n for n, name in enumerate(names) if name.startswith(begins)), len(names))
        frame = root
        for name in names[first:]:
            frame.samples += int(samples)
            frame = frame.below.setdefault(name, Frame())
        if first < len(names):
            frame.samples += int(samples)
    return root


def boxes(root: Frame) -> Iterator[Box]:
    def inside(frame: Frame, depth: int, from_share: float) -> Iterator[Box]:
        for name, child in sorted(frame.below.items()):
            share = child.samples / root.samples
            if share >= LEAST_SHARE:
                yield Box(name, depth, from_share, share)
                yield from inside(child, depth + 1, from_share)
            from_share += share

    return inside(root, 0, 0.0) if root.samples else iter(())


def drawn(found: Iterable[Box]) -> str:
    listed = list(found)
    height = ROW * (max((box.depth for box in listed), default=0) + 1)
    lines = [HEAD.format(width=WIDTH, height=height)]
    for number, box in enumerate(listed):
        x, y, width = WIDTH * box.from_share, ROW * box.depth, WIDTH * box.share
        lines.append(
            BOX.format(
                told=escape(f"{box.name}: {box.share:.1%}"),
                x=x,
                y=y,
                width=max(width - 0.5, 0.5),
                fill=HUES[number % len(HUES)],
                text_x=x + 3,
                text_y=y + 12,
                text=escape(box.name.partition(" ")[0][: int((width - 6) / LETTER)])
                if width > 4 * LETTER
                else "",
            )
        )
    return "\n".join([*lines, "</svg>\n"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stacks", type=Path, help="what py-spy wrote")
    parser.add_argument("begins", help="how the lowest frame to be shown begins")
    arguments = parser.parse_args()
    with arguments.stacks.open() as lines:
        root = read(lines, arguments.begins)
    if not root.samples:
        sys.exit(f"no stack has a frame that begins with {arguments.begins!r}: see the file")
    print(drawn(boxes(root)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
