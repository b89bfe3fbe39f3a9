# SPDX-License-Identifier: Apache-2.0
"""One run of pytest, by its counts."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.nova_matrix.environments import ROOT

Counts = dict[str, int]
"""How many passed, failed and were skipped."""


def run(python: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> Counts:
    """`environment`: besides ours. What pytest printed is on stderr if anything failed."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        argv = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*argv, f"--junitxml={report.name}", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        counts = _counted(Path(report.name).read_text())
    if done.returncode:
        print(done.stdout[-8000:], done.stderr[-4000:], file=sys.stderr)
    # pytest that did not get to its end has failed, whatever it counted.
    return counts if not done.returncode or counts["failed"] else {**counts, "failed": 1}


def _counted(report: str) -> Counts:
    if not report:  # pytest did not get as far as its first test
        return {"passed": 0, "failed": 0, "skipped": 0}
    suites = list(ElementTree.fromstring(report).iter("testsuite"))
    total, skipped, failures, errors = (
        sum(int(suite.get(kind, "0")) for suite in suites)
        for kind in ("tests", "skipped", "failures", "errors")
    )
    failed = failures + errors
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}
