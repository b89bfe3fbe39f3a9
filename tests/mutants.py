# SPDX-License-Identifier: Apache-2.0
"""`make mutants`: how many small faults in the code the unit tests notice.

mutmut plants them in a copy, one at a time, and runs the tests that reach each. A whole part takes
hours: `--sample` chooses some. Faults in texts for people alone count apart. One JSON line for each
part, and the survivors.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.working_tree import copy_files, tracked_files

ROOT = Path(__file__).parents[1]
COPY = ROOT / ".cache" / "mutants"
NOTHING = "nothing.of.this.name"
"""mutmut makes all mutants before it finds that none is asked for."""
VERDICTS = {0: "survived", 5: "untested", 33: "untested", 36: "timeout", 24: "timeout"}
"""By mutmut's exit codes. All others: the tests failed."""
_LITERAL = re.compile(r'[rbf]*"[^"]*"')


class Part(NamedTuple):
    source: str
    files: tuple[str, ...]
    tests: tuple[str, ...]


PARTS = {
    "core": Part("nova_vp", ("nova_vp/core/*.py",), ("tests/unit/core",)),
    "wire": Part(
        "nova_vp",
        ("nova_vp/wire/*.py", "nova_vp/*_message.py"),
        ("tests/unit/test_wire.py", "tests/unit/test_overlay_message.py", "tests/unit/publish"),
    ),
    "escalation": Part(
        "vp_scheduler", ("vp_scheduler/escalation/*.py",), ("tests/unit/escalation",)
    ),
    "journal": Part("vp_agent", ("vp_agent/drivers/*journal*.py",), ("tests/unit/drivers",)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--only", default="", help="mutants with this in their names")
    parser.add_argument("--sample", type=int, help="so many of each part, by chance")
    parser.add_argument("--seed", type=int, default=1, help="of that chance")
    asked = parser.parse_args()
    for name in asked.part or PARTS:
        folder = prepare(name, PARTS[name])
        names = sorted(one for one in verdicts(folder) if asked.only in one)
        if asked.sample is not None:
            chance = random.Random(asked.seed)
            names = sorted(chance.sample(names, min(asked.sample, len(names))))
        mutmut(folder, "run", "--max-children", "2", *names, shows=True)
        tell(name, folder, names, asked.seed)
    return 0


def prepare(name: str, part: Part) -> Path:
    """A copy in which all mutants of the part are made and none was tried."""
    folder = COPY / name
    shutil.rmtree(folder, ignore_errors=True)
    tracked = tracked_files(ROOT)
    copy_files(tracked, ROOT, folder)
    others = sorted({file.partition("/")[0] for file in tracked} - {part.source, "tests"})
    with (folder / "pyproject.toml").open("a") as file:
        file.write(
            "\n[tool.mutmut]\n"
            f"source_paths = {json.dumps([part.source])}\n"
            f"only_mutate = {json.dumps(part.files)}\n"
            f"also_copy = {json.dumps(others)}\n"
            f"pytest_add_cli_args_test_selection = {json.dumps(part.tests)}\n"
        )
    mutmut(folder, "run", NOTHING)
    if not verdicts(folder):
        sys.exit(f"no mutants of {name} were made; `mutmut run` in {folder} says why")
    return folder


def mutmut(folder: Path, *words: str, shows: bool = False) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("mutmut")), *words],
        cwd=folder,
        stdout=None if shows else subprocess.PIPE,
        stderr=None if shows else subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout or ""


def verdicts(folder: Path) -> dict[str, int | None]:
    """Exit code of the tests by name of the mutant; None: it was not tried."""
    found: dict[str, int | None] = {}
    for file in (folder / "mutants").rglob("*.meta"):
        found.update(json.loads(file.read_text())["exit_code_by_key"])
    return found


def tell(part: str, folder: Path, names: Sequence[str], seed: int) -> None:
    codes = verdicts(folder)
    counts: Counter[str] = Counter()
    survivors = []
    for name in names:
        verdict = VERDICTS.get(codes[name] if codes[name] is not None else 33, "killed")
        if verdict in ("survived", "untested"):
            change = changed_lines(mutmut(folder, "show", name).splitlines())
            if is_of_text(change):
                verdict = "text"
            else:
                survivors.append(f"{verdict}: {name}\n" + "\n".join(change))
        counts[verdict] += 1
    print("\n\n".join(survivors), flush=True)
    counted = sum(counts.values()) - counts["text"]
    found = counts["killed"] + counts["timeout"]
    score = round(found / counted, 4) if counted else None
    print(json.dumps({"part": part, "seed": seed, "score": score, **counts}), flush=True)


def changed_lines(diff: Iterable[str]) -> list[str]:
    return [line for line in diff if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def is_of_text(change: Sequence[str]) -> bool:
    """Nothing but literals differ."""
    before, after = (
        [_LITERAL.sub('""', line[1:]) for line in change if line.startswith(sign)] for sign in "-+"
    )
    return before == after


if __name__ == "__main__":
    sys.exit(main())
