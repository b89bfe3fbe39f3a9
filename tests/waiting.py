# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition with a deadline: the only sleep that tests may use."""

import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Any

STRETCH = float(os.environ.get("NOVA_VP_STRETCHED_DEADLINES", "1"))
"""By what a slower machine multiplies deadlines: an emulated one beside other work is."""


def wait_until(condition: Callable[[], Any], what: str, deadline_s: float = 20.0) -> Any:
    """The first true value of `condition`, polled."""
    deadline_s *= STRETCH
    end_s = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < end_s, f"not within {deadline_s:.0f} s: {what}"
        time.sleep(0.01)
    return value


def answers_on(port: int) -> bool:
    """Whether somebody on this machine takes TCP connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
