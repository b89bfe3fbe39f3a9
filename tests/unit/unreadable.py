# SPDX-License-Identifier: Apache-2.0
"""Files of a state folder that nobody can read, root included, each as a function of the path."""

from collections.abc import Callable
from pathlib import Path


def cut_off(path: Path) -> None:
    path.write_text("{")


def of_other_bytes(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def in_a_loop(path: Path) -> None:
    """As a disk that fails: opening it is an OSError."""
    path.symlink_to(path.name)


UNREADABLE: tuple[Callable[[Path], None], ...] = (cut_off, of_other_bytes, in_a_loop)
