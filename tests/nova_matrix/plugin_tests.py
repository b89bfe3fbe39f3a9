# SPDX-License-Identifier: Apache-2.0
"""The tests of filter, weigher, validators and monitor in a release's environment.

Twice: with threads, and as Nova's eventlet-patched services run. A test file takes part by
`pytest.mark.nova`.
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from tests.nova_matrix.environments import ROOT, Environment

PATCHING = {"threads": "1", "eventlet": "0"}
"""OS_NOVA_DISABLE_EVENTLET_PATCHING, which Nova reads."""
EVENTLET_ALONE = ("31",)
"""Releases whose oslo.service has no threads."""
OF_AGENTS = (
    "tests/unit/compute/test_agent_supervisor.py",
    "tests/unit/scheduler/test_resources.py",
)
"""They import the agent's code too, which runs elsewhere and needs threads."""


def concurrencies(environment: Environment) -> list[str]:
    is_old = environment.release in EVENTLET_ALONE
    return ["eventlet"] if is_old else [*PATCHING]


def run(environment: Environment, concurrency: str, options: Sequence[str]) -> dict[str, int]:
    """How many passed, failed and were skipped."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        argv = [environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        argv += [f"--junitxml={report.name}", *options, *marked_files(environment)]
        patching = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": PATCHING[concurrency]}
        done = subprocess.run(
            argv, cwd=ROOT, env={**os.environ, **patching}, capture_output=True, text=True
        )
        counts = _counted(Path(report.name).read_text())
    if done.returncode:
        print(done.stdout[-8000:], done.stderr[-4000:], file=sys.stderr)
    # pytest that did not get to its end has failed, whatever it counted.
    return counts if not done.returncode or counts["failed"] else {**counts, "failed": 1}


def marked_files(environment: Environment) -> list[str]:
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "pytest.mark.nova\n" in path.read_text() or "pytest.mark.nova," in path.read_text()
    ]
    if not found:
        raise SystemExit("no test file carries pytest.mark.nova")
    left_out = OF_AGENTS if environment.release in EVENTLET_ALONE else ()
    return [name for name in found if name not in left_out]


def _counted(report: str) -> dict[str, int]:
    if not report:  # pytest did not get as far as its first test
        return {"passed": 0, "failed": 0, "skipped": 0}
    suites = list(ElementTree.fromstring(report).iter("testsuite"))
    total, skipped, failures, errors = (
        sum(int(suite.get(kind, "0")) for suite in suites)
        for kind in ("tests", "skipped", "failures", "errors")
    )
    failed = failures + errors
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}
