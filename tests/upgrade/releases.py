# SPDX-License-Identifier: Apache-2.0
"""The releases whose processes meet: this one, and a former one in a folder of its own.

The former one is a revision of this repository: `NOVA_VP_FORMER` names it. Without, it is the last
tag before this commit; while there is none, the commit that froze the messages of a release last.
Its sources and its environment are kept in `.cache/upgrade/`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CHOICE = "NOVA_VP_FORMER"
FOLDER = ROOT / ".cache" / "upgrade"
FROZEN = "tests/frozen"


class Release(NamedTuple):
    name: str
    root: Path
    """Its sources, with its tests."""
    programs: Path
    """The folder of its programs, and of its Python."""

    def program(self, name: str) -> str:
        return str(self.programs / name)


class NoFormerRelease(Exception):
    """There is nothing to compare with. The text says what to do."""


def this_release() -> Release:
    return Release("this release", ROOT, Path(sys.executable).parent)


def former_release() -> Release:
    """Made when first asked for, which takes a minute or two. Raises NoFormerRelease."""
    revision = os.environ.get(CHOICE) or _default_revision()
    if not revision:
        raise NoFormerRelease(
            "this clone has no former release: fetch the history (`git fetch --unshallow --tags`), "
            "or name a revision with FORMER="
        )
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not commit:
        raise NoFormerRelease(
            f"this clone has no revision {revision!r}: give another one with FORMER=, or fetch the "
            "history (`git fetch --unshallow --tags`)"
        )
    root = FOLDER / commit[:12]
    if not root.exists():
        _unpack(commit, root)
    # Returns at once where the environment is complete.
    subprocess.run([root / "tools" / "make-venv"], check=True)
    return Release(f"{revision} ({commit[:12]})", root, root / ".venv" / "bin")


def _default_revision() -> str:
    """Empty: a clone without its history has none."""
    if tag := _git("describe", "--tags", "--abbrev=0", "HEAD^"):
        return tag
    if _git("rev-parse", "--is-shallow-repository") == "true":
        return ""
    return _git("log", "-1", "--format=%H", "--", FROZEN)


def _unpack(commit: str, root: Path) -> None:
    """No work tree of git's: it would stay registered in the clone."""
    fresh = root.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", fresh], input=archive.stdout, check=True)
    fresh.rename(root)


def _git(*words: str) -> str:
    """What it prints; empty where it finds nothing."""
    ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.strip()
