# SPDX-License-Identifier: Apache-2.0
"""Whether a back end hangs, so that not everybody has to find it out by waiting.

A deadline alone bounds the wait of one caller: with a few threads for many clients, those who wait
hold up the others. Here the first wait in vain is the last one, until a look on a thread of its own
is answered.
"""

import logging
import threading
import time
from collections.abc import Callable

LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 0.5

Look = Callable[[], object]
"""Asks the back end for anything. Raises something that `has_timed_out` while it hangs."""


def has_timed_out(exc: BaseException | None) -> bool:
    """Whether it came of a wait in vain: drivers and libraries wrap that."""
    while exc is not None:
        if isinstance(exc, TimeoutError):
            return True
        exc = exc.__cause__ or exc.__context__
    return False


class Outage:
    """Of one back end, for one process. Thread-safe."""

    def __init__(self, name: str) -> None:
        """`name`: of the back end, for the log."""
        self._name = name
        self._lock = threading.Lock()
        self._looker: threading.Thread | None = None

    @property
    def is_on(self) -> bool:
        """Whether to refuse rather than to wait. Never on the thread that looks."""
        looker = self._looker
        return looker is not None and looker is not threading.current_thread()

    def note(self, exc: BaseException, look: Look) -> None:
        """A call has raised this: if it waited in vain, the outage is on until `look` is answered,
        be it by an error."""
        if not has_timed_out(exc):
            return
        with self._lock:
            if self._looker is not None:
                return
            self._looker = threading.Thread(
                target=self._look_on, args=(look,), name="outage", daemon=True
            )
            self._looker.start()
        LOG.error("%s hangs: requests that need it are refused until it answers", self._name)

    def _look_on(self, look: Look) -> None:
        while not _is_answered(look):
            time.sleep(LOOK_EVERY_S)
        with self._lock:
            self._looker = None
        LOG.info("%s answers again", self._name)


def _is_answered(look: Look) -> bool:
    try:
        look()
    except Exception as exc:  # whatever it is, those who ask are told soon
        return not has_timed_out(exc)
    return True
