# SPDX-License-Identifier: Apache-2.0
"""Signals become calls on a thread of their own.

A Python signal handler runs between two lines of the main thread, whichever locks that holds, and
not at all while it is in a library. Here the interpreter only writes a byte, whatever it is doing.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping

LOG = logging.getLogger(__name__)


def listen(calls: Mapping[signal.Signals, Callable[[], None]]) -> None:
    """From the main thread, once for the life of the process. Called is what stands in `calls` when
    the signal comes; what it raises is logged."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in calls:
        signal.signal(number, lambda *_: None)  # The default would end us.
    threading.Thread(target=_serve, args=(reading, calls), name="signals", daemon=True).start()


def _serve(reading: int, calls: Mapping[signal.Signals, Callable[[], None]]) -> None:
    while True:
        for number in os.read(reading, 64):
            call = calls.get(signal.Signals(number))
            if call:
                _try(call, number)


def _try(call: Callable[[], None], number: int) -> None:
    try:
        call()
    except Exception:  # the next signal must be heard too
        LOG.exception("signal %d was not obeyed", number)
