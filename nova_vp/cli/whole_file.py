# SPDX-License-Identifier: Apache-2.0
"""A file is written whole or not at all: what stands there stays until the new one is finished."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write meanwhile: beside it. Raises OSError with the path that was asked for."""
    unfinished = path.resolve().with_name(f".nova-vp-{os.getpid()}{path.suffix}")
    try:
        yield unfinished
        os.replace(unfinished, path.resolve())
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(path)) from exc
    finally:
        unfinished.unlink(missing_ok=True)
