# SPDX-License-Identifier: Apache-2.0
"""Commands say what they are asked, and nothing of the libraries they are made of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("command", ["vp-agent check", "vp-status upgrade check"])
def test_libraries_warn_nobody_who_types_a_command(tmp_path: Path, command: str) -> None:
    (tmp_path / "nova-vp.conf").write_text("[DEFAULT]\ntransport_url = rabbit://127.0.0.1:1/\n")
    program, *words = command.split()
    argv = [BIN / program, f"--config-dir={tmp_path}", *words]
    loud = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(argv, env=loud, capture_output=True, text=True, timeout=120)
    assert done.stdout
    assert "Warning" not in done.stderr
