# SPDX-License-Identifier: Apache-2.0
"""A server that hangs: its processes are stopped, while its kernel still takes connections."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import wait_until


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
        # A thread that runs on another CPU may answer somebody before it stops.
        wait_until(lambda: _is_stopped(pid), f"process {pid} to stop")
        for child in _children(pid):
            _stop(child, stopped)


def _is_stopped(pid: int) -> bool:
    try:
        states = {path.read_text().rpartition(")")[2].split()[0] for path in _tasks(pid, "stat")}
    except FileNotFoundError:  # A thread has just ended.
        return False
    return states <= {"T", "Z"}


def _children(pid: int) -> list[int]:
    return [int(child) for path in _tasks(pid, "children") for child in path.read_text().split()]


def _tasks(pid: int, file: str) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").glob(f"*/{file}")
