# SPDX-License-Identifier: Apache-2.0
"""The drop-ins of the units add the rights that only some hosts need."""

import shutil
import subprocess
from pathlib import Path

import pytest

CONFIGURATION = Path(__file__).parents[2] / "etc/nova-vp"
RIGHT_OF = {"numa.conf": "CAP_SYS_PTRACE", "network.conf": "CAP_NET_RAW"}
UNITS_OF = {
    "numa.conf": ("vp-agent.service", "vp-agent-release.service"),
    "network.conf": ("vp-agent.service",),
}


@pytest.mark.parametrize(
    ("drop_in", "unit"), [(name, unit) for name, units in UNITS_OF.items() for unit in units]
)
def test_it_adds_to_lists_that_the_unit_has(drop_in: str, unit: str) -> None:
    text = (CONFIGURATION / "systemd" / unit).read_text()
    for setting in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert f"\n{setting}={RIGHT_OF[drop_in]}\n" in (CONFIGURATION / drop_in).read_text()
        assert f"\n{setting}=CAP_" in text


@pytest.mark.parametrize("drop_in", RIGHT_OF)
def test_systemd_understands_it(tmp_path: Path, drop_in: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    service = tmp_path / "agent.service"
    text = (CONFIGURATION / drop_in).read_text()
    service.write_text("[Service]\nExecStart=/bin/true\n" + text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", service], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
