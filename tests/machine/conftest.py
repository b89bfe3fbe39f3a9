# SPDX-License-Identifier: Apache-2.0
"""Tests with real systemd as pid 1, in the machine of `testbed/machine`: `make machine-test`."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.machine import settings

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "testbed/machine/machine"


class Machine:
    def __init__(self, name: str = settings.DEFAULT_NAME) -> None:
        self.name = name

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [COMMAND, "--name", self.name, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def up(self, *options: str) -> None:
        done = self.command("up", *options)
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
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A fresh one, up; of the release that a test asks for."""
    if os.geteuid() != 0:
        pytest.skip("the machine needs root")
    made = Machine()
    made.down()
    release = getattr(request, "param", None)
    made.up(*(["--debian", release] if release else []))
    try:
        yield made
    finally:
        made.down()
