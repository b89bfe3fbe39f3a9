# SPDX-License-Identifier: Apache-2.0
"""The pages as the tests read them: blocks of code by language, and what stands in `code`."""

import re
from collections.abc import Iterator
from pathlib import Path

from nova_vp import controller_pages

ROOT = Path(__file__).parents[3]
DOC = ROOT / "doc/source"
GENERATED = DOC / "controllers"
"""Written by a build of the documentation, perhaps of another state of the code."""
WRITTEN = sorted(path for path in DOC.rglob("*.md") if GENERATED not in path.parents)
PAGES = {
    **{str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *WRITTEN]},
    **{f"controllers/{name}": text for name, text in controller_pages.pages().items()},
}
ALL = "\n".join(PAGES.values())


def blocks(language: str) -> Iterator[str]:
    for text in PAGES.values():
        yield from re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def typed() -> Iterator[str]:
    """Every command that a reader is told to type, as root (`#`) or not (`$`)."""
    for block in blocks("console"):
        joined = block.replace("\\\n", " ")
        yield from (line[2:] for line in joined.splitlines() if line[:2] in ("# ", "$ "))


def inline() -> Iterator[str]:
    """What stands in `code`, outside of blocks; in tables, bars are written `\\|`."""
    for text in PAGES.values():
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for code in re.findall(r"`([^`]+)`", prose):
            yield " ".join(code.replace("\\|", "|").split())
