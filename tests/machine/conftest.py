# SPDX-License-Identifier: Apache-2.0
"""Tests with real systemd as pid 1, in the machine of `testbed/machine`: `make machine-test`."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "testbed/machine/machine"


class Machine:
    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [COMMAND, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def up(self) -> None:
        done = self.command("up")
        assert done.returncode == 0, done.stderr

    def down(self) -> None:
        done = self.command("down")
        assert done.returncode == 0, done.stderr

    def run(self, text: str) -> "subprocess.CompletedProcess[str]":
        return self.command("shell", "sh", "-c", text)

    def says(self, text: str) -> str:
        done = self.run(text)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A fresh one, up."""
    if os.geteuid() != 0:
        pytest.skip("the machine needs root")
    made = Machine()
    made.down()
    made.up()
    try:
        yield made
    finally:
        made.down()
