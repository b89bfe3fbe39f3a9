# SPDX-License-Identifier: Apache-2.0
"""The installation guide as steps: commands with the output they show, and files to write.

Output is compared as shown; `...` stands for anything.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[2] / "doc/source/install.md"
BLOCK = re.compile(r"```(?P<language>console|ini)\n(?P<text>.*?)```", re.DOTALL)
FILE = re.compile(r"^`(/etc/[\w./-]+)`.*:$")


@dataclass(frozen=True)
class Command:
    text: str
    is_root: bool
    expected: str = ""

    def is_met_by(self, said: str) -> bool:
        wanted = re.escape(self.expected.strip()).replace(re.escape("..."), ".*")
        wanted = re.sub(r"(\\ )+", r"\\s+", wanted)
        return re.fullmatch(wanted, said.strip(), re.DOTALL) is not None


@dataclass(frozen=True)
class File:
    path: str
    text: str


@dataclass
class Section:
    title: str
    steps: list[Command | File] = field(default_factory=list)


def sections() -> dict[str, Section]:
    """By the title of the second level; those below it are parts of it."""
    found: dict[str, Section] = {}
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        found[title] = Section(title)
        for block in BLOCK.finditer(body):
            if block["language"] == "console":
                found[title].steps += commands(block["text"])
            elif file := FILE.match(body[: block.start()].strip().rpartition("\n")[2]):
                found[title].steps.append(File(file[1], block["text"]))
    return found


def commands(text: str) -> list[Command]:
    found: list[Command] = []
    for part in re.split(r"^(?=[#$] )", text, flags=re.MULTILINE):
        if not part.strip():
            continue
        lines = part.replace("\\\n", " ").split("\n", 1)
        found.append(Command(lines[0][2:], part[0] == "#", lines[1]))
    return found
