# SPDX-License-Identifier: Apache-2.0
"""The tests of filter, weigher, validators and monitor in a release's environment.

Twice: with threads, and as Nova's eventlet-patched services run. A test file takes part by
`pytest.mark.nova`.
"""

from collections.abc import Sequence

from tests.nova_matrix import pytest_run
from tests.nova_matrix.environments import ROOT, Environment
from tests.nova_matrix.pytest_run import Counts

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


def run(environment: Environment, concurrency: str, options: Sequence[str]) -> Counts:
    patching = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": PATCHING[concurrency]}
    return pytest_run.run(environment.python, [*options, *marked_files(environment)], patching)


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
