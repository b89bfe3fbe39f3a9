# SPDX-License-Identifier: Apache-2.0
"""Names of files that a command is asked to write: refused before the work rather than after it.

Both raise argparse.ArgumentTypeError.
"""

import argparse
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
    return path
