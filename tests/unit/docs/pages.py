# SPDX-License-Identifier: Apache-2.0
"""The pages as the tests read them: blocks of code by language, and what stands in `code`."""

import re
from collections.abc import Iterator
from pathlib import Path

from nova_vp import controller_pages, controllers

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
NOTE_FILES = sorted((ROOT / "releasenotes/notes").glob("*.yaml"))


def controller_of(note: str) -> str | None:
    """Whom it is about alone: a controller has a note `controller-NAME-ID.yaml` of its own."""
    found = re.fullmatch(r"controller-(\w+)-[0-9a-f]{16}\.yaml", note)
    return found[1] if found else None


NOTES = {
    path.name: path.read_text().replace("``", "`")
    for path in NOTE_FILES
    if controller_of(path.name) in {None, *controllers.installed()}
}
"""The release notes, with `code` as in pages. Notes outlive a controller that was removed."""


def blocks(language: str) -> Iterator[str]:
    for text in PAGES.values():
        yield from re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def typed() -> Iterator[str]:
    """Every command that a reader is told to type, as root (`#`) or not (`$`)."""
    for block in blocks("console"):
        joined = block.replace("\\\n", " ")
        yield from (line[2:] for line in joined.splitlines() if line[:2] in ("# ", "$ "))


def inline() -> Iterator[str]:
    """What stands in `code` in pages, outside of blocks, and in release notes; in tables, bars are
    written `\\|`."""
    for text in (*PAGES.values(), *NOTES.values()):
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for code in re.findall(r"`([^`]+)`", prose):
            yield " ".join(code.replace("\\|", "|").split())
