# SPDX-License-Identifier: Apache-2.0
"""Names of files that a command is asked to write: refused before the work rather than after it.

Both raise argparse.ArgumentTypeError.
"""

import argparse
import os
import tempfile
from pathlib import Path

PICTURES = (".png", ".svg", ".pdf")


def picture(text: str) -> Path:
    if Path(text).suffix not in PICTURES:
        raise argparse.ArgumentTypeError(
            f"{text}: use a name that ends in one of {', '.join(PICTURES)}"
        )
    return new_file(text)


def new_file(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} is not a directory; create it first")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a directory; give a file name")
    if path.exists() and not path.is_file():
        # It would be replaced, by root even where it is /dev/null.
        raise argparse.ArgumentTypeError(f"{path} is not a regular file; give another name")
    _check_writable(Path(os.path.realpath(path)).parent)
    return path


def _check_writable(folder: Path) -> None:
    """By writing: what rights say is not what a file system does."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as exc:
        raise argparse.ArgumentTypeError(
            f"{folder}: {exc.strerror}; name a directory that you may write to"
        ) from exc
