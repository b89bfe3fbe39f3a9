# SPDX-License-Identifier: Apache-2.0
"""A lab that runs a release: its scheduler places servers, which its computes start.

What fails leaves the logs of the lab's services in the cache.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.lab import settings
from testbed.lab.errors import LabError
from tests.lab.fresh import fresh_lab
from tests.nova_matrix import pytest_run
from tests.nova_matrix.environments import CACHE, Environment
from tests.nova_matrix.pytest_run import Counts

TESTS = "tests/lab/long_nova_release.py"


def run(environment: Environment, options: Sequence[str]) -> Counts:
    print(f"a lab with Nova {environment.name}: minutes …", file=sys.stderr, flush=True)
    kept = CACHE / "nova-matrix" / f"{environment.name}-lab-logs"
    shutil.rmtree(kept, ignore_errors=True)
    try:
        with fresh_lab("--nova", str(environment.folder)):
            counts = pytest_run.run(Path(sys.executable), [*options, TESTS], {})
    except LabError as error:
        print(error, file=sys.stderr)
        counts = {"passed": 0, "failed": 1, "skipped": 0}
    if counts["failed"] and settings.LOG.exists():
        shutil.copytree(settings.LOG, kept)
        print(
            f"the lab with Nova {environment.name} failed; the logs of its services: {kept}",
            file=sys.stderr,
        )
    return counts
