# SPDX-License-Identifier: Apache-2.0
"""The software PMU's own C tests, plain and under the address and undefined-behaviour sanitizers.

What they check lies in testbed/vpmu/tests; here they only take part in `make test`.
"""

import subprocess
from pathlib import Path

import pytest

VPMU = Path(__file__).resolve().parents[2] / "testbed" / "vpmu"


@pytest.mark.parametrize("target", ["check", "check-asan"])
def test_replayed_address_streams_give_known_answers(target: str) -> None:
    run = subprocess.run(
        ["make", "-C", str(VPMU), "--no-print-directory", target], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 failures" in run.stdout
