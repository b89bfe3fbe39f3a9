# SPDX-License-Identifier: Apache-2.0
"""The drop-in for hosts with several NUMA nodes adds what moving memory needs."""

import shutil
import subprocess
from pathlib import Path

import pytest

CONFIGURATION = Path(__file__).parents[2] / "etc/nova-vp"
DROP_IN = CONFIGURATION / "numa.conf"


@pytest.mark.parametrize("unit", ["vp-agent.service", "vp-agent-release.service"])
def test_it_adds_to_lists_that_the_unit_has(unit: str) -> None:
    text = (CONFIGURATION / "systemd" / unit).read_text()
    for setting in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert f"\n{setting}=CAP_SYS_PTRACE\n" in DROP_IN.read_text()
        assert f"\n{setting}=CAP_" in text


def test_systemd_understands_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    service = tmp_path / "agent.service"
    service.write_text("[Service]\nExecStart=/bin/true\n" + DROP_IN.read_text())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", service], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
