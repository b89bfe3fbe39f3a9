# SPDX-License-Identifier: Apache-2.0
"""The monitor's file in Nova's folder, placed and removed by the interpreter that has that Nova."""

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from nova_vp.compute.place_monitor import TEXT

pytestmark = pytest.mark.nova
ROOT = Path(__file__).resolve().parents[3]


def place(site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """With nothing but the standard library, our package and what is in `site`."""
    return subprocess.run(
        [sys.executable, "-S", "-m", "nova_vp.compute.place_monitor", *options],
        env={**os.environ, "PYTHONPATH": f"{site}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the monitors of a Nova are, whose import would fail."""
    folder = tmp_path / "nova/compute/monitors/cpu"
    folder.mkdir(parents=True)
    (tmp_path / "nova/__init__.py").write_text("raise SystemExit('nova was imported')\n")
    return folder


def test_the_file_is_placed_beside_novas_and_removed(tmp_path: Path, folder: Path) -> None:
    file = folder / "vp.py"
    placed = place(tmp_path)
    assert (placed.stdout, placed.returncode) == (f"placed {file}\n", 0), placed.stderr
    assert file.read_text() == TEXT
    for _ in range(2):
        removed = place(tmp_path, "--remove")
        assert (removed.stdout, removed.returncode) == (f"removed {file}\n", 0), removed.stderr
        assert not file.exists()


@pytest.mark.parametrize("option", [(), ("--remove",)])
def test_a_file_that_cannot_be_written_is_said(
    tmp_path: Path, folder: Path, option: tuple[str, ...]
) -> None:
    (folder / "vp.py").mkdir()
    refused = place(tmp_path, *option)
    assert refused.returncode == 1
    assert f"{folder / 'vp.py'}: Is a directory; run it as a user who may" in refused.stderr


def test_without_nova_it_says_whose_python_to_take(tmp_path: Path) -> None:
    refused = place(tmp_path)
    assert refused.returncode == 1
    assert "has no Nova: run this with the Python that nova-compute runs with" in refused.stderr


def test_no_package_of_ours_is_called_as_one_of_novas() -> None:
    """An editable install would hide a Nova that is editable too, as both are in DevStack."""
    setup = ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg")
    ours = setup["options"]["packages"].split()
    assert ours
    assert not [name for name in ours if name.split(".")[0] == "nova"]
