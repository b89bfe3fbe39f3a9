# SPDX-License-Identifier: Apache-2.0
"""A lab of one's own: brought up from nothing, taken down at the end."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.lab import settings, up
from testbed.lab.errors import LabError


@contextmanager
def fresh_lab(*options: str) -> Iterator[None]:
    """`options` of `lab up`. Raises LabError where a lab is up, or when this one does not come up,
    with what `lab` said of it.
    """
    if up.is_up():
        raise LabError("the lab is up: `testbed/lab/lab down` first, this needs a fresh one")
    try:
        _lab("up", *options)
        yield
    finally:
        _lab("down")


def _lab(*argv: str) -> None:
    """A process of its own: what it starts must not stay our children."""
    with tempfile.TemporaryFile("w+") as said:  # a pipe would stay open in what it starts
        done = subprocess.run([str(settings.LAB / "lab"), *argv], stdout=said, stderr=said)
        said.seek(0)
        if done.returncode:
            raise LabError(f"lab {' '.join(argv)}: {said.read()}")
