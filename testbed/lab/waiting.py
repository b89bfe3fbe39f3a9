# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition: the only place of the lab that sleeps. Imports nothing of the lab."""

import time
from collections.abc import Callable
from typing import TypeVar

from testbed.lab.errors import LabError

T = TypeVar("T")


def wait_for(probe: Callable[[], T], what: str, *, deadline_s: float, interval_s: float = 0.1) -> T:
    """The first true value of `probe`; raises LabError naming `what` after the deadline."""
    end_at = time.monotonic() + deadline_s
    while True:
        if value := probe():
            return value
        if time.monotonic() >= end_at:
            raise LabError(f"waited {deadline_s:.0f} s for {what}")
        time.sleep(interval_s)
