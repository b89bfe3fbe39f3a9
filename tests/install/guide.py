# SPDX-License-Identifier: Apache-2.0
"""The installation guide as steps: commands with the output they show, and files to write.

Output is compared as shown; `...` stands for anything.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[2] / "doc/source/install.md"
BLOCK = re.compile(r"```(?P<language>console|ini)\n(?P<text>.*?)```", re.DOTALL)
HEADED = re.compile(r"^(###?) (.*)\n((?:(?!##).*\n)*)", re.MULTILINE)
FILE = re.compile(r"^(?:Add to )?`(/etc/[\w./-]+)`.*:$")


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
    """By their titles; those of the third level are parts of those of the second as well."""
    found: dict[str, Section] = {}
    above = ""
    for level, title, body in HEADED.findall(PAGE.read_text()):
        found[title] = Section(title, list(_steps(body)))
        if level == "##":
            above = title
        else:
            found[above].steps += found[title].steps
    return found


def _steps(body: str) -> Iterator[Command | File]:
    for block in BLOCK.finditer(body):
        if block["language"] == "console":
            yield from commands(block["text"])
        elif file := FILE.match(body[: block.start()].strip().rpartition("\n")[2]):
            yield File(file[1], block["text"])


def commands(text: str) -> list[Command]:
    found: list[Command] = []
    for part in re.split(r"^(?=[#$] )", text, flags=re.MULTILINE):
        if not part.strip():
            continue
        lines = part.replace("\\\n", " ").split("\n", 1)
        found.append(Command(lines[0][2:], part[0] == "#", lines[1]))
    return found
