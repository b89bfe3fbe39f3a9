# SPDX-License-Identifier: Apache-2.0
"""Commands of the testbeds run their own checkout's code, whatever the current folder is."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = ("lab/lab", "machine/machine", "cgroup2/cgroup2-lab", "numa/numa-lab")


def make_checkout(folder, package):
    inner = folder / "testbed" / package
    inner.mkdir(parents=True)
    (inner / "__main__.py").write_text(f"print({folder.name!r})\n")
    return inner


@pytest.mark.parametrize("command", COMMANDS)
def test_another_checkout_may_be_the_current_folder(tmp_path, command):
    package, name = command.split("/")
    script = make_checkout(tmp_path / "ours", package) / name
    script.write_text((ROOT / "testbed" / command).read_text())
    script.chmod(0o755)
    make_checkout(tmp_path / "other", package)
    python = tmp_path / "ours/.venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    done = subprocess.run([script], cwd=tmp_path / "other", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ours\n"), done.stderr
