# SPDX-License-Identifier: Apache-2.0
"""A server that hangs: its processes are stopped, while its kernel still takes connections."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The process and its children, parents first: then nobody starts another child."""
    stopped: list[int] = []
    _stop(pid, stopped)
    try:
        yield
    finally:
        for one in reversed(stopped):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def _stop(pid: int, stopped: list[int]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)
        for child in _children(pid):
            _stop(child, stopped)


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in listed for child in path.read_text().split()]
