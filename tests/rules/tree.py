# SPDX-License-Identifier: Apache-2.0
"""A copy of the tracked files in which a rule may be missing, and pytest in that copy."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.rules.declared import Rule
from tests.working_tree import copy_files, tracked_files

LIMIT_S = 120.0
"""For the tests of one run: a rule that is missing must not keep it from ending."""
PASSED, FAILED = 0, 1
"""Of pytest; any other status says that no test ran to its end."""
CRASHED = re.compile(r"^(/.*?):\d+: ", re.MULTILINE)
"""Where the failed test's exception was raised: `--tb=line`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What pytest said."""

    status: int
    output: str
    raised_in: str = ""
    """The file, within the tree, whose line raised what failed the test."""


@dataclass
class Tree:
    root: Path
    writes: int = field(default=0, init=False)

    @classmethod
    def copy(cls, source: Path, target: Path) -> "Tree":
        copy_files(tracked_files(source), source, target)
        tree = cls(target)
        if (target / "setup.cfg").exists():
            # The controllers are found by their entry points.
            tree.python(
                "-c", "import setuptools; setuptools.setup()", "-q", "egg_info"
            ).check_returncode()
        return tree

    @contextmanager
    def without(self, rule: Rule) -> Iterator[None]:
        code = (self.root / rule.file).read_text()
        self._write(rule.file, rule.without(code))
        try:
            yield
        finally:
            self._write(rule.file, code)

    def _write(self, file: str, code: str) -> None:
        path = self.root / file
        path.write_text(code)
        # Bytecode is known to be old by whole seconds.
        self.writes += 1
        os.utime(path, (self.writes, self.writes))

    def pytest(self, nodes: Iterable[str]) -> Ended:
        # The core's tests need nothing of what `tests/conftest.py` prepares, which takes longest.
        plain = (
            "--noconftest",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=",
            "-q",
            "--tb=line",
            "-x",
        )
        try:
            ended = self.python("-m", "pytest", *plain, *nodes)
        except subprocess.TimeoutExpired:
            return Ended(-1, f"it did not end within {LIMIT_S:.0f} s")
        output = ended.stdout + ended.stderr
        raised = CRASHED.search(output)
        raised_in = raised[1].removeprefix(f"{self.root}/") if raised else ""
        return Ended(ended.returncode, output, raised_in)

    def python(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
        own = {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": "",
            # What stevedore knows of other trees' entry points is none of this one's.
            "XDG_CACHE_HOME": str(self.root / ".cache"),
        }
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**inherited, **own},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
