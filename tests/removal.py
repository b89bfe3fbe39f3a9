# SPDX-License-Identifier: Apache-2.0
"""Does the project stand without one of its controllers? `python -m tests.removal [NAME ...]`.

For each, in a clone: its folder and its tests are removed with `git rm -r`, and its lines from
`setup.cfg`; then the unit tests and the documentation's build must pass. `--quick`: the tests of
the core alone. Committed changes count.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nova_vp.controllers import installed

ROOT = Path(__file__).parents[1]
CONTROLLERS = "nova_vp/core/controllers"
TESTS = "tests/unit/core/controllers"
UNIT = ("tests/unit",)
QUICK = ("tests/unit/core", "tests/unit/docs/test_controller_pages.py")
LAST_LINES = 15


class Step(NamedTuple):
    name: str
    words: tuple[str, ...]


def own() -> tuple[str, ...]:
    """Of this repository: others are in packages of their own."""
    return tuple(name for name in installed() if (ROOT / CONTROLLERS / name).is_dir())


def without(name: str, folder: Path) -> Path:
    """A clone that has no such controller."""
    clone = folder / f"without-{name}"
    run(["git", "clone", "--quiet", str(ROOT), str(clone)], folder)
    for path in (f"{CONTROLLERS}/{name}", f"{TESTS}/{name}"):
        run(["git", "rm", "-r", "--quiet", path], clone)
    setup = clone / "setup.cfg"
    lines = setup.read_text().splitlines(keepends=True)
    setup.write_text("".join(line for line in lines if f"controllers.{name}" not in line))
    # Entry points are found in the clone's own metadata, which come first on its path.
    run([sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "egg_info"], clone)
    return clone


def steps(is_quick: bool) -> Iterator[Step]:
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    yield Step("unit tests", (*pytest, *(QUICK if is_quick else UNIT)))
    if not is_quick:
        sphinx = (sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html")
        yield Step("documentation", (*sphinx, "doc/source", "doc/build"))


def run(words: Sequence[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """In the clone: what is imported is there, whatever is installed. Raises CalledProcessError."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(folder / "api")))}
    return subprocess.run(
        words,
        cwd=folder,
        env=env,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def failures(name: str, folder: Path, *, is_quick: bool) -> list[str]:
    """What fails without that controller, in words; empty: nothing."""
    clone = without(name, folder)
    found = []
    for step in steps(is_quick):
        print(f"without {name}: {step.name} …", file=sys.stderr, flush=True)
        try:
            run(step.words, clone)
        except subprocess.CalledProcessError as exc:
            last = "\n".join(str(exc.stdout).splitlines()[-LAST_LINES:])
            found.append(f"without {name}: {step.name} fail:\n{last}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(own()))
    parser.add_argument("--quick", action="store_true", help="the tests of the core alone")
    asked = parser.parse_args()
    names = asked.names or own()
    if unknown := set(names) - set(own()):
        parser.error(f"no controller of ours is named {', '.join(sorted(unknown))}: {own()} are")
    with tempfile.TemporaryDirectory() as folder:
        found = [
            text for name in names for text in failures(name, Path(folder), is_quick=asked.quick)
        ]
    for text in found:
        print(text)
    for name in names:
        is_fine = not any(text.startswith(f"without {name}:") for text in found)
        print(f"without {name:<20} {'passes' if is_fine else 'FAILS'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
